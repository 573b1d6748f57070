"""Answers of a checkpoint to texts, or log-likelihoods of given targets.

All examples are read and checked before anything is computed, unless they are
answered one by one. With a journal, finished batches are kept on disk under a
fingerprint of what answers depend on (`fingerprint.py`), and a run that was
killed continues after them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import functools
import itertools
import pathlib
import sys
from typing import Any

from flax import linen as nn
import gin
import jax

from transformer_zoo.data.features import converters
from transformer_zoo.data.features import forms
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.effects import Place
from transformer_zoo.effects import Speed
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.journal import Journal
from transformer_zoo.processes import distributed
from transformer_zoo.runs import fingerprint
from transformer_zoo.runs import inputs
from transformer_zoo.runs.answers import answering
from transformer_zoo.runs.answers import encoder_answers
from transformer_zoo.runs.answers import scoring
from transformer_zoo.runs.answers.readings import Reading
from transformer_zoo.runs.loading import ensembles
from transformer_zoo.runs.loading import restoration
from transformer_zoo.training.sharding.partitioning import batch_shares
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE
from transformer_zoo.training.sharding.partitioning import Partitioning

Example = Mapping[str, Any]


@gin.register("infer")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Inference:
  """A checkpoint that answers texts, or scores targets that are given.

  Parameters are read and programs compiled once, by what asks first.

  Attributes:
    model: The architecture.
    checkpoint_path: The path of a run folder or of one of its steps, of a
      Hugging Face directory or of a T5X checkpoint; several paths answer as an
      ensemble.
    task_feature_lengths: The number of tokens of each feature; a note reports
      texts that are longer and cut.
    batch_size: The number of texts of a batch.
    mixture_or_task_name: The name of a prepared mixture, whose vocabulary is
      used; None if `vocabulary_path` is given.
    prepared_dir: The folder of prepared data.
    vocabulary_path: The path of a vocabulary of any kind, used instead of that
      of the mixture.
    extra_ids: The number of sentinels of that vocabulary; None for the usual
      number of its kind.
    partitioning: The mesh of devices and the rules of the layout.
    converter: The layout of a batch (data/features/converters.py).
    decoding: The options of the search for outputs.
    scorer: The class that reads the head of an encoder, as in `evaluate`.
    num_fillings: The number of tokens that an encoder names for each mask.
    reading: What is read off the model instead of its answers (`readings.py`):
      the vector of a text, the weights of attention; None for answers.
    task: The task whose head answers, of a model with a head for each of
      several tasks; None for any other model.
  """

  model: nn.Module
  checkpoint_path: str | Sequence[str]
  task_feature_lengths: Mapping[str, int]
  batch_size: int
  mixture_or_task_name: str | None = None
  prepared_dir: Place[str] = "runs/prepared"
  vocabulary_path: str | None = None
  extra_ids: int | None = None
  partitioning: Speed[Partitioning] = ONE_COPY_PER_DEVICE
  converter: converters.Converter = converters.ENCODER_DECODER
  decoding: DecodingOptions = GREEDY
  scorer: Callable[..., Any] | None = None
  num_fillings: int = 5
  reading: Reading | None = None
  task: str | None = None

  def __post_init__(self):
    if self.task is not None:
      if not getattr(self.converter, "heads", None):
        raise UserError(
          f"infer.task is {self.task!r}, but the model has no heads of tasks; "
          "leave it out"
        )
      of_task = self.converter.of_task(self.task)
      object.__setattr__(self, "converter", of_task)
      object.__setattr__(self, "mixture_or_task_name", self.task)
      object.__setattr__(self, "task", None)

  def changed(self, **changes: Any) -> "Inference":
    """Returns a copy that shares what was read: parameters and vocabulary.

    Args:
      **changes: Attributes that neither of them depends on, as `decoding`,
        `reading` and `num_fillings`.
    """
    copy = dataclasses.replace(self, **changes)
    for name in _READ & self.__dict__.keys():
      copy.__dict__[name] = self.__dict__[name]
    return copy

  def check(self) -> None:
    """Checks all that can be before an example is read.

    Raises:
      UserError: The configuration cannot be used as it is.
    """
    inputs.check_at_least(
      1,
      BATCH_SIZE=self.batch_size,
      **{"infer.num_fillings": self.num_fillings},
    )
    lengths = self.lengths
    inputs.check_vocabulary(
      self.model, self.vocabulary, repr(self.vocabulary.path)
    )
    inputs.check_converter(self.model, self.converter)
    if self.converter.writes:
      scoring.check_decoding(self.model, self.decoding, lengths["targets"])
    if self.reading is not None:
      self.reading.model_of(self.whole_model)

  @functools.cached_property
  def lengths(self) -> dict[str, int]:
    """The number of tokens of every feature."""
    return inputs.whole_lengths(self.converter, self.task_feature_lengths)

  @functools.cached_property
  def vocabulary(self) -> Vocabulary:
    """The vocabulary of texts."""
    return find_vocabulary(
      self.mixture_or_task_name,
      self.prepared_dir,
      self.vocabulary_path,
      self.extra_ids,
      form=self.converter.form,
    )

  @functools.cached_property
  def checkpoint(self) -> Sequence[pathlib.Path]:
    """The folders of the checkpoints."""
    return ensembles.locate(self.checkpoint_path)

  @functools.cached_property
  def whole_model(self) -> nn.Module:
    """The model, or the ensemble of it that several checkpoints make."""
    return ensembles.model_of(self.model, self.checkpoint)

  @functools.cached_property
  def mesh(self) -> jax.sharding.Mesh:
    """The mesh of devices."""
    return self.partitioning.mesh()

  @functools.cached_property
  def params(self) -> Any:
    """The parameters on the mesh."""
    with self.partitioning.activate(self.mesh):
      return restoration.restore(
        self.whole_model,
        self.partitioning,
        self.mesh,
        self.batch_size,
        *self.checkpoint,
        vocabularies=[self.vocabulary],
        class_names=self.class_names,
      )

  @property
  def class_names(self) -> Sequence[str]:
    """The names of the classes or tags of an encoder's head, or none."""
    # A model without the head, or with one for each task, has vectors still.
    if not self.converter.writes and (
      self.converter.heads
      or scoring.head_of(self.converter, self.scorer)
      not in self.model.offers.heads
    ):
      return ()
    return getattr(self._read, "class_names", ())

  @functools.cached_property
  def _read(self) -> Reading | None:
    """What is read off the model; None for what it writes."""
    if self.reading is not None or self.converter.writes:
      return self.reading
    return encoder_answers.HeadAnswers.of(
      self.whole_model,
      self.converter,
      self.checkpoint[0],
      self.mixture_or_task_name,
      self.prepared_dir,
      scorer=self.scorer,
      num_fillings=self.num_fillings,
    )

  @functools.cached_property
  def answering(self) -> Any:
    """What computes answers batch by batch, as `answering.Answering`."""
    make = answering.Answering if self._read is None else self._read.answering
    return make(
      self.whole_model,
      self.vocabulary,
      params=self.params,
      mesh=self.mesh,
      lengths=self.lengths,
      batch_size=self.batch_size,
      converter=self.converter,
      decoding=self.decoding,
      report=_say,
    )

  def answers(
    self,
    examples: Iterable[Example],
    *,
    scored: bool = False,
    one_by_one: bool = False,
    journal_path: str | None = None,
  ) -> Iterator[dict[str, Any]]:
    """Answers texts, or scores targets that are given.

    Args:
      examples: The examples. Each has `inputs` as the model was trained on,
        task prefix included, and `targets` if they are scored or an optional
        `prefix` that the answer begins with. Other keys are passed on, except
        for an answer or a score from before. A language model that was trained
        on targets alone continues `inputs`; an encoder reads several texts that
        tabs divide. The first of several processes reads the examples and
        shares them.
      scored: Whether the log-likelihood of the targets is computed and nothing
        is decoded.
      one_by_one: Whether each example is answered before the next one is read.
      journal_path: The path of a file of finished answers, with which a run
        that was killed continues; None for no file.

    Yields:
      Each example with the values that `answering.Answering` adds to it, or
      `encoder_answers.EncoderAnswering`, or the reading.

    Raises:
      UserError: The configuration or an example cannot be used as it is.
    """
    self.check()
    if one_by_one:
      single = self.changed(batch_size=batch_shares(self.mesh))
      for number, example in enumerate(
        distributed.shared("the examples", single.checked(examples, scored), 1)
      ):
        (answer,), *_ = single.computed([example], number, scored)
        yield answer
      return
    # A bad example is refused before anything is computed.
    examples = list(
      distributed.shared(
        "the examples", self.checked(examples, scored), self.batch_size
      )
    )
    if journal_path is None:
      batches = self.computed(examples, 0, scored)
    else:
      parts = fingerprint.of_inference(
        self.whole_model,
        self.checkpoint,
        self.vocabulary,
        examples,
        lengths=self.lengths,
        batch_size=self.batch_size,
        converter=self.converter,
        decoding=self.decoding,
        scored=scored,
        settings={} if self._read is None else {"answers": str(self._read)},
      )
      batches = _journalled(
        pathlib.Path(journal_path),
        parts,
        examples,
        functools.partial(self.computed, scored=scored),
      )
    yield from itertools.chain.from_iterable(batches)

  def checked(
    self, examples: Iterable[Example], scored: bool
  ) -> Iterator[Example]:
    """Yields the examples, which the model can read.

    Args:
      examples: The examples.
      scored: Whether their targets are scored.

    Raises:
      UserError: An example cannot be used as it is.
    """
    features = ("inputs", "targets") if scored else ("inputs",)
    examples = check_texts(examples, features)
    if self._read is not None:
      if scored:
        raise UserError(
          "--score gives the log-likelihoods of texts that a model writes, and "
          "an encoder writes none; zoo evaluate scores the labels of a task"
        )
      examples = self._read.check(examples, self.vocabulary)
    elif scored:
      examples = check_no_prefixes(examples)
    else:
      examples = check_prefixes(
        examples,
        self.vocabulary,
        self.decoding.with_length(self.lengths["targets"]),
      )
    starts = self.decoding.start_before_prompt
    if converters.continues(self.converter) and not starts:
      examples = check_prompts(examples, self.vocabulary)
    return examples

  def computed(
    self, examples: Iterable[Example], first: int, scored: bool
  ) -> Iterator[list[dict[str, Any]]]:
    """Yields the batches of examples with their answers.

    Args:
      examples: Examples that were checked.
      first: The number of the first one, which random draws depend on.
      scored: Whether their targets are scored.
    """
    with self.partitioning.activate(self.mesh):
      compute = self.answering.scores if scored else self.answering.answers
      yield from compute(examples, first)


