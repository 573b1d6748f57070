"""Readers of the examples of SeqIO tasks, many at a time.

TensorFlow hands over whole batches and numpy takes them apart: one example at a
time costs more in Python than the tokenisation does. Where the examples of a
task cannot be batched (their features change in rank), and to find the example
that an error came from, they are read one by one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import contextvars
import functools
import itertools
import re
import types
from typing import Any, TYPE_CHECKING

import numpy as np

from transformer_zoo.data.prepare import task_steps
from transformer_zoo.data.storage import records
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import seqio
  import tensorflow as tf

Example = dict[str, Any]
_BATCH = 256
_DOCUMENTS = 16  # which may have a megabyte each
_NOTHING: Mapping[str, int] = types.MappingProxyType({})
_known = contextvars.ContextVar("known counts", default=_NOTHING)


def read_texts(
  task: "seqio.Task",
  key: str,
  split: str,
  shard: "seqio.ShardInfo | None" = None,
) -> Iterator[str]:
  """Yields one feature of the raw examples of a split, or of a part of it.

  Raises:
    UserError: a file cannot be read, or has text that is not UTF-8.
  """
  examples = read_split(task, [], split, kept=(key,), shard=shard)
  for number, example in enumerate(examples):
    where = f"field {key!r} of split {split!r}, example {number}"
    yield records.readable(example[key], where, task.name)


def read_split(
  task: "seqio.Task",
  steps: task_steps.Steps,
  split: str,
  *,
  kept: Sequence[str] = (),
  shard: "seqio.ShardInfo | None" = None,
  on_bad: Callable[[str], None] | None = None,
) -> Iterator[Example]:
  """Yields the examples of a split after `steps`, in their order.

  Args:
    task: The task, which has the source and the features.
    steps: The preprocessors of the task that are run.
    split: one of the task's.
    kept: leave out all but these features; they may be whole documents.
    shard: a part of the split's files; all if None.
    on_bad: called with a sentence for an example that a step refuses, which is
      passed over; otherwise that is an error.

  Yields:
    Mappings: features of one dimension are numpy arrays, others numpy values
    or what their `tolist()` gives.

  Raises:
    UserError: a file or an example cannot be read; says which.
  """
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  what = f"split {split!r}"
  dataset = explain(lambda: _build(task, steps, split, kept, shard), task, what)
  done = 0
  size = _DOCUMENTS if kept else _BATCH
  if (batches := _batched(dataset, task, size)) is not None:
    try:
      for batch in batches:
        for example in _take_apart(batch):
          yield example
          done += 1
      return
    except tf.errors.OpError:
      dataset = dataset.skip(done)
  yield from one_by_one(dataset, task, what, done, on_bad)


@contextlib.contextmanager
def known_counts(counts: Mapping[str, int]) -> Iterator[None]:
  """Spares `count_examples` the training examples of the tasks in `counts`."""
  token = _known.set(counts)
  try:
    yield
  finally:
    _known.reset(token)


def count_examples(task: "seqio.Task", split: str = "train") -> int:
  """Returns how many examples `prepare` would write: 0 without the split.

  These are the examples after the task's steps, which filter some rows and make
  several examples of others; documents where a corruption follows.

  Raises:
    UserError: a file or an example cannot be read.
  """
  known = _known.get()
  if split == "train" and task.name in known:
    return known[task.name]
  return _counted(task, split)


@functools.lru_cache(maxsize=1024)
def _counted(task: "seqio.Task", split: str) -> int:
  what = f"split {split!r}"
  if split not in explain(lambda: task.splits, task, "splits"):
    return 0

  def count():
    dataset = _build(task, task_steps.divide_steps(task)[0], split)
    return int(dataset.reduce(np.int64(0), lambda total, _: total + 1))

  return explain(count, task, what)


def _build(
  task: "seqio.Task",
  steps: task_steps.Steps,
  split: str,
  kept: Sequence[str] = (),
  shard: "seqio.ShardInfo | None" = None,
) -> "tf.data.Dataset":
  """Returns the dataset of a split after `steps`."""
  import seqio  # pylint: disable=g-import-not-at-top
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  part = {} if shard is None else {"shard_info": shard}
  dataset = task.source.get_dataset(split=split, shuffle=False, **part)
  with seqio.utils.map_seed_manager(0):
    for step in steps:
      apply = seqio.utils.add_kwargs_to_transform(
        step, sequence_length=None, output_features=task.output_features
      )
      if getattr(step, "__module__", "").startswith("seqio."):
        # SeqIO's own steps branch on Python values alone. Translating them
        # takes seconds in a process and a quarter of one per split.
        apply = tf.autograph.experimental.do_not_convert(apply)
      dataset = apply(dataset)
  if kept:
    dataset = dataset.map(
      lambda example: {name: example[name] for name in kept if name in example}
    )
  return dataset


def _batched(
  dataset: "tf.data.Dataset", task: "seqio.Task", size: int
) -> "tf.data.Dataset | None":
  """Returns batches of `size`, None where the structure allows none."""
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  structure = dataset.element_spec
  specs = tf.nest.flatten(structure)
  if not isinstance(structure, dict) or not all(
    isinstance(spec, (tf.TensorSpec, tf.RaggedTensorSpec))
    and spec.shape.rank is not None
    for spec in specs
  ):
    return None
  for name in task.output_features:
    spec = structure.get(name)
    if isinstance(spec, tf.RaggedTensorSpec):
      return None
    if isinstance(spec, tf.TensorSpec) and spec.shape.rank != 1:
      return None
  return dataset.ragged_batch(size).prefetch(2)


def _take_apart(batch: Any) -> Iterator[Example]:
  """Yields the examples of a batch of tensors."""
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  columns = [_rows(tensor) for tensor in tf.nest.flatten(batch)]
  if all(not isinstance(value, dict) for value in batch.values()):
    # `flatten` goes by sorted keys; an example keeps the order of its own.
    by_name = dict(zip(sorted(batch), columns, strict=True))
    names = list(batch)
    for row in zip(*(by_name[name] for name in names), strict=True):
      yield dict(zip(names, row, strict=True))
    return
  for row in zip(*columns, strict=True):
    yield tf.nest.pack_sequence_as(batch, row)


def _rows(tensor: Any) -> Sequence[Any]:
  """Returns the values of a batched tensor by example."""
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  if not isinstance(tensor, tf.RaggedTensor):
    values = tensor.numpy()
    return values.tolist() if values.ndim == 1 else list(values)
  if tensor.ragged_rank > 1:
    return tensor.to_list()
  values = tensor.values.numpy()
  ends = tensor.row_splits.numpy().tolist()
  return [
    values[start:end] for start, end in zip(ends[:-1], ends[1:], strict=True)
  ]


_MOST_BAD = 1_000  # in a row: then it is not the rows that are bad
_NODE = re.compile(r"\{\{function_node .*?\}\}\s*")
# What TensorFlow puts before the message of an exception of Python.
_PYTHON = re.compile(r"^Error in user-defined function passed to .*?Error: ")


def explain(read: Callable[[], Any], task: "seqio.Task", what: str) -> Any:
  """Returns `read()`; what the user's files can cause becomes a UserError."""
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  try:
    return read()
  # TFDS asserts that a dataset is on disk.
  except (OSError, EOFError, AssertionError, tf.errors.OpError) as error:
    lines = _NODE.sub("", str(error)).strip().split("\n")
    reason = _PYTHON.sub("", lines[0])
    raise UserError(
      f"Task {task.name!r} cannot read its {what}: {reason}"
    ) from error


def one_by_one(
  dataset: "tf.data.Dataset",
  task: "seqio.Task",
  what: str,
  first: int,
  on_bad: Callable[[str], None] | None,
) -> Iterator[dict[str, Any]]:
  """Yields the examples of a dataset.

  Args:
    dataset: The dataset of one split.
    task: The task of the dataset.
    what: The name of the dataset in messages.
    first: number of its first example.
    on_bad: called with a sentence for an example that a step refuses, which is
      passed over; None for an error.

  Raises:
    UserError: a file or an example cannot be read; says which.
  """
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  examples = dataset.prefetch(64).as_numpy_iterator()
  end, bad = object(), 0
  for number in itertools.count(first):
    try:
      example = explain(
        lambda: next(examples, end), task, f"{what}, example {number}"
      )
    except UserError as error:
      bad += 1
      refused = isinstance(error.__cause__, tf.errors.InvalidArgumentError)
      if not refused or bad == _MOST_BAD:
        raise
      if on_bad is None:
        raise UserError(
          f"{error}; mend the data, or skip such rows with --skip_bad_rows."
        ) from error
      on_bad(str(error))
      continue
    if example is end:
      return
    bad = 0
    yield example
