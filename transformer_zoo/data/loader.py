"""Batches of prepared tasks: shuffled, mixed, corrupted, trimmed, packed.

Row r of step s is a pure function of (seed, s, r). There is no iterator state:
a run resumes from its step number alone, on any number of processes.

    row -> places in the mixture     packing.RowPlan, from lengths alone
    place -> (task, rank)            order.MixtureOrder
    rank -> example of the epoch     order.shuffled
    example -> tokens                sources, Grain's ArrayRecord reader
    tokens -> batch                  features

Grain reads ahead in threads. The index arithmetic is numpy's because Grain's
own `mix` takes about 290 us per index.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grain
import numpy as np

from transformer_zoo.corruption.ragged import join
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data import evaluation_split
from transformer_zoo.data import features
from transformer_zoo.data import manifest
from transformer_zoo.data import order
from transformer_zoo.data import packing as packing_lib
from transformer_zoo.data import sources
from transformer_zoo.errors import UserError

Batch = dict[str, np.ndarray]
# Two threads: one batch is computed while another waits for the disk. More
# would wait for the interpreter.
_READ = grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)


def training_batches(
  mixture: manifest.PreparedMixture,
  *,
  split: str,
  lengths: Mapping[str, int],
  batch_size: int,
  seed: int,
  packing: bool = True,
  corruption: Callable[..., dict[str, Ragged]] | None = None,
  start_step: int = 0,
  process_index: int = 0,
  process_count: int = 1,
) -> Iterator[Batch]:
  """Returns an endless iterator of batches from `start_step` on.

  Args:
    mixture: prepared tasks and rates; each task is repeated in epochs, in
      which every example occurs once.
    split: of every task with a rate above 0.
    lengths: tokens of 'inputs' and 'targets', EOS counted.
    batch_size: rows of a batch over all processes.
    seed: of order and corruption, not negative.
    packing: several examples in one row where they fit. Without it, row r of
      step s is example `s * batch_size + r` of the mixture.
    corruption: instead of that of the 'tokens' tasks.
    start_step: number of the first batch.
    process_index: of this process; it reads only its own rows.
    process_count: processes that share each batch.

  Returns:
    Iterator of {SeqIO's key: int32 [batch_size / process_count, length]}.

  Raises:
    UserError: at once, if the arguments do not fit each other or the data.
  """
  if batch_size < 1 or batch_size % process_count:
    raise UserError(
      f"The batch size {batch_size} cannot be shared by {process_count} "
      "processes; choose a positive multiple of their number."
    )
  if seed < 0 or start_step < 0:
    raise UserError(
      f"Seed {seed} and start step {start_step} must not be negative."
    )
  batches = _Batches(
    _Stream(mixture, split, lengths, seed, packing, corruption),
    batch_size,
    process_index,
    process_count,
  )
  dataset = grain.MapDataset.source(batches)[start_step:]
  return iter(dataset.to_iter_dataset(_READ))


def evaluation_batches(
  task: manifest.PreparedTask,
  *,
  split: str,
  lengths: Mapping[str, int],
  batch_size: int,
  corruption: Callable[..., dict[str, Ragged]] | None = None,
  max_examples: int | None = None,
) -> Iterator[tuple[Batch, list[dict[str, Any]]]]:
  """Returns an iterator once over a split, in its order, unpacked.

  Args:
    task: the prepared task.
    split: one of its splits.
    lengths: tokens of 'inputs' and 'targets', EOS counted.
    batch_size: rows of every batch; the last is filled with empty rows, whose
      weights are 0.
    corruption: instead of the task's own.
    max_examples: how many examples at most; all if None.

  Returns:
    Iterator of (batch, texts): {SeqIO's key: int32 [batch_size, length]} and,
    for each row that has an example, the untokenised rest of it. The evaluator
    uses `EvaluationSplit` itself, whose batches are grouped by length.

  Raises:
    UserError: at once, if the arguments do not fit each other or the data.
  """
  batches = evaluation_split.EvaluationSplit(
    task,
    split,
    lengths,
    batch_size,
    corruption=corruption,
    max_examples=max_examples,
    grouped=False,
  )
  return ((batch.arrays, batch.texts) for batch in batches)


def examples_per_row(
  mixture: manifest.PreparedMixture,
  *,
  split: str,
  lengths: Mapping[str, int],
  rows: int,
  seed: int = 0,
) -> float:
  """Returns how many examples packed rows hold on average.

  Args:
    mixture: prepared tasks and rates.
    split: of every task with a rate above 0.
    lengths: tokens of 'inputs' and 'targets', EOS counted.
    rows: how many rows are counted, the first ones of training.
    seed: of the order.

  Raises:
    UserError: as `training_batches`.
  """
  return _Stream(mixture, split, lengths, seed, True, None).fill(rows)


class _Stream:
  """The rows of an endless mixture, by number."""

  def __init__(
    self,
    mixture: manifest.PreparedMixture,
    split: str,
    lengths: Mapping[str, int],
    seed: int,
    packing: bool,
    corruption: Callable[..., dict[str, Ragged]] | None,
  ):
    used = [
      (t, r)
      for t, r in zip(mixture.tasks, mixture.rates, strict=True)
      if r != 0
    ]
    self._order = order.MixtureOrder([rate for _, rate in used], seed)
    self._sources = [
      sources.open_source(task, split, lengths, corruption) for task, _ in used
    ]
    self._sizes = np.array([source.num_examples for source in self._sources])
    self._seed = seed
    self._lengths = lengths
    self._packing = packing
    self._pad_id = used[0][0].vocabulary.pad_id
    self._plan = None
    if packing and any(task.kind == "examples" for task, _ in used):
      widths = [lengths[feature] for feature in sources.FEATURES]
      self._plan = packing_lib.RowPlan(self._example_lengths, widths)

  def fill(self, number: int) -> float:
    """Returns the examples per row of the first `number` rows."""
    if self._plan is None:
      return 1.0
    places, _ = self._plan(np.arange(number))
    return len(places) / number

  def rows(self, first: int, number: int) -> Batch:
    """Returns `number` rows from row `first` on as a batch."""
    rows = np.arange(first, first + number)
    if self._plan is None:
      places, owners = rows, rows - first
    else:
      places, owners = self._plan(rows)
    read, come_from = [], []
    for source, where, indices in self._locate(places):
      read.append(source.read(indices, self._seed, places[where]))
      come_from.append(where)
    inputs = join([examples.inputs for examples in read])
    targets = join([examples.targets for examples in read])
    if len(read) > 1:
      back = np.argsort(np.concatenate(come_from))
      inputs, targets = inputs.take(back), targets.take(back)
    return features.EncoderDecoder()(
      {"inputs": inputs, "targets": targets},
      owners,
      num_rows=number,
      lengths=self._lengths,
      packing=self._packing,
      pad_id=self._pad_id,
    )

  def _example_lengths(self, places: np.ndarray) -> np.ndarray:
    """Returns trimmed lengths, int32 [n, 2]."""
    lengths = np.empty((len(places), len(sources.FEATURES)), np.int32)
    for source, where, indices in self._locate(places):
      lengths[where] = source.lengths(indices)
    return lengths

  def _locate(
    self, places: np.ndarray
  ) -> Iterator[tuple[sources.Source, np.ndarray, np.ndarray]]:
    """Yields per task: its source, which of `places` are its, their indices."""
    tasks, ranks = self._order(places)
    indices = order.shuffled(ranks, self._sizes[tasks], self._seed, tasks)
    for task, source in enumerate(self._sources):
      where = np.flatnonzero(tasks == task)
      if where.size:
        yield source, where, indices[where]


class _Batches:
  """Random access to the batches of one process, for Grain."""

  def __init__(
    self,
    stream: _Stream,
    batch_size: int,
    process_index: int,
    process_count: int,
  ):
    self._stream = stream
    self._batch_size = batch_size
    self._num_rows = batch_size // process_count
    self._offset = process_index * self._num_rows

  def __len__(self) -> int:
    return 1 << 40  # more steps than any run has

  def __getitem__(self, step: int) -> Batch:
    first = int(step) * self._batch_size + self._offset
    return self._stream.rows(first, self._num_rows)