# What `Inference.changed` hands on.
_READ = {"vocabulary", "checkpoint", "whole_model", "mesh", "params"}


def check_texts(
  examples: Iterable[Example], features: Sequence[str]
) -> Iterator[Example]:
  """Yields the examples, whose features have to be texts.

  Args:
    examples: The examples.
    features: The names of the features that each has to have.

  Raises:
    UserError: An example lacks a feature, or the feature or its `prefix` is no
      text.
  """
  for number, example in enumerate(examples, 1):
    for feature in features:
      if not isinstance(example.get(feature), str):
        problem = (
          f"its {feature!r} is {example[feature]!r}, which is no text"
          if feature in example
          else f"it has {', '.join(map(repr, example)) or 'nothing'}"
        )
        raise UserError(
          f"example {number} has no text called {feature!r}; {problem}"
        )
    if not isinstance(example.get("prefix", ""), str):
      raise UserError(
        f"the prefix of example {number} is {example['prefix']!r}; give the "
        "text that its answer is to begin with"
      )
    yield example


def check_prefixes(
  examples: Iterable[Example], vocabulary: Vocabulary, decoding: DecodingOptions
) -> Iterator[Example]:
  """Yields the examples, whose prefixes have to fit into an output.

  Args:
    examples: The examples.
    vocabulary: The vocabulary of the targets.
    decoding: The options of the search, with their `max_length`.

  Raises:
    UserError: The `prefix` of an example is longer than an output may be.
  """
  for number, example in enumerate(examples, 1):
    try:
      decoding.check_prefix(
        len(vocabulary.encode_targets(example.get("prefix", "")))
      )
    except UserError as error:
      raise UserError(f"example {number}: {error}") from None
    yield example


