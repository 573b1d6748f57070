"""Parameters of a checkpoint in the place of a model's.

Strict: every parameter of the model is read and every one of the checkpoint is
used, in the same shape, by a model that computes the same, unless
`InitialCheckpoint` says otherwise.
"""

from collections.abc import Collection, Iterator, Sequence
import dataclasses
import math
from typing import Any

from flax import linen as nn
import gin
import jax

from transformer_zoo import parameter_names
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.interop.tensors import assignment as assignment_lib
from transformer_zoo.interop.tensors.assignment import Assignment
from transformer_zoo.interop.tensors.assignment import Rules
from transformer_zoo.modules import comparison
from transformer_zoo.peft import substitution
from transformer_zoo.runs import checkpoint_sources
from transformer_zoo.runs.checkpoint_sources import Source
from transformer_zoo.training.checkpoints import reading
from transformer_zoo.training.sharding import placement

# A text that tells vocabularies apart.
_PROBE = "translate English to German: The house is wonderful."
# Fields of models that show in the names and shapes of parameters.
_SHOWN = frozenset(
  {
    "d_ff",
    "features",
    "inner_features",
    "norm_name",
    "num_buckets",
    "num_embeddings",
    "num_layers",
    "num_positions",
  }
)


@dataclasses.dataclass(frozen=True)
class Restoration:
  """Parameters of a checkpoint that are known to fit and not yet read.

  Attributes:
    source: the checkpoint.
    assignment: which tensor is which parameter.
    note: a sentence for the user, or "".
  """

  source: Source
  assignment: Assignment
  note: str = ""

  @classmethod
  def of(
    cls, source: Source, boxed_params: Any, rules: Rules | None = None
  ) -> "Restoration":
    """Finds every parameter of a model in a checkpoint.

    Args:
      source: the checkpoint.
      boxed_params: the model's, or their shapes, with logical axes.
      rules: what may differ; nothing by default.

    Raises:
      UserError: they are others.
    """
    found = assignment_lib.assign(
      placement.parameters_of(boxed_params),
      source.tensors,
      rules or Rules(),
      source.name,
      source.advice,
    )
    return cls(source, found)

  def report(self) -> Iterator[str]:
    """Yields lines: how many are read from where, and what is not."""
    tensors, resized, unused = self.assignment
    fresh = [name for name, tensor in tensors.items() if tensor is None]
    numbers = sum(math.prod(t.shape) for t in tensors.values() if t is not None)
    yield (
      f"initial parameters: {len(tensors) - len(fresh)} of {len(tensors)} "
      f"({numbers:,} numbers) from {self.source.name}"
    )
    for what, details in (
      ("fresh", dict.fromkeys(fresh, "")),
      ("resized", resized),
      ("not used", dict.fromkeys(unused, "")),
    ):
      for name, detail in parameter_names.in_groups(details):
        yield f"  {what}: {name} {detail}".rstrip()
    if self.note:
      yield f"  note: {self.note}"

  def place(self, abstract_params: Any, fresh: Any = None) -> Any:
    """Reads the parameters into the devices' memory.

    Args:
      abstract_params: shapes, dtypes and shardings of the model's.
      fresh: initial ones like those, which are used up; needed where some are
        not read or have further rows.
    """
    if not self._is_as_saved(abstract_params):
      return placement.place(self.assignment.tensors, abstract_params, fresh)
    # Orbax reads all arrays at once, and of each what this process needs.
    for leaf in jax.tree.leaves(fresh):
      leaf.delete()
    return reading.restore_params(self.source.path, abstract_params)

  def _is_as_saved(self, abstract_params) -> bool:
    there = self.source.tensors
    return (
      self.source.of_a_run
      and not self.assignment.resized
      and all(there.get(n) is t for n, t in self.assignment.tensors.items())
      and reading.has_layout(self.source.path, abstract_params)
    )


def check_mathematics(
  model: nn.Module, source: Source, allowed: Collection[str] = ()
) -> None:
  """Compares what shapes do not show with the model of a checkpoint.

  Args:
    model: that takes its parameters.
    source: the checkpoint.
    allowed: fields that may differ, by their whole or last names.

  Raises:
    UserError: another field differs.
  """
  other = source.make_model()
  if other is None:
    return
  if not substitution.substitutes(other):
    # What is put in changes nothing at first, and has no field to compare.
    model = substitution.original(model)
  different = {
    field: values
    for field, values in comparison.differences(model, other).items()
    if field.rpartition(".")[2] not in {*allowed, *_SHOWN}
    and field not in allowed
  }
  if different:
    lines = [f"  {field}: {values}" for field, values in different.items()]
    raise UserError(
      f"the model computes something else than that of {source.name}:\n"
      + "\n".join(lines)
      + "\n(InitialCheckpoint.other_fields names those that may differ)"
      + source.advice
    )


