"""Parameters and optimizer state of a checkpoint in the place of a run's.

Strict: every parameter of the model is read and every one of the checkpoint is
used, in the same shape, by a model that computes the same, unless
`InitialCheckpoint` allows otherwise. Heads of an encoder are a run's own: those
that a checkpoint lacks begin anew, and those that a run lacks are left out.
Where a run resumes the checkpoint's
training, steps are counted on, so that schedules, data and draws go on.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
import dataclasses
import math
import re
import sys
from typing import Any

from flax import linen as nn
import jax
import numpy as np

from transformer_zoo import parameter_names
from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.checkpoints.checkpoint_sources import Source
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.modules import comparison
from transformer_zoo.parameter_names import Parameter
from transformer_zoo.peft import substitution
from transformer_zoo.peft import trainable as trainable_lib
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.processes import distributed
from transformer_zoo.runs.loading.initial_checkpoint import InitialCheckpoint
from transformer_zoo.tensors import assignment as assignment_lib
from transformer_zoo.tensors import rounding
from transformer_zoo.tensors.assignment import Assignment
from transformer_zoo.tensors.assignment import Rules
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.checkpoints import reading
from transformer_zoo.training.optimizers.adafactor import AdafactorState
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding import placement
from transformer_zoo.training.sharding.partitioning import Partitioning
from transformer_zoo.training.state import TrainState

# A text that identifies a vocabulary.
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


# Heads whose outputs have names.
_NAMED_HEADS = {"heads/classes", "heads/tags"}


@dataclasses.dataclass(frozen=True)
class Restoration:
  """Parameters of a checkpoint that are known to fit and are not yet read.

  Attributes:
    source: The checkpoint.
    assignment: The assignment of tensors to parameters.
    note: A sentence for the user, or "".
  """

  source: Source
  assignment: Assignment
  note: str = ""

  @classmethod
  def find(
    cls, source: Source, boxed_params: Any, rules: Rules | None = None
  ) -> "Restoration":
    """Finds every parameter of a model in a checkpoint.

    Args:
      source: The checkpoint.
      boxed_params: The model's parameters, or their shapes, with logical axes.
      rules: The rules of what may differ; None if nothing may.

    Raises:
      UserError: The parameters differ.
    """
    found = assignment_lib.assign(
      placement.parameters_of(boxed_params),
      source.tensors,
      rules or Rules(),
      source.name,
      source.advice,
    )
    return cls(source, found)

  def in_order(self, class_names: Sequence[str]) -> "Restoration":
    """The same with the classes of a head in the order of a task.

    Published classifiers have their classes in other orders than ours; the
    outputs of a head go by the names where both sides have the same ones, but
    for case, spaces and hyphens. Other names are noted.

    Args:
      class_names: The classes or tags of the task in order; none changes
        nothing.
    """
    heads = self.read_heads() & _NAMED_HEADS
    there = self.source.find_class_names() if class_names and heads else ()
    names, others = ([*map(_plain, side)] for side in (class_names, there))
    if not others or names == others:
      return self
    listed = f"its classes are {', '.join(there)}"
    if len({*others}) < len(others) or sorted(names) != sorted(others):
      said = f"{listed}; the task has {', '.join(class_names)}"
      return dataclasses.replace(self, note=_joined(self.note, said))
    order = [others.index(name) for name in names]
    outputs = [f"{h}/out/{name}" for h in heads for name in ("kernel", "bias")]
    tensors = {
      name: _ordered(tensor, order)
      if tensor is not None and name in outputs
      else tensor
      for name, tensor in self.assignment.tensors.items()
    }
    return dataclasses.replace(
      self,
      assignment=self.assignment._replace(tensors=tensors),
      note=_joined(self.note, f"{listed}, which are put in the task's order"),
    )

  def report(self, trainable: Trainable = trainable_lib.ALL) -> Iterator[str]:
    """Yields lines on the parameters that are read, and on the others.

    Args:
      trainable: What the run trains; parameters that are neither read nor
        trained are reported.
    """
    tensors, resized, unused = self.assignment
    tensors = {
      name: rounding.original(tensor)
      for name, tensor in tensors.items()
      if name == rounding.kernel_of(name)
    }
    fresh = [name for name, tensor in tensors.items() if tensor is None]
    read = self.read_heads()
    drawn = [name for name in fresh if not trainable.trains(name)]
    numbers = sum(math.prod(t.shape) for t in tensors.values() if t is not None)
    yield (
      f"initial parameters: {len(tensors) - len(fresh)} of {len(tensors)} "
      f"({numbers:,} numbers) from {self.source.name}"
    )
    for what, details in (
      ("fresh", dict.fromkeys(_by_heads(fresh, read), "")),
      ("resized", resized),
      ("not used", dict.fromkeys(_by_heads(unused, read), "")),
    ):
      for name, detail in parameter_names.in_groups(details):
        yield f"  {what}: {name} {detail}".rstrip()
    if drawn:
      names = parameter_names.in_groups(dict.fromkeys(_by_heads(drawn, read)))
      yield (
        f"  note: {', '.join(name for name, _ in names)}: neither read nor "
        "trained (Trainable.parameters), so that the initial values stay"
      )
    if self.note:
      yield f"  note: {self.note}"

  def read_heads(self) -> set[str]:
    """The heads of which parameters are read (`parameter_names.head_of`)."""
    tensors = self.assignment.tensors.items()
    return {parameter_names.head_of(n) for n, t in tensors if t is not None}

  def place(self, abstract_params: Any, fresh: Any = None) -> Any:
    """Reads the parameters into the devices' memory.

    Args:
      abstract_params: The shapes, dtypes and shardings of the parameters.
      fresh: Initial parameters, which are used up; required if some parameters
        are not read or have further rows.
    """
    if not self._is_as_saved(abstract_params):
      return placement.place(self.assignment.tensors, abstract_params, fresh)
    # Orbax reads all arrays at once, and of each what this process needs.
    for leaf in jax.tree.leaves(fresh):
      leaf.delete()
    return reading.restore_params(self.source.path, abstract_params)

  def check_resumption(self, program: TrainProgram, train_steps: int) -> int:
    """Compares the checkpoint's optimizer state with a run's.

    Args:
      program: The program of the run.
      train_steps: The last step of the run.

    Returns:
      The number of steps that the checkpoint has made.

    Raises:
      UserError: The checkpoint has no optimizer state, another one, or all the
        steps already, or the run divides its steps among its layers.
    """
    source, abstract = self.source, program.abstract_state
    if program.trainable.unfreezing is not None:
      raise UserError(
        "InitialCheckpoint.resume counts the steps of the checkpoint, and "
        "gradual unfreezing divides those from 0 on among the layers; leave "
        "one of the two out"
      )
    moments = source.find_moments()
    if moments is None:
      raise UserError(
        f"{source.name} has no state of Adafactor to resume; leave "
        "InitialCheckpoint.resume out"
      )
    if not isinstance(abstract.opt_state, AdafactorState):
      raise UserError(
        "InitialCheckpoint.resume goes on with Adafactor's state in float32, "
        "and this run has another optimizer or state_dtype; leave it out"
      )
    if source.steps >= train_steps:
      raise UserError(
        f"{source.name} has made {source.steps} steps already; TRAIN_STEPS="
        f"{train_steps} counts them too and must be larger"
      )
    wanted = placement.shapes(abstract.opt_state.moments)
    there = {name: tensor.shape for name, tensor in moments.items()}
    for name in sorted(wanted.keys() | there.keys()):
      if wanted.get(name) != there.get(name):
        raise UserError(
          f"Adafactor's state of {source.name} is factored otherwise: {name} "
          f"is {there.get(name, 'not there')} instead of "
          f"{wanted.get(name, 'nothing')}; adafactor.min_dim_size_to_factor "
          "says which matrices are factored here, and T5X factors all of "
          "scanned layers"
        )
    return source.steps

  def resume(
    self,
    abstract: TrainState,
    state: TrainState,
    loss_scale: float = 1.0,
  ) -> TrainState:
    """Returns a run's state with the steps and moments of the checkpoint.

    `check_resumption` has to have passed.

    Args:
      abstract: The shapes, dtypes and shardings of the state.
      state: The state of the run; its moments are used up.
      loss_scale: The factor of `InitialCheckpoint`; moments are of squared
        gradients.
    """
    moments = {
      name: _divided(tensor, loss_scale**2)
      for name, tensor in self.source.find_moments().items()
    }
    steps = np.asarray(self.source.steps, np.int32)
    return state.replace(
      step=jax.device_put(steps, abstract.step.sharding),
      opt_state=AdafactorState(
        count=jax.device_put(steps, abstract.opt_state.count.sharding),
        moments=placement.place(
          moments,
          abstract.opt_state.moments,
          state.opt_state.moments,
        ),
      ),
    )

  def _is_as_saved(self, abstract_params) -> bool:
    there = self.source.tensors
    return (
      self.source.of_a_run
      and not self.assignment.resized
      and all(there.get(n) is t for n, t in self.assignment.tensors.items())
      and reading.has_layout(self.source.path, abstract_params)
    )


def _by_heads(names: Sequence[str], read: Collection[str]) -> list[str]:
  """Names of parameters; a head that is not read at all is one name."""
  heads = [parameter_names.head_of(name) for name in names]
  return [
    head if head and head not in read else name
    for name, head in zip(names, heads, strict=True)
  ]


def _heads_apart(
  wanted: Mapping[str, Parameter], there: Mapping[str, Tensor]
) -> set[str]:
  """Heads that begin anew, or are left out.

  Those of which one side has no parameter, poolers among them, and those that
  have another number of classes.
  """
  ours = {parameter_names.head_of(name) for name in wanted}
  theirs = {parameter_names.head_of(name) for name in there}
  outputs = {head: f"{head}/out/kernel" for head in ours & theirs}
  return ours ^ theirs | {
    head
    for head, name in outputs.items()
    if name in wanted
    and name in there
    and wanted[name].shape[:-1] == there[name].shape[:-1]
    and wanted[name].shape != there[name].shape
  }


def check_mathematics(
  model: nn.Module,
  source: Source,
  allowed: Collection[str] = (),
  read_heads: Collection[str] | None = None,
) -> None:
  """Compares a model with a checkpoint's in what shapes do not show.

  Args:
    model: The model that takes the parameters.
    source: The checkpoint.
    allowed: The fields that may differ, by their whole or last names.
    read_heads: The heads that are read (`Restoration.read_heads`); others are
      not compared. None compares all.

  Raises:
    UserError: Another field differs.
  """
  other = source.make_model()
  if other is None:
    return
  if model.offers.student is not None:
    # A student is to be another one than the checkpoint's model.
    model, read_heads = model.teacher, None
  if not substitution.substitutes(other):
    # A substitution changes nothing at first, and has no field to compare.
    model = substitution.original(model)
  kept = [each.offers.fine_tuned for each in (model, other)]
  if kept.count(None) == 1:
    model, other = kept[0] or model, kept[1] or other
  different = {
    field: values
    for field, values in comparison.differences(model, other).items()
    if field.rpartition(".")[2] not in {*allowed, *_SHOWN}
    and field not in allowed
    and (read_heads is None or _is_compared(field, read_heads))
  }
  if different:
    lines = [f"  {field}: {values}" for field, values in different.items()]
    raise UserError(
      f"the model computes something else than the model of {source.name}:\n"
      + "\n".join(lines)
      + "\n(InitialCheckpoint.other_fields names those that may differ)"
      + source.advice
    )


def _is_compared(field: str, read_heads: Collection[str]) -> bool:
  """Whether a field is of no head, or of one that is read."""
  path = field.replace("heads.parts.", "heads/", 1).replace(".", "/")
  head = parameter_names.head_of(f"{path}/")
  return not head or head in read_heads


def open_initial(
  initial: InitialCheckpoint,
  model: nn.Module,
  boxed_params: Any,
  vocabularies: Sequence[Vocabulary],
  *,
  start_id: int | None = None,
  class_names: Sequence[str] = (),
) -> Restoration:
  """Finds every parameter of a model in its initial checkpoint; reads none.

  Args:
    initial: The checkpoint, and how the run may differ from it.
    model: The model that starts from the checkpoint.
    boxed_params: The model's parameters, or their shapes, with logical axes.
    vocabularies: The vocabularies whose ids it will read.
    start_id: The id that its decoder is fed first; None skips the comparison
      with the checkpoint's.
    class_names: The classes or tags of its tasks in order, if they have the
      same ones.

  Raises:
    UserError: There is no checkpoint, or its parameters are not the model's.
  """
  source = checkpoint_sources.open_source(initial.path)
  if start_id is not None:
    _check_start(model, source, start_id)
  before = source.find_vocabulary()
  resized = {
    "positions": initial.resize_positions,
    "vocabulary": initial.resize_vocabulary or initial.match_pieces,
  }
  known = [*vocabularies, *([before] if before else ())]
  if initial.match_pieces:
    known = vocabularies
  rules = Rules(
    initial.assignments,
    renamed=initial.renamed,
    fresh=initial.fresh,
    fresh_misfits=initial.fresh_misfits,
    ignore_unused=initial.ignore_unused,
    resized={rows for rows, allowed in resized.items() if allowed},
    rows_in_use={"vocabulary": max(v.size for v in known)},
  )
  wanted = placement.parameters_of(boxed_params)
  poolers = {n: t for n, t in source.spare.items() if n in wanted}
  source = dataclasses.replace(source, tensors={**source.tensors, **poolers})
  apart = _heads_apart(wanted, source.tensors)
  rules = dataclasses.replace(rules, heads_apart=apart)
  found = Restoration.find(source, boxed_params, rules)
  read_heads = found.read_heads()
  check_mathematics(model, source, initial.other_fields, read_heads)
  note = vocabulary_note(before, vocabularies)
  if note and model.offers.student is not None:
    raise UserError(
      f"{source.name} cannot teach: {note}; train on a task of its vocabulary"
    )
  if initial.match_pieces:
    if before is None:
      raise UserError(
        f"InitialCheckpoint.match_pieces compares pieces of vocabularies, and "
        f"the vocabulary of {source.name} is unknown; put its files beside it"
      )
    found, note = match_pieces(found, wanted, before, vocabularies[0])
  return dataclasses.replace(found, note=note).in_order(class_names)


def match_pieces(
  found: Restoration,
  wanted: Mapping[str, Parameter],
  before: Vocabulary,
  after: Vocabulary,
) -> tuple[Restoration, str]:
  """Tables whose rows go by the pieces of vocabularies, and a note."""
  old = {piece: i for i, piece in enumerate(before.pieces()) if piece}
  pairs = [
    (i, old[piece]) for i, piece in enumerate(after.pieces()) if piece in old
  ]
  places = np.array(pairs, np.int64).reshape(-1, 2)
  tensors = dict(found.assignment.tensors)
  for name, tensor in tensors.items():
    axes = wanted[name].axes
    if tensor is not None and "vocab" in axes:
      tensors[name] = _rows_by_pieces(
        tensor, wanted[name].shape, axes.index("vocab"), places
      )
  assignment = found.assignment._replace(tensors=tensors, resized={})
  note = (
    f"{len(pairs):,} of {after.size:,} pieces keep their rows; the others "
    "begin at the mean"
  )
  return dataclasses.replace(found, assignment=assignment), note


def _rows_by_pieces(
  tensor: Tensor, shape: Sequence[int], axis: int, places: np.ndarray
) -> Tensor:
  """A table with some rows of another table; its other rows are their mean.

  Args:
    tensor: The other table.
    shape: The shape of the result.
    axis: The axis of the rows.
    places: [n, 2], a row of the result and the row of the other table.
  """

  def read() -> np.ndarray:
    rows = np.moveaxis(tensor.read(), axis, 0)
    result = np.broadcast_to(
      rows.mean(0, dtype=np.float64).astype(rows.dtype),
      (shape[axis], *rows.shape[1:]),
    ).copy()
    result[places[:, 0]] = rows[places[:, 1]]
    return np.moveaxis(result, 0, axis)

  return Tensor(tuple(shape), tensor.dtype, read)


def _check_start(model: nn.Module, source: Source, start_id: int) -> None:
  """Raises UserError if the decoder starts with another id than before."""
  before = source.find_start_id()
  if before in (None, start_id):
    return
  fields = f"EncoderDecoderFeatures.bos_id={before}"
  if model.offers.continues:
    fields = (
      f"LanguageModelFeatures.bos_id={before}, or the bos_id of the features "
      "that CONVERTER names"
    )
  raise UserError(
    f"the decoder of {source.name} was first fed id {before}, and would be fed "
    f"{start_id} here; set {fields}"
  )


def first_other(
  vocabulary: Vocabulary, others: Sequence[Vocabulary]
) -> Vocabulary | None:
  """Returns the first of the others that encodes a text differently."""
  expected = vocabulary.encode(_PROBE)
  return next((v for v in others if v.encode(_PROBE) != expected), None)


def vocabulary_note(
  before: Vocabulary | None, vocabularies: Sequence[Vocabulary]
) -> str:
  """Returns a sentence if a checkpoint will read other ids than before, or "".

  Args:
    before: The vocabulary of the checkpoint, None if it is unknown.
    vocabularies: The vocabularies whose ids the checkpoint will read.
  """
  other = before and first_other(before, vocabularies)
  if not other:
    return ""
  return f"its vocabulary {before.path!r} has other ids than {other.path!r}"


def restore(
  model: nn.Module,
  partitioning: Partitioning,
  mesh: jax.sharding.Mesh,
  batch_size: int,
  *checkpoint_paths: str,
  vocabularies: Sequence[Vocabulary] = (),
  class_names: Sequence[str] = (),
):
  """Reads the parameters of a checkpoint and lays them out on the mesh.

  Args:
    model: The architecture, or an ensemble of as many members as paths.
    partitioning: The rules of the layout.
    mesh: The mesh of devices.
    batch_size: The number of rows of the batches to come.
    *checkpoint_paths: The paths, as `checkpoint_sources.open_source` takes
      them; of several for one architecture the mean is read.
    vocabularies: The vocabularies whose ids the model will read; a note on
      stderr reports that the checkpoint's ids differ.
    class_names: The classes or tags of the tasks in order, as in `in_order`.

  Raises:
    UserError: Model or batch do not divide over the mesh, or the checkpoint is
      damaged or does not fit the model.
  """
  if members := model.offers.members:
    pairs = zip(members, checkpoint_paths, strict=True)
    return {
      f"members_{i}": restore(
        member,
        partitioning,
        mesh,
        batch_size,
        path,
        vocabularies=vocabularies,
        class_names=class_names,
      )
      for i, (member, path) in enumerate(pairs)
    }
  boxed = state_lib.abstract_variables(model)
  partitioning.check(mesh, boxed, batch_size)
  sources = [*map(checkpoint_sources.open_source, checkpoint_paths)]
  source = sources[-1]
  if not source.of_a_run:  # A run's own model is changed on purpose here.
    check_mathematics(model, source)
  if len(sources) > 1:
    from transformer_zoo.checkpoints import averaging

    means = averaging.mean([each.tensors for each in sources])
    # No folder holds the means: `_is_as_saved` has to be false.
    source = dataclasses.replace(source, tensors=means, of_a_run=False)
  note = vocabulary_note(source.find_vocabulary(), vocabularies)
  found = Restoration.find(source, boxed)
  found = dataclasses.replace(found, note=note).in_order(class_names)
  if found.note and distributed.is_first():
    print(f"note on {source.name}: {found.note}", file=sys.stderr, flush=True)
  shapes = state_lib.abstract_params(model)
  shardings = partitioning.shardings(mesh, boxed, shapes)
  return found.place(partitioning_lib.abstract(shapes, shardings))


def _plain(name: str) -> str:
  return re.sub(r"[\s_-]+", "_", name.lower())


def _joined(note: str, said: str) -> str:
  return f"{note}; {said}" if note else said


def _ordered(tensor: Tensor, order: Sequence[int]) -> Tensor:
  """The tensor with its last numbers in another order."""
  return Tensor(
    tensor.shape, tensor.dtype, lambda: tensor.read()[..., list(order)]
  )


def _divided(tensor: Tensor, divisor: float) -> Tensor:
  return Tensor(
    tensor.shape,
    tensor.dtype,
    lambda: tensor.read() / tensor.dtype.type(divisor),
  )
