"""Jobs: the shards that a split is cut into, each written by one job.

The cut depends on the source's files alone, so the same shards come out of any
number of processes, here or on the machines of a Beam runner.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
import dataclasses
import itertools
import os
import pathlib
from typing import Any, TYPE_CHECKING

import numpy as np

from transformer_zoo.data.prepare import fingerprints
from transformer_zoo.data.prepare import reading
from transformer_zoo.data.prepare import shards
from transformer_zoo.data.prepare import task_steps
from transformer_zoo.data.prepare import tokenizing
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage import records

if TYPE_CHECKING:
  import seqio

# About the text of a shard: enough to make it worth a process of its own.
_SHARD_BYTES = 24 << 20
# TensorFlow takes seconds to begin in each process.
_TENSORFLOW_SHARD_BYTES = 8 * _SHARD_BYTES
_MOST_SHARDS = 1024
_GZIP_RATIO = 3  # of text; only progress and the cut depend on it
_TOLD_EXAMPLES = 64


@dataclasses.dataclass(frozen=True)
class Job:
  """One shard to write; may be sent to another process.

  Attributes:
    task: The prepared task, still without splits.
    place: The place of the shard among the shards of its split.
    files: The range of the source's files that the shard has, first and end;
      None for all files of the source.
    size: about the bytes of text in them, or the number of examples; 0 where
      neither is known.
    folder: The folder that the shard is written to.
    first: The number of examples that are written, from the first; all if None.
  """

  task: manifest.PreparedTask
  place: shards.Place
  files: tuple[int, int] | None
  size: int
  folder: str
  first: int | None = None

  @property
  def finished(self) -> bool:
    """Whether it has been done."""
    return shards.is_finished(self.place, pathlib.Path(self.folder))


def plan(
  task: "seqio.Task",
  prepared: manifest.PreparedTask,
  split: str,
  folder: pathlib.Path,
  first: int | None = None,
) -> list[Job]:
  """Returns the jobs of a split, in the order of its shards."""
  steps = task_steps.divide_steps(task)[0]
  # Other steps may look at several examples.
  of_examples = prepared.kind == "examples"
  if of_examples or task_steps.find_text_steps(steps) is None:
    count = task.source.num_input_examples(split) or 0
    place = shards.Place(split)
    if first is not None and of_examples:
      count = min(count or first, first)
      return [Job(prepared, place, None, count, str(folder), first)]
    return [Job(prepared, place, None, count, str(folder))]
  sizes = [_text_bytes(file) for file in task.source.list_shards(split)]
  direct = reads_documents(task)
  cuts = _cut(sizes, _SHARD_BYTES if direct else _TENSORFLOW_SHARD_BYTES)
  whole = len(cuts) == 2 and not direct
  return [
    Job(
      prepared,
      shards.Place(split, index, len(cuts) - 1),
      None if whole else (first, last),
      sum(sizes[first:last]),
      str(folder),
    )
    for index, (first, last) in enumerate(itertools.pairwise(cuts))
  ]


def reads_documents(task: "seqio.Task") -> bool:
  """Returns whether the source hands over documents without TensorFlow."""
  return hasattr(task.source, "documents")


def write(
  job: Job,
  *,
  threads: Callable[[], int] = lambda: 1,
  note: Callable[[float, int], None] = lambda share, number: None,
) -> None:
  """Writes a shard, of a task that is registered in this process.

  Args:
    job: The shard to write.
    threads: A function that returns how many threads may tokenise now.
    note: called with the share that is done and the number of examples.

  Raises:
    UserError: a file or an example cannot be read, or its ids are wrong.
  """
  import seqio  # pylint: disable=g-import-not-at-top

  task = seqio.TaskRegistry.get(job.task.name)
  steps = task_steps.divide_steps(task)[0]
  progress = _Progress(job.size, note)
  skipped = shards.Skipped()
  text_steps = task_steps.find_text_steps(steps)
  if job.task.kind == "tokens" and text_steps is not None:
    texts = _read_texts(task, job, text_steps.key, skipped)
    documents = tokenizing.tokenize(
      progress.read_characters(texts),
      job.task.vocabulary,
      language=text_steps.language,
      threads=threads,
    )
    content = progress.count_documents(documents)
  else:
    content = progress.count_examples(_read_examples(task, steps, job, skipped))
    content = _then_skipped(content, task, job.place.split, skipped)
    if job.task.kind == "tokens":
      content = shards.join_documents(content, job.place.split, job.task)
  folder = pathlib.Path(job.folder)
  shards.write_shard(content, job.place, job.task, folder, skipped)


class _Progress:
  """Counts what goes by."""

  def __init__(self, size: int, note: Callable[[float, int], None]):
    self._size, self._note = size, note
    self._read = self._number = 0

  def read_characters(self, texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
      self._read += len(text)
      yield text

  def count_documents(
    self, batches: Iterable[shards.Documents]
  ) -> Iterator[shards.Documents]:
    for documents in batches:
      self._number += len(documents.lengths)
      self._tell()
      yield documents

  def count_examples(self, examples: Iterable[Any]) -> Iterator[Any]:
    for example in examples:
      self._number += 1
      if self._number % _TOLD_EXAMPLES == 0:
        self._read = self._number
        self._tell()
      yield example

  def _tell(self) -> None:
    # The size is a guess: a shard is done when it is written.
    share = min(self._read / self._size, 0.99) if self._size else 0.0
    self._note(share, self._number)


def _read_texts(
  task: "seqio.Task", job: Job, key: str, skipped: shards.Skipped
) -> Iterator[str]:
  """Yields the documents of a shard, in their order."""
  import seqio  # pylint: disable=g-import-not-at-top

  split = job.place.split
  if reads_documents(task):
    for path in task.source.list_shards(split)[slice(*job.files)]:
      yield from task.source.documents(path, skipped.add)
  elif job.files is None:
    yield from reading.read_texts(task, key, split)
    _count_skipped(task, split, skipped)
  else:
    count = len(task.source.list_shards(split))
    for index in range(*job.files):
      shard = seqio.ShardInfo(index, count)
      yield from reading.read_texts(task, key, split, shard)


def _read_examples(
  task: "seqio.Task",
  steps: Sequence[Callable[..., Any]],
  job: Job,
  skipped: shards.Skipped,
) -> Iterator[Any]:
  kept = ()
  if job.task.kind == "tokens":
    kept = "targets", shards.SENTENCE_LENGTHS
  on_bad = skipped.add if fingerprints.skips_bad_rows() else None
  examples = reading.read_split(
    task, steps, job.place.split, kept=kept, on_bad=on_bad
  )
  return examples if job.first is None else _first(examples, job.first)


def _first(
  examples: Iterable[reading.Example], number: int
) -> Iterator[reading.Example]:
  """Yields the first examples, those that rank choices as `rows_of` counts."""
  questions = set()
  for example in examples:
    question = records.question_of(example)
    questions.add(len(questions) if question is None else question)
    if len(questions) > number:
      return
    yield example


def _then_skipped(
  content: Iterable[Any],
  task: "seqio.Task",
  split: str,
  skipped: shards.Skipped,
) -> Iterator[Any]:
  yield from content
  _count_skipped(task, split, skipped)


def _count_skipped(
  task: "seqio.Task", split: str, skipped: shards.Skipped
) -> None:
  for sentence in getattr(task.source, "skipped_rows", lambda _: [])(split):
    skipped.add(sentence)


def _text_bytes(file: Any) -> int:
  path = str(getattr(file, "filename", file))
  try:
    size = os.path.getsize(path)
  except OSError:  # a shard that is no file
    return 0
  return size * _GZIP_RATIO if path.endswith(".gz") else size


def _cut(sizes: Sequence[int], target: int) -> list[int]:
  """Returns where to cut a row of files into parts of about equal size.

  Args:
    sizes: The sizes of the files, in bytes.
    target: about the size of a part.

  Returns:
    ascending indices from 0 to the number of files.
  """
  total = sum(sizes)
  count = max(1, min(-(-total // target), len(sizes), _MOST_SHARDS))
  middles = np.cumsum(sizes) - np.array(sizes) / 2
  parts = middles * count // max(total, 1)
  return [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(sizes)]