@gin.register
@dataclasses.dataclass(frozen=True)
class InitialCheckpoint:
  r"""A checkpoint to start from, and what in it may be otherwise.

  Attributes:
    path: a run folder or a step in its checkpoints/, a Hugging Face directory,
      or a T5X checkpoint; None for fresh parameters.
    assignments: ordered (regular expression, name), as T5X's assignment_map
      but for its `target/`: a
      parameter that an expression matches as a whole is read from that name
      (\1 is the first group), or stays fresh if it is None. Layers are always
      `layers_0`, `layers_1`, ... here.
    ignore_unused: passes over parameters of the checkpoint that nothing reads.
    resize_vocabulary: embeddings and logits may have other numbers of rows: the
      first are read, further ones stay fresh, those that no id uses are cut.
    resize_positions: likewise learned positions, any of which may be cut.
    other_fields: fields in which the model may differ from the checkpoint's
      although the parameters fit, by their whole or last names.
    resume: goes on with the steps and Adafactor's state of the checkpoint, as
      T5X does; TRAIN_STEPS counts those steps. Otherwise only the parameters
      are taken.
    loss_scale: with `resume`, how many times the mean over the targets the loss
      was in the checkpoint's training: T5X divides the sum over the targets of
      a batch by its `loss_normalizing_factor`, or by nothing.
  """

  path: str | None = None
  assignments: Sequence[Sequence[str | None]] = ()
  ignore_unused: bool = False
  resize_vocabulary: bool = False
  resize_positions: bool = False
  other_fields: Sequence[str] = ()
  resume: bool = False
  loss_scale: float = 1.0

  def __post_init__(self):
    if not 0 < self.loss_scale < math.inf:
      raise UserError(
        f"InitialCheckpoint.loss_scale is {self.loss_scale}; it has to be a "
        "positive number, 1 where the loss was a mean over targets"
      )
    if self.path == "":
      raise UserError(
        "INITIAL_CHECKPOINT_PATH is '', which names no checkpoint"
      )

  def open(
    self,
    model: nn.Module,
    boxed_params: Any,
    vocabularies: Sequence[Vocabulary],
    *,
    start_id: int | None = None,
  ) -> Restoration:
    """Finds every parameter in the checkpoint; reads none.

    Args:
      model: that is to start.
      boxed_params: its parameters, or their shapes, with logical axes.
      vocabularies: whose ids it will read.
      start_id: what its decoder will first be fed; None where nobody asks.

    Raises:
      UserError: there is no checkpoint, or it is not the model's.
    """
    source = checkpoint_sources.open_source(self.path)
    if start_id is not None:
      _check_start(model, source, start_id)
    before = source.find_vocabulary()
    resized = {
      "positions": self.resize_positions,
      "vocabulary": self.resize_vocabulary,
    }
    known = [*vocabularies, *([before] if before else ())]
    rules = Rules(
      self.assignments,
      ignore_unused=self.ignore_unused,
      resized={rows for rows, allowed in resized.items() if allowed},
      rows_in_use={"vocabulary": max(v.size for v in known)},
    )
    restoration = Restoration.of(source, boxed_params, rules)
    check_mathematics(model, source, self.other_fields)
    note = vocabulary_note(before, vocabularies)
    return dataclasses.replace(restoration, note=note)


def _check_start(model: nn.Module, source: Source, start_id: int) -> None:
  """Refuses a decoder that is first fed another id than before."""
  before = source.find_start_id()
  if before in (None, start_id):
    return
  fields = f"EncoderDecoderFeatures.bos_id={before}"
  if not hasattr(model, "encoder"):
    fields = (
      f"LanguageModelFeatures.bos_id={before}, or that of the features that "
      "CONVERTER names"
    )
  raise UserError(
    f"the decoder of {source.name} was first fed id {before}, and would be fed "
    f"{start_id} here; set {fields}"
  )


def first_other(
  vocabulary: Vocabulary, others: Sequence[Vocabulary]
) -> Vocabulary | None:
  """The first that has other ids for a text; files of a kind may differ."""
  expected = vocabulary.encode(_PROBE)
  return next((v for v in others if v.encode(_PROBE) != expected), None)


def vocabulary_note(
  before: Vocabulary | None, vocabularies: Sequence[Vocabulary]
) -> str:
  """A sentence where a checkpoint is asked to read other ids; or "".

  Args:
    before: the vocabulary whose ids it read, None where that is not known.
    vocabularies: whose ids it will read.
  """
  other = before and first_other(before, vocabularies)
  if not other:
    return ""
  return f"its vocabulary {before.path!r} has other ids than {other.path!r}"
