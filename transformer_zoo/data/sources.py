"""Reads examples of a prepared task by index, trimmed and with EOS."""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any, Protocol

import grain
import numpy as np

from transformer_zoo import corruption as corruptions
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data import manifest
from transformer_zoo.data import records
from transformer_zoo.data import trimming
from transformer_zoo.errors import UserError

FEATURES = ("inputs", "targets")
# Splits up to this size stay in memory once read (about 2 KB an example): small
# tasks are read for many epochs, and a read of few records costs 30 us each.
_MOST_KEPT = 100_000


@dataclasses.dataclass(frozen=True)
class Examples:
  """Examples as they were read, trimmed, EOS included.

  Attributes:
    inputs: ids of each.
    targets: ids of each.
    texts: the untokenised rest of each.
  """

  inputs: Ragged
  targets: Ragged
  texts: list[dict[str, Any]]


class Source(Protocol):
  """Random access to the examples of one split of one task.

  Attributes:
    num_examples: how many there are in an epoch.
  """

  num_examples: int

  def lengths(self, indices: np.ndarray) -> np.ndarray:
    """Returns trimmed lengths, int32 [n, 2], without reading the records."""

  def read(
    self, indices: np.ndarray, seed: int, places: np.ndarray
  ) -> Examples:
    """Reads the examples of some indices.

    Args:
      indices: int64 [n].
      seed: of what is drawn.
      places: int64 [n], with `seed` the key of what each example draws.
    """


def open_source(
  task: manifest.PreparedTask,
  split: str,
  lengths: Mapping[str, int],
  corruption: Callable[..., dict[str, Ragged]] | None,
) -> Source:
  """Returns the source of a split.

  Args:
    task: the prepared task.
    split: one of its splits.
    lengths: tokens of 'inputs' and 'targets', EOS counted.
    corruption: instead of the task's own, in a 'tokens' task.

  Raises:
    UserError: the task lacks the split or a feature; its files are damaged;
      the lengths are not positive, do not fit the corruption, or exceed the
      split's text.
  """
  for feature in FEATURES:
    length = lengths.get(feature)
    if not isinstance(length, (int, np.integer)) or length < 1:
      raise UserError(
        f"The length of {feature!r} is {length!r}; give a whole number of "
        "tokens, 1 or more, for 'inputs' and 'targets'."
      )
    if feature not in task.features:
      raise UserError(
        f"Task {task.name!r} has no feature {feature!r}, which an "
        f"encoder-decoder needs; it has {', '.join(task.features)}."
      )
  if task.kind == "tokens":
    return _TokenSource(task, split, lengths, corruption)
  return _ExampleSource(task, split, lengths)


class _ExampleSource:
  """Examples as the task made them."""

  def __init__(
    self,
    task: manifest.PreparedTask,
    split: str,
    lengths: Mapping[str, int],
  ):
    self._records = grain.sources.ArrayRecordDataSource(task.record_file(split))
    widths = [lengths[feature] for feature in FEATURES]
    columns = [task.features.index(feature) for feature in FEATURES]
    self._lengths = np.minimum(task.lengths(split)[:, columns], widths)
    self._trim = trimming.Trimmer(
      task, dict(zip(FEATURES, widths, strict=True))
    )
    self.num_examples = task.split(split).num_examples
    self._kept = {}
    self._keep = self.num_examples <= _MOST_KEPT

  def lengths(self, indices: np.ndarray) -> np.ndarray:
    return self._lengths[indices]

  def read(
    self, indices: np.ndarray, seed: int, places: np.ndarray
  ) -> Examples:
    wanted = indices.tolist()
    missing = [index for index in wanted if index not in self._kept]
    read = {}
    if missing:
      for index, record in zip(
        missing, self._records.__getitems__(missing), strict=True
      ):
        read[index] = self._decode(record)
      if self._keep:
        self._kept.update(read)
    examples = [read[i] if i in read else self._kept[i] for i in wanted]
    if self._trim.drawn:
      examples = [
        (self._trim(tokens, text, (seed, place)), text)
        for (tokens, text), place in zip(examples, places.tolist(), strict=True)
      ]
    inputs, targets = (
      Ragged.of([tokens[feature] for tokens, _ in examples])
      for feature in FEATURES
    )
    return Examples(inputs, targets, [text for _, text in examples])

  def _decode(
    self, record: bytes
  ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns ids by feature, trimmed unless that is drawn, and the texts."""
    tokens, text = records.decode_example(record)
    return (tokens if self._trim.drawn else self._trim(tokens, text)), text


class _TokenSource:
  """Chunks of a token stream, corrupted when they are read."""

  def __init__(
    self,
    task: manifest.PreparedTask,
    split: str,
    lengths: Mapping[str, int],
    corruption: Callable[..., dict[str, Ragged]] | None,
  ):
    if corruption is None:
      corruption = corruptions.from_spec(task.corruption)
    corruption.check(lengths, task.vocabulary)
    self._corruption = corruption
    self._records = grain.sources.ArrayRecordDataSource(task.record_file(split))
    self._dtype = task.token_dtype
    self._vocabulary = task.vocabulary
    self._eos_after_trim = task.eos_after_trim
    self._widths = [lengths[feature] for feature in FEATURES]
    self._raw_length = corruption.raw_length(lengths)
    num_tokens = task.split(split).num_tokens
    self.num_examples = num_tokens // self._raw_length
    if not self.num_examples:
      raise UserError(
        f"Split {split!r} of task {task.name!r} has {num_tokens} tokens, fewer "
        f"than one example of {self._raw_length} at inputs length "
        f"{lengths['inputs']}; use a smaller length or more text."
      )

  def lengths(self, indices: np.ndarray) -> np.ndarray:
    # A chunk is cut to fill the inputs, so it always has a row of its own.
    return np.tile(np.array(self._widths, np.int32), (len(indices), 1))

  def read(
    self, indices: np.ndarray, seed: int, places: np.ndarray
  ) -> Examples:
    chunks = self._chunks(indices * self._raw_length)
    corrupted = self._corruption(chunks, Draws(seed, places), self._vocabulary)
    inputs, targets = (
      corrupted[feature].ended(
        self._vocabulary.eos_id, width, self._eos_after_trim
      )
      for feature, width in zip(FEATURES, self._widths, strict=True)
    )
    return Examples(inputs, targets, [{} for _ in places])

  def _chunks(self, starts: np.ndarray) -> np.ndarray:
    """Returns the stream from each of `starts` on, int32 [n, raw_length]."""
    size = manifest.BLOCK_LENGTH
    first = starts // size
    last = (starts + self._raw_length - 1) // size
    spanned = first[:, None] + np.arange((last - first).max() + 1)
    blocks = np.unique(spanned[spanned <= last[:, None]])
    read = self._records.__getitems__(blocks.tolist())
    stream = np.zeros((len(blocks), size), np.int32)
    for row, record in zip(stream, read, strict=True):
      tokens = np.frombuffer(record, self._dtype)
      row[: len(tokens)] = tokens
    # The blocks of a chunk follow each other in `stream` as they do on disk.
    begins = np.searchsorted(blocks, first) * size + starts % size
    places = begins[:, None] + np.arange(self._raw_length)
    return stream.ravel()[places]
