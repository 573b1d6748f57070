"""Settings of a training run, in groups.

gin binds them as parameters of `train`, by the names of their fields
(`train.packing = False`); `by_fields` builds the groups. Names are unique among
all groups. What each setting affects is marked here and nowhere else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import functools
import inspect
from typing import Any, TypeVar

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import optax

from transformer_zoo.data.features import converters
from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader.batches import Batches
from transformer_zoo.data.storage.manifest import PreparedMixture
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.effects import Place
from transformer_zoo.effects import Result
from transformer_zoo.effects import Speed
from transformer_zoo.errors import UserError
from transformer_zoo.objectives.interface import Objective
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.peft import trainable as trainable_lib
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.runs import inputs
from transformer_zoo.runs.loading.initial_checkpoint import InitialCheckpoint
from transformer_zoo.training import loop
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.retention import KEEP_NEWEST_AND_BEST
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import meshes
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE
from transformer_zoo.training.sharding.partitioning import Partitioning
from transformer_zoo.training.watching import Watching

# JAX's keys have 32 bits where 64-bit types are disabled, as they are here.
_SEEDS = 2**32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
  """One training step: the settings that its compiled program depends on.

  Attributes:
    model: The architecture.
    optimizer: The function that makes the optimizer of a schedule.
    learning_rate: The schedule, a function of the run's own steps.
    batch_size: The number of rows of the global batch; a packed row holds
      several examples.
    objective: The loss of a batch.
    trainable: The parameters that are trained, and the step from which each of
      them is.
    partitioning: The mesh of devices and the rules that lay arrays out on it.
    num_microbatches: The number of parts that a step splits its batch into, to
      compute them one after the other.
    watching: The settings of monitoring: measurements, writers, and the
      treatment of NaN and spikes.
  """

  model: Result[nn.Module]
  optimizer: Result[Callable[..., optax.GradientTransformation]]
  learning_rate: Result[Callable]
  batch_size: Result[int]
  objective: Result[Objective] = SequenceToSequence()
  trainable: Result[Trainable] = trainable_lib.ALL
  partitioning: Speed[Partitioning] = ONE_COPY_PER_DEVICE
  num_microbatches: Speed[int] = 1
  watching: Speed[Watching] = Watching()

  def __post_init__(self):
    if not isinstance(self.objective, Objective):
      name = getattr(self.objective, "__name__", self.objective)
      raise UserError(
        f"train.objective is {name}, which is no instance of Objective "
        "(transformer_zoo/objectives/interface.py); make it a subclass, and "
        "bind @Name()"
      )
    inputs.check_at_least(1, BATCH_SIZE=self.batch_size)
    inputs.check_at_least(1, NUM_MICROBATCHES=self.num_microbatches)

  def program(
    self, devices: Sequence[jax.Device] | None = None
  ) -> TrainProgram:
    """Makes the program of the step; nothing is compiled.

    Args:
      devices: The devices of the mesh, by default of all processes.

    Raises:
      UserError: The mesh, the batch or the parameters do not divide, or the
        model has not what the objective learns.
    """
    self.objective.check(self.model)
    program = TrainProgram(
      self.model,
      self.objective,
      self.optimizer(self.learning_rate),
      self.learning_rate,
      self.partitioning,
      self.partitioning.mesh(devices),
      num_microbatches=self.num_microbatches,
      trainable=self.trainable,
      **self.watching.in_step(),
    )
    program.check(self.batch_size)
    return program


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examples:
  """The batches of a run: lengths, sizes and packing.

  Attributes:
    task_feature_lengths: The number of tokens of each feature, `inputs` and
      `targets`.
    converter: The layout of a batch (data/features/converters.py).
    corruption: The corruption of unlabelled text in place of the tasks' own;
      None for the tasks' own.
    packing: Whether several examples share a row.
    batch_size_warmup: The batch sizes of the beginning: {step: rows of the
      batches before it}.
    length_warmup: The lengths of the beginning: {step: lengths of the features
      before it}.
    length_buckets: The lengths and batch sizes of batches of short examples
      (data/loader/length_buckets.py).
    num_workers: The number of processes that prepare the batches; 0 for threads
      of the training process.
  """

  task_feature_lengths: Result[Mapping[str, int]]
  converter: Result[Callable] = converters.ENCODER_DECODER
  corruption: Result[Callable | None] = None
  packing: Result[bool] = True
  batch_size_warmup: Result[Mapping[int, int] | None] = None
  length_warmup: Result[Mapping[int, Mapping[str, int]] | None] = None
  length_buckets: Result[Sequence[Mapping[str, int]]] = ()
  num_workers: Place[int] = 0

  def __post_init__(self):
    inputs.check_at_least(0, NUM_WORKERS=self.num_workers)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
  """The examples that a run reads.

  Attributes:
    mixture_or_task_name: The name of the mixture or task to train on.
    prepared_dir: The folder of prepared data, which is filled where it lacks
      the mixture.
    rates: The rates of the tasks, `Equal` or `ExamplesProportional`
      (data/mixing.py); None for the mixture's own.
    later_rates: The rates from a step on, {step: {task: rate}}, 0 for tasks
      that are not named; None if they never change.
    static_copies: The number of masks of each text for static masking; None
      for dynamic masking.
    max_tokens: The number of tokens to which each unlabelled task is limited,
      the first ones; None for all.
    whole_examples_only: Whether examples that are longer than the lengths of
      the run, or of the steps of `length_warmup`, are left out instead of cut.
  """

  mixture_or_task_name: Result[str]
  prepared_dir: Place[str] = "runs/prepared"
  rates: Result[Callable | None] = None
  later_rates: Result[Mapping[int, Mapping[str, float]] | None] = None
  static_copies: Result[int | None] = None
  max_tokens: Result[int | None] = None
  whole_examples_only: Result[bool] = False

  def __post_init__(self):
    inputs.check_at_least(
      1, STATIC_COPIES=self.static_copies, MAX_TOKENS=self.max_tokens
    )

  def mixture(self, prepared: PreparedMixture) -> PreparedMixture:
    """Returns the prepared mixture with the rates of these settings."""
    if self.rates is None:
      return prepared
    from transformer_zoo.data import mixing

    return mixing.with_rates(prepared, self.rates)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
  """The evaluations of a run on its validation splits.

  Attributes:
    decoding: The options of the search for outputs.
    evaluation_batch_size: The number of examples of a batch; None for the
      batch size of training.
    evaluation_max_examples: The largest number of examples of a split, the
      first ones; None for all.
    scorer: The class that reads the head of an encoder (evaluation/scorers),
      made of the function that computes its logits; None for the form's.
  """

  decoding: Result[DecodingOptions] = GREEDY
  evaluation_batch_size: Result[int | None] = None
  evaluation_max_examples: Result[int | None] = None
  scorer: Result[Callable[..., Any] | None] = None

  def __post_init__(self):
    inputs.check_at_least(1, evaluation_batch_size=self.evaluation_batch_size)
    inputs.check_at_least(1, EVAL_MAX_EXAMPLES=self.evaluation_max_examples)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Course:
  """The length of a run and its periodic actions.

  Attributes:
    train_steps: The number of steps of this run.
    periods: The numbers of steps between log lines, checkpoints and
      evaluations.
  """

  train_steps: Result[int]
  periods: Result[loop.Periods] = loop.Periods()

  def __post_init__(self):
    inputs.check_at_least(1, TRAIN_STEPS=self.train_steps)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Start:
  """The start of a run that is not resumed.

  Attributes:
    seed: The seed of the parameters, the order of the data and dropout.
    initial_checkpoint: The checkpoint that the parameters are taken from.
  """

  seed: Result[int] = 0
  initial_checkpoint: Result[InitialCheckpoint] = InitialCheckpoint()

  def __post_init__(self):
    if not 0 <= self.seed < _SEEDS:
      raise UserError(f"RANDOM_SEED={self.seed} must be from 0 to {_SEEDS - 1}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Storage:
  """The storage of a run and the retention of its checkpoints.

  Attributes:
    model_dir: The run folder, or its URL (checkpoints/remote.py).
    checkpointing: The checkpoints that are kept.
  """

  model_dir: Place[str]
  checkpointing: Speed[Checkpointing] = KEEP_NEWEST_AND_BEST


@dataclasses.dataclass(frozen=True)
class Run:
  """All settings of a training run."""

  step: Step
  examples: Examples
  data: Data
  evaluation: Evaluation
  course: Course
  start: Start
  storage: Storage

  @classmethod
  def of_values(cls, values: Mapping[str, Any]) -> "Run":
    """Builds the groups from the values of settings by name.

    Raises:
      UserError: A value is wrong by itself.
    """
    values = dict(values)
    groups = {
      group.name: group.type(
        **{
          field.name: values.pop(field.name)
          for field in dataclasses.fields(group.type)
          if field.name in values
        }
      )
      for group in dataclasses.fields(cls)
    }
    if values:
      raise TypeError(f"train has no settings {', '.join(values)}")
    return cls(**groups)

  @classmethod
  def of_loaded(cls) -> "Run":
    """Builds the settings that gin binds to `train`, and defaults.

    Models are built here: call it inside `tracing.compiling_for` for devices
    that this machine does not have.
    """
    return cls.of_values(gin.get_bindings("train"))

  def replace(self, **values: Any) -> "Run":
    """Returns the settings with other values of some, by their names."""
    return Run.of_values({**dict(self._values()), **values})

  def check_folders(self) -> None:
    """Checks the names of the folders, which a forecast may leave empty.

    Raises:
      UserError: A path names nothing, or only a shell could read it.
    """
    _check_folder("MODEL_DIR", self.storage.model_dir)
    _check_folder("PREPARED_DIR", self.data.prepared_dir)

  def open_batches(self, mixture: PreparedMixture, **shares: int) -> Batches:
    """Opens the training batches.

    Args:
      mixture: The prepared mixture, with the rates of the run.
      **shares: The process's share of a batch (`meshes.shares_of_batch`).
    """
    data, examples = self.data, self.examples
    return loader.open_batches(
      mixture,
      split="train",
      lengths=examples.task_feature_lengths,
      batch_size=self.step.batch_size,
      seed=self.start.seed,
      packing=examples.packing,
      corruption=examples.corruption,
      converter=examples.converter,
      static_copies=data.static_copies,
      max_tokens=data.max_tokens,
      whole_examples_only=data.whole_examples_only,
      batch_size_warmup=examples.batch_size_warmup,
      length_warmup=examples.length_warmup,
      length_buckets=examples.length_buckets,
      later_rates=data.later_rates,
      **shares,
    )

  def abstract_batch(
    self, mesh: jax.sharding.Mesh
  ) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns the shapes and shardings of a training batch; no data is read.

    Args:
      mesh: The mesh of devices that the batch is laid out on.

    Raises:
      UserError: The model does not read what the converter lays out.
    """
    converter = self.examples.converter
    inputs.check_converter(self.step.model, converter)
    shapes = converter.shapes(
      self.examples.task_feature_lengths,
      self.step.batch_size,
      self.examples.packing,
    )
    over_rows = meshes.over_rows(mesh)
    return {
      name: jax.ShapeDtypeStruct(shape, jnp.int32, sharding=over_rows)
      for name, shape in shapes.items()
    }

  def _values(self) -> Iterator[tuple[str, Any]]:
    for group in dataclasses.fields(self):
      yield from vars(getattr(self, group.name)).items()


