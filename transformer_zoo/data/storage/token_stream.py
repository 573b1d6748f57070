"""The token stream of unlabelled text, read at any place."""

from collections.abc import Iterator
import contextlib
import os
import threading
import zlib

import numpy as np

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.storage import integrity
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

_MOST_OPEN = 512  # files kept open; a process may often have 1024


class TokenStream:
  """The documents of a split of a 'tokens' task, joined, over all its shards.

  Reading goes by blocks whose checksum is compared each time. It keeps nothing
  in memory, and processes and threads may share a stream.

  Attributes:
    num_tokens: length of the stream.
    document_ends: int64 [documents], exclusive offsets, memory-mapped.
    sentence_ends: int64 [sentences], the same; None where the task does not
      split sentences.
  """

  def __init__(self, task: manifest.PreparedTask, split: str):
    """Checks the files (`PreparedTask.record_files`) and opens them when read.

    Raises:
      UserError: the task is of another kind or lacks the split; a file is
        missing or damaged.
    """
    self._files = {}
    self._opening = threading.Lock()
    if task.kind != "tokens":
      raise UserError(
        f"Task {task.name!r} has examples, no stream of unlabelled text."
      )
    self._arguments = task, split
    info = task.split(split)
    self._paths = task.record_files(split)
    self._checksums = task.table(split, "checksums")
    self.num_tokens = info.num_tokens
    self.document_ends = task.table(split, "document_ends")
    self.sentence_ends = (
      task.table(split, "sentence_ends")
      if "sentence_ends" in info.tables
      else None
    )
    self._dtype = np.dtype(task.token_dtype)
    self._block_length = integrity.BLOCK_BYTES // self._dtype.itemsize
    lengths = np.array([shard.num_tokens for shard in info.shards], np.int64)
    self._shard_ends = np.cumsum(lengths)
    self._shard_starts = self._shard_ends - lengths
    num_blocks = -(-lengths // self._block_length)
    self._first_blocks = np.cumsum(num_blocks) - num_blocks

  def __reduce__(self):
    return TokenStream, self._arguments

  def __del__(self):
    for file in self._files.values():
      os.close(file)

  def read(self, starts: np.ndarray, length: int) -> np.ndarray:
    """Returns the tokens from each of `starts` on, int32 [n, length].

    Args:
      starts: int64 [n], each at least `length` before the end of the stream.
      length: tokens of each.

    Raises:
      UserError: a block that is read is damaged; says in which file and where.
      ValueError: a row would begin or end outside the stream.
    """
    starts = np.asarray(starts, np.int64)
    if not starts.size or not length:
      return np.zeros((len(starts), length), np.int32)
    if starts.min() < 0 or starts.max() + length > self.num_tokens:
      raise ValueError(
        f"{length} tokens from {starts.min()} to {starts.max()} are not all in "
        f"a stream of {self.num_tokens}."
      )
    first = self._blocks_of(starts)
    last = self._blocks_of(starts + length - 1)
    spanned = first[:, None] + np.arange((last - first).max() + 1)
    blocks = np.unique(spanned[spanned <= last[:, None]])
    tokens, places, begins = self._read_blocks(blocks)
    # The blocks of a row follow each other in `tokens` as in the stream.
    number = np.searchsorted(blocks, first)
    rows = np.lib.stride_tricks.sliding_window_view(tokens, length)
    return rows[places[number] + starts - begins[number]].astype(np.int32)

  def read_pieces(self, starts: np.ndarray, lengths: np.ndarray) -> Ragged:
    """Returns `lengths` tokens from each of `starts` on.

    Args:
      starts: int64 [n].
      lengths: int64 [n]; all pieces are within the stream.

    Raises:
      UserError: as `read`.
    """
    width = int(lengths.max(initial=0))
    begins = np.minimum(starts, self.num_tokens - width)
    skipped = (starts - begins)[:, None]
    places = np.arange(width)
    wanted = (skipped <= places) & (places < skipped + lengths[:, None])
    return Ragged.selected(self.read(begins, width), wanted)

  def _blocks_of(self, offsets: np.ndarray) -> np.ndarray:
    """Returns the number of the block, over all shards, of each token."""
    shards = np.searchsorted(self._shard_ends, offsets, side="right")
    within = offsets - self._shard_starts[shards]
    return self._first_blocks[shards] + within // self._block_length

  def _read_blocks(
    self, blocks: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reads blocks.

    Args:
      blocks: numbers over all shards, ascending.

    Returns:
      their tokens joined; for each block its place there, and its place in the
      stream.
    """
    shards = np.searchsorted(self._first_blocks, blocks, side="right") - 1
    within = blocks - self._first_blocks[shards]
    begins = self._shard_starts[shards] + within * self._block_length
    sizes = np.minimum(self._block_length, self._shard_ends[shards] - begins)
    ends = np.cumsum(sizes)
    tokens = np.empty(ends[-1], self._dtype)
    content = memoryview(tokens).cast("B")
    width = self._dtype.itemsize
    for shard, block, checksum, start, end in zip(
      shards.tolist(),
      within.tolist(),
      self._checksums[blocks].tolist(),
      ((ends - sizes) * width).tolist(),
      (ends * width).tolist(),
      strict=True,
    ):
      self._read_block(shard, block, checksum, content[start:end])
    return tokens, ends - sizes, begins

  def _read_block(
    self, shard: int, block: int, checksum: int, content: memoryview
  ) -> None:
    """Fills `content` with a block of a shard."""
    place = block * integrity.BLOCK_BYTES
    if shard in self._files:
      count = os.preadv(self._files[shard], [content], place)
    else:
      with self._opened(shard) as file:
        count = os.preadv(file, [content], place)
    if count != len(content) or zlib.crc32(content) != checksum:
      raise integrity.damaged_block(self._paths[shard], block)

  @contextlib.contextmanager
  def _opened(self, shard: int) -> Iterator[int]:
    """Gives the descriptor of a shard's file, kept open where it can be."""
    try:
      file = os.open(self._paths[shard], os.O_RDONLY)
    except OSError as error:
      raise integrity.unreadable(self._paths[shard], error) from None
    with self._opening:
      keep = shard not in self._files and len(self._files) < _MOST_OPEN
      if keep:
        self._files[shard] = file
    try:
      yield file
    finally:
      if not keep:
        os.close(file)
