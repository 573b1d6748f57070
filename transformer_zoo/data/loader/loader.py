"""Batches of prepared tasks: shuffled, mixed, corrupted, trimmed, packed.

Row r of step s is a pure function of (seed, s, r). There is no iterator state:
a run resumes from its step number alone, on any number of processes.

    step -> rows, their widths       stages.Stages, length_buckets.BucketPlan
    row -> places in the mixture     packing.RowPlan, from lengths alone
    place -> (task, rank)            order.MixtureOrder
    rank -> example of the epoch     order.shuffled
    example -> tokens                sources
    tokens -> batch                  features

Grain reads ahead, in threads or in processes. The index arithmetic is numpy's
because Grain's own `mix` takes about 290 us per index.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from absl import flags
import grain

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.loader.batches import Batch
from transformer_zoo.data.loader.batches import Batches
from transformer_zoo.data.loader.batches import Batching
from transformer_zoo.data.loader.mixture_reader import Recipe
from transformer_zoo.data.loader.stages import Bucket
from transformer_zoo.data.loader.stages import Stages
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

# Two threads: one batch is computed while another waits for the disk. More
# would wait for the interpreter.
_READ = grain.ReadOptions(num_threads=2, prefetch_buffer_size=8)
# Batches that wait in each worker process.
_WORKER_BUFFER = 2


def training_batches(
  mixture: manifest.PreparedMixture,
  *,
  start_step: int = 0,
  num_workers: int = 0,
  **arguments: Any,
) -> Iterator[Batch]:
  """Returns an endless iterator of batches from `start_step` on.

  Args:
    mixture: prepared tasks and rates.
    start_step: number of the first batch.
    num_workers: processes that make the batches; 0 for threads of this one.
    **arguments: The arguments of `open_batches`.

  Returns:
    Iterator of {SeqIO's key: int32 [rows of this process, length]}.

  Raises:
    UserError: at once, if the arguments do not fit each other or the data;
      while it goes on, if a file has been damaged since.
  """
  batches = open_batches(mixture, **arguments)
  return read_ahead(batches, start_step=start_step, num_workers=num_workers)


def open_batches(
  mixture: manifest.PreparedMixture,
  *,
  split: str,
  lengths: Mapping[str, int],
  batch_size: int,
  seed: int,
  packing: bool = True,
  corruption: Callable[..., dict[str, Ragged]] | None = None,
  converter: converters.Converter = converters.ENCODER_DECODER,
  static_copies: int | None = None,
  max_tokens: int | None = None,
  whole_examples_only: bool = False,
  batch_size_warmup: Mapping[int, int] | None = None,
  length_warmup: Mapping[int, Mapping[str, int]] | None = None,
  length_buckets: Sequence[Mapping[str, int]] = (),
  later_rates: Mapping[int, Mapping[str, float]] | None = None,
  shares: Sequence[int] = (0,),
  num_shares: int = 1,
) -> Batches:
  """Returns the batches of a run by step.

  Args:
    mixture: prepared tasks and rates; each task is repeated in epochs, in
      which every example occurs once.
    split: The split that is read of every task with a rate above 0.
    lengths: tokens of each feature of the converter, EOS counted.
    batch_size: rows of a batch over all processes.
    seed: The seed of order and corruption, not negative.
    packing: several examples in one row where they fit. Without it, row r of
      step s is example `s * batch_size + r` of the mixture.
    corruption: The corruption in place of the 'tokens' tasks' own.
    converter: lays the examples out as a model reads them.
    static_copies: None for dynamic masking, N for static masking with N
      copies; see `Recipe`.
    max_tokens: only so many of the first tokens of each 'tokens' task.
    whole_examples_only: leaves out the examples that are longer than `lengths`,
      and in the steps of `length_warmup` those longer than its lengths.
    batch_size_warmup: step -> rows of the batches before it; see `Stages`.
    length_warmup: step -> lengths before it; see `Stages`. The same places are
      cut shorter: a text to its first tokens, an example as always. Objectives
      of sentences cut their text anew.
    length_buckets: lengths and batch sizes of batches of short examples; see
      `length_buckets.buckets`. Without packing, warm-up and later rates.
    later_rates: step -> rates by task from it on, 0 for tasks without one. Each
      task goes on where it was.
    shares: The parts of each batch that are read, ascending: those that devices
      of this process compute on.
    num_shares: equal parts of consecutive rows that a batch has.

  Raises:
    UserError: the arguments do not fit each other or the data.
  """
  if seed < 0:
    raise UserError(f"The seed {seed} must not be negative.")
  if not any(mixture.rates):
    raise UserError(
      f"Mixture {mixture.name!r} has no task of a rate above 0 among "
      f"{', '.join(task.name for task in mixture.tasks)}."
    )
  later_rates = dict(sorted((later_rates or {}).items()))
  if length_buckets and (
    packing or batch_size_warmup or length_warmup or later_rates
  ):
    raise UserError(
      "length_buckets cannot be used with packing, batch_size_warmup, "
      "length_warmup or later_rates: the length of its examples decides where "
      "and how large a batch is; set packing to False and leave the others out."
    )
  recipe = Recipe(
    mixture,
    split,
    seed,
    corruption,
    converter,
    static_copies,
    max_tokens,
    whole_examples_only,
    _rates_of_tasks(mixture, later_rates) if later_rates else (),
  )
  buckets = (Bucket(dict(lengths), batch_size),)
  if length_buckets:
    from transformer_zoo.data.loader import length_buckets as bucketing

    buckets = bucketing.buckets(length_buckets, lengths, batch_size)
  batching = Batching(
    Stages(batch_size, lengths, batch_size_warmup, length_warmup, later_rates),
    packing,
    buckets,
  )
  for size in batching.batch_sizes:
    if size % num_shares:
      raise UserError(
        f"The batch size {size} cannot be cut into {num_shares} equal parts; "
        "choose a positive multiple of their number."
      )
  return Batches(recipe, batching, tuple(shares), num_shares)


def _rates_of_tasks(
  mixture: manifest.PreparedMixture,
  later_rates: Mapping[int, Mapping[str, float]],
) -> tuple[tuple[float, ...], ...]:
  from transformer_zoo.data import mixing

  return tuple(
    mixing.rates_by_task(mixture, rates, f"later_rates from step {step}")
    for step, rates in later_rates.items()
  )


def read_ahead(
  batches: Batches, *, start_step: int = 0, num_workers: int = 0
) -> Iterator[Batch]:
  """Returns an endless iterator that makes batches before they are asked for.

  Args:
    batches: The batches of a run.
    start_step: number of the first.
    num_workers: processes that make them, each with a bounded number in store;
      0 for threads of this one. The batches are the same.

  Raises:
    UserError: a number is negative.
  """
  if start_step < 0 or num_workers < 0:
    raise UserError(
      f"Start step {start_step} and num_workers {num_workers} must not be "
      "negative."
    )
  dataset = grain.MapDataset.source(batches)[start_step:]
  dataset = dataset.to_iter_dataset(_READ)
  if num_workers:
    # Grain reads absl's flags, which are parsed only by absl's app.
    if not flags.FLAGS.is_parsed():
      flags.FLAGS.mark_as_parsed()
    dataset = dataset.mp_prefetch(
      grain.MultiprocessingOptions(num_workers, _WORKER_BUFFER)
    )
  return iter(dataset)


def evaluation_batches(
  task: manifest.PreparedTask,
  *,
  split: str,
  lengths: Mapping[str, int],
  batch_size: int,
  corruption: Callable[..., dict[str, Ragged]] | None = None,
  converter: converters.Converter = converters.ENCODER_DECODER,
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
    converter: lays the examples out as a model reads them.
    max_examples: The largest number of examples; None for all.

  Returns:
    Iterator of (batch, texts): {SeqIO's key: int32 [batch_size, length]} and,
    for each row that has an example, the untokenised rest of it. The evaluator
    uses `EvaluationSplit` itself, whose batches are grouped by length.

  Raises:
    UserError: at once, if the arguments do not fit each other or the data.
  """
  from transformer_zoo.data.loader import evaluation_split

  batches = evaluation_split.EvaluationSplit(
    task,
    split,
    lengths,
    batch_size,
    corruption=corruption,
    converter=converter,
    max_examples=max_examples,
    grouped=False,
  )
  return ((batch.arrays, batch.texts) for batch in batches)