def names(*groups: type) -> list[str]:
  """Returns the names of the settings of groups."""
  return [field.name for group in groups for field in dataclasses.fields(group)]


_Result = TypeVar("_Result")


def by_fields(train: Callable[[Run], _Result]) -> Callable[..., _Result]:
  """Gives a function of a `Run` the settings of all groups as parameters.

  So gin and its users see one flat list of them: gin files, overrides, errors
  about misspelt names and configurations that are written back name
  `train.packing`, whatever group `packing` is in.
  """

  @functools.wraps(train)
  def of_settings(**values):
    return train(Run.of_values(values))

  del of_settings.__wrapped__  # gin would look for parameters there.
  parameters = [
    parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    for group in dataclasses.fields(Run)
    for parameter in inspect.signature(group.type).parameters.values()
  ]
  of_settings.__signature__ = inspect.Signature(parameters)
  of_settings.__annotations__ = {p.name: p.annotation for p in parameters}
  return of_settings


def _check_folder(name: str, path: str) -> None:
  """Raises UserError for a path that names nothing, or that a shell expands."""
  if not path:
    raise UserError(f"{name} is '', which names no folder")
  if path.startswith("~"):
    raise UserError(
      f"{name}={path!r} begins with ~, which a shell alone reads; write the "
      "whole path"
    )