def check_no_prefixes(examples: Iterable[Example]) -> Iterator[Example]:
  """Yields the examples, whose targets are scored from their first token on.

  Args:
    examples: The examples.

  Raises:
    UserError: An example has a `prefix`, which the log-likelihood of an answer
      leaves out and the log-likelihood of targets cannot.
  """
  for number, example in enumerate(examples, 1):
    if example.get("prefix"):
      raise UserError(
        f"example {number} has the prefix {example['prefix']!r}, and --score "
        "scores its targets from the first token on; begin the targets with "
        "it, and leave the prefix out"
      )
    yield example


def check_prompts(
  examples: Iterable[Example], vocabulary: Vocabulary
) -> Iterator[Example]:
  """Yields the examples, which a model reads without a start token.

  Args:
    examples: The examples.
    vocabulary: The vocabulary of the inputs.

  Raises:
    UserError: The inputs of an example have no token.
  """
  for number, example in enumerate(examples, 1):
    text = example["inputs"]
    if not text.strip() and not vocabulary.encode_prompt(text):
      raise UserError(
        f"example {number} has no token in 'inputs', and "
        "start_before_prompt=False leaves nothing to begin with; give it a "
        "text, or leave it out"
      )
    yield example


def _journalled(path, parts, examples, compute):
  """Yields the batches of the journal, then the others, and adds these to it.

  The first process reads and writes the journal.
  """
  writes = distributed.is_first()
  with Journal(path, parts, writes=writes, report=_say) as journal:
    known = distributed.share("the journal", lambda: list(journal.batches))
    done = sum(map(len, known))
    if done:
      _say(f"{done} of {len(examples)} examples are in {path} from before")
    yield from known
    if done < len(examples):
      for batch in compute(examples[done:], done):
        journal.append(batch)
        yield batch


def find_vocabulary(
  mixture_or_task_name: str | None,
  prepared_dir: str,
  path: str | None,
  extra_ids: int | None,
  *,
  form: str | None = None,
) -> Vocabulary:
  """Returns the vocabulary that is named, or a prepared task's.

  Args:
    mixture_or_task_name: The name of a prepared mixture or task, or None.
    prepared_dir: The folder of prepared data.
    path: The path of the vocabulary's files; None for the task's.
    extra_ids: The number of its sentinels; None for the usual number.
    form: The form of an encoder in which the task is prepared; None for text.

  Raises:
    UserError: Neither is named, or the task is not prepared.
  """
  if path is not None:
    return Vocabulary(path, extra_ids)
  if mixture_or_task_name is not None:
    name = forms.name_in_form(mixture_or_task_name, form)
    return manifest.load(name, prepared_dir).tasks[0].vocabulary
  raise UserError(
    "no vocabulary: name its file with --vocabulary, or the task that the "
    "model was trained on with --gin.MIXTURE_OR_TASK_NAME=..."
  )


def _say(text: str) -> None:
  if distributed.is_first():
    print(text, file=sys.stderr, flush=True)
