"""The batches of a run by step, and the number of epochs that they are."""

from collections.abc import Mapping, Sequence
import dataclasses
import threading
from typing import Any

import numpy as np

from transformer_zoo.data.loader.mixture_reader import MixtureReader
from transformer_zoo.data.loader.mixture_reader import Recipe
from transformer_zoo.data.loader.packing import OneEach
from transformer_zoo.data.loader.packing import RowPlan
from transformer_zoo.data.loader.packing import Used
from transformer_zoo.data.loader.stages import Bucket
from transformer_zoo.data.loader.stages import Stages
from transformer_zoo.data.storage import manifest

Batch = dict[str, np.ndarray]

# Small tasks stay in memory up to this sum.
CACHE_BYTES = 1 << 28


@dataclasses.dataclass(frozen=True)
class Batching:
  """The settings by which examples become batches.

  Attributes:
    stages: batch sizes and lengths of the rows.
    packing: several examples in one row where they fit.
    buckets: The buckets of length bucketing; a single one for none.
  """

  stages: Stages
  packing: bool
  buckets: tuple[Bucket, ...]

  @property
  def batch_sizes(self) -> set[int]:
    """The sizes that batches have."""
    sizes = {stage.batch_size for stage in self.stages.stages}
    return sizes | {bucket.batch_size for bucket in self.buckets}

  @property
  def are_alike(self) -> bool:
    """Whether all batches have one shape."""
    return len(self.stages.stages) == 1 and len(self.buckets) == 1


class Batches:
  """Random access to the batches of one process, by step.

  A copy in another process (pickled) opens the files itself.
  """

  def __init__(
    self,
    recipe: Recipe,
    batching: Batching,
    shares: tuple[int, ...] = (0,),
    num_shares: int = 1,
  ):
    """Opens the files.

    Args:
      recipe: The recipe of the examples.
      batching: The rule that makes batches of the examples.
      shares: The parts of each batch that are read, ascending.
      num_shares: equal parts of consecutive rows that a batch has.

    Raises:
      UserError: as `MixtureReader`.
    """
    self._arguments = recipe, batching, shares, num_shares
    self._recipe = recipe
    self._batching = batching
    self._shares, self._num_shares = shares, num_shares
    self._pad_id = recipe.tasks[0].vocabulary.pad_id
    phases = batching.stages.phases
    self._readers = [
      MixtureReader(recipe, lengths, phases[-1], CACHE_BYTES // len(phases))
      for lengths in phases
    ]
    self._is_bucketed = len(batching.buckets) > 1
    self._is_packed = batching.packing and self._readers[-1].shares_rows
    self._plans = []
    self._lock = threading.Lock()
    if self._is_bucketed:
      from transformer_zoo.data.loader import length_buckets

      self._bucket_plan = length_buckets.BucketPlan(
        self._readers[-1].lengths,
        batching.buckets,
        recipe.seed,
        recipe.converter.features,
      )

  def __reduce__(self):
    return type(self), self._arguments

  def __len__(self) -> int:
    return 1 << 40  # more steps than any run has

  def __getitem__(self, step: int) -> Batch:
    """Returns {SeqIO's key: int32 [rows of these shares, width]}."""
    dealt = self._deal(int(step), self._shares, self._num_shares)
    return self._recipe.converter(
      dealt.reader.read(dealt.places),
      dealt.owners,
      num_rows=dealt.num_rows,
      lengths=dealt.lengths,
      packing=self._batching.packing,
      pad_id=self._pad_id,
    )

  def origin(self, step: int, *, counted: bool = True) -> dict[str, Any]:
    """Returns the origin of a batch's rows, of all processes together.

    Args:
      step: the number of the batch, from 0.
      counted: False leaves out what takes counting from the start of the run.

    Returns:
      For JSON: `index`, `seed`, `rows`, `first_row` (among the rows of the run
      that have the same lengths; 0 with buckets), `lengths`, `places` of the
      mixture, and by task the `examples` (or chunks of text) that they hold,
      the last two as texts such as `0-7 9`.
    """
    known = {"index": step, "seed": self._recipe.seed}
    if self.must_count and not counted:
      return known
    dealt = self._deal(step, (0,), 1)
    tasks, examples = dealt.reader.find(dealt.places)
    return known | {
      "rows": dealt.num_rows,
      "first_row": 0 if self._is_bucketed else self._first_row(step),
      "lengths": dict(dealt.lengths),
      "places": _ranges(dealt.places),
      "examples": {
        task.name: _ranges(examples[tasks == number])
        for number, task in enumerate(self.tasks)
        if np.any(tasks == number)
      },
    }

  @property
  def tasks(self) -> tuple[manifest.PreparedTask, ...]:
    """The tasks of the mixture that have a rate above 0."""
    return self._recipe.tasks

  def shares(self, phase: int) -> np.ndarray:
    """Returns the share of each task in a phase, float64 [tasks]."""
    rates = self._recipe.rates[self._batching.stages.mixes[phase]]
    return np.array(rates) / sum(rates)

  @property
  def num_examples(self) -> np.ndarray:
    """Examples in an epoch of each task, int64 [tasks]."""
    return self._readers[-1].num_examples

  @property
  def batching(self) -> Batching:
    """The settings by which examples become batches."""
    return self._batching

  @property
  def must_count(self) -> bool:
    """Whether it takes counting to know which examples a batch has."""
    return self._is_bucketed or self._is_packed

  def examples_before(self, step: int) -> np.ndarray:
    """Returns the examples of each task in the batches before, int64 [tasks].

    Packed rows and buckets are counted from the start.
    """
    if self._is_bucketed:
      return self._count(0, self._bucket_plan.used(step))
    rows = self._batching.stages.rows_before(step)
    return sum(
      self._count(phase, self._plan(phase).used(number))
      for phase, number in enumerate(rows)
    )

  def _first_row(self, step: int) -> int:
    _, first_row = self._batching.stages(step)
    return first_row

  def _deal(self, step: int, shares: Sequence[int], count: int) -> "_Dealt":
    """Returns the rows of some of `count` parts of a batch."""
    if self._is_bucketed:
      bucket, places = self._bucket_plan(step)
      mine = _rows(bucket.batch_size, shares, count)
      reader, lengths = self._readers[0], bucket.lengths
      owners = np.arange(len(mine))
      return _Dealt(reader, places[mine], owners, lengths, len(mine))
    stage, first_row = self._batching.stages(step)
    mine = _rows(stage.batch_size, shares, count)
    places, owners = _find(self._plan(stage.phase), first_row + mine)
    lengths = self._batching.stages.phases[stage.phase]
    reader = self._readers[stage.phase]
    return _Dealt(reader, places, owners, lengths, len(mine))

  def _plan(self, phase: int) -> OneEach | RowPlan:
    """Returns where the rows of a phase are.

    It begins with the first place that no row before has. Of packed rows, with
    the first window that none has begun: what is left of the one before, less
    than a window, is passed over.
    """
    with self._lock:
      while len(self._plans) <= phase:
        self._plans.append(self._following_plan())
      return self._plans[phase]

  def _following_plan(self) -> OneEach | RowPlan:
    phase, first_place = len(self._plans), 0
    reader, converter = self._readers[phase], self._recipe.converter
    if phase:
      stages, before = self._batching.stages, self._readers[phase - 1].order
      first_place = self._plans[-1].used(stages.rows_of(phase - 1)).following
      changed = stages.mixes[phase] != stages.mixes[phase - 1]
      reader.begin(
        reader.after(before, first_place, stages.mixes[phase])
        if changed
        else before
      )
    if not self._is_packed:
      return OneEach(first_place)
    return RowPlan(
      lambda places: converter.sizes(reader.lengths(places)),
      converter.capacities(self._batching.stages.phases[phase]),
      first_place,
    )

  def _count(self, phase: int, used: Used) -> np.ndarray:
    order = self._readers[phase].order
    counts = order.examples_before(used.end) - order.examples_before(used.first)
    for places, sign in ((used.besides, 1), (used.except_for, -1)):
      tasks, _ = order(places)
      counts += sign * np.bincount(tasks, minlength=len(counts))
    return counts


@dataclasses.dataclass(frozen=True)
class _Dealt:
  """Examples of some rows.

  Attributes:
    reader: The reader of the examples.
    places: The places in the mixture, int64 [n].
    owners: the row that each is in, int64 [n].
    lengths: The lengths of the rows.
    num_rows: The number of rows.
  """

  reader: MixtureReader
  places: np.ndarray
  owners: np.ndarray
  lengths: Mapping[str, int]
  num_rows: int


def _rows(batch_size: int, shares: Sequence[int], count: int) -> np.ndarray:
  """Returns which rows of a batch belong to some of `count` equal parts."""
  number = batch_size // count
  return (np.asarray(shares)[:, None] * number + np.arange(number)).ravel()


def _find(plan: OneEach | RowPlan, rows: np.ndarray) -> list[np.ndarray]:
  """Returns what a plan says of ascending rows, one consecutive run by one."""
  runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
  firsts = np.cumsum([0, *map(len, runs)])
  found = [plan(run) for run in runs]
  return [
    np.concatenate([places for places, _ in found]),
    np.concatenate(
      [first + own for first, (_, own) in zip(firsts, found, strict=False)]
    ),
  ]


def _ranges(numbers: np.ndarray) -> str:
  """Whole numbers in ascending order, as `0-7 9`."""
  numbers = np.unique(numbers)
  starts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 2) != 1)
  return " ".join(
    f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}"
    for run in np.split(numbers, starts[1:])
  )


# Rows that are counted before training starts, about a second's worth. In rows
# of one example nothing needs counting.
_MOST_ROWS = 1 << 16


@dataclasses.dataclass(frozen=True)
class Repeats:
  """A task in a run.

  Attributes:
    examples: The number of examples of the task in an epoch, after
      `max_tokens`.
    epochs: The number of epochs of the run.
    counted: whether all batches of the run were counted; otherwise `epochs` is
      scaled from the first ones.
  """

  examples: int
  epochs: float
  counted: bool

  def __str__(self) -> str:
    about = "" if self.counted else "about "
    return (
      f"{self.examples:,} examples an epoch, {about}{self.epochs:,.2f} epochs "
      "in this run"
    )


def count_repeats(
  batches: Batches, steps: int, *, exact: bool = False
) -> dict[str, Repeats]:
  """Counts the examples of a run.

  Args:
    batches: The batches of the run.
    steps: The number of steps of the run, from step 0.
    exact: counts all of it, half a microsecond for an example of packed rows.

  Returns:
    For each task of the mixture with a rate above 0, by name.
  """
  counted = steps
  if not exact and batches.must_count:
    largest = max(batches.batching.batch_sizes)
    counted = min(steps, max(1, _MOST_ROWS // largest))
  found = batches.examples_before(counted) * (steps / counted)
  stages = batches.batching.stages
  if counted < steps and stages.mixes[-1]:
    rows = stages.rows_before(steps)
    found = (found.sum() / sum(rows)) * sum(
      number * batches.shares(phase) for phase, number in enumerate(rows)
    )
  return {
    task.name: Repeats(int(size), float(number / size), counted == steps)
    for task, size, number in zip(
      batches.tasks, batches.num_examples, found, strict=True
    )
  }
