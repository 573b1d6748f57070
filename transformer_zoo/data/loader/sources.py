"""Reads examples of a prepared task by index, trimmed and with EOS."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from transformer_zoo import corruption as corruptions
from transformer_zoo.corruption.denoising import Denoising
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.span_corruption import SpanCorruption
from transformer_zoo.data.features import trimming
from transformer_zoo.data.loader.examples import ExampleCache
from transformer_zoo.data.loader.examples import Examples
from transformer_zoo.data.loader.examples import used_tokens
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage import records
from transformer_zoo.data.storage import token_stream
from transformer_zoo.errors import UserError

FEATURES = ("inputs", "targets")


class Source(Protocol):
  """Random access to the examples of one split of one task.

  Attributes:
    num_examples: how many there are in an epoch.
    layout: 'encoder_decoder' or 'encoder', for which converters its features
      are made.
    shares_rows: whether several examples may fit into a row.
    cached_bytes: of memory that its examples may take.
  """

  num_examples: int
  layout: str
  shares_rows: bool
  cached_bytes: int

  def lengths(self, indices: np.ndarray) -> np.ndarray:
    """Returns trimmed lengths, int32 [n, features], without reading records."""

  def read(self, indices: np.ndarray, seed: int, keys: np.ndarray) -> Examples:
    """Reads the examples of some indices.

    Args:
      indices: int64 [n].
      seed: of what is drawn.
      keys: int64 [n], with `seed` the key of what each example draws.
    """


def open_source(
  task: manifest.PreparedTask,
  split: str,
  lengths: Mapping[str, int],
  corruption: Callable[..., dict[str, Ragged]] | None,
  *,
  features: Sequence[str] = FEATURES,
  longest: Mapping[str, int] | None = None,
  max_tokens: int | None = None,
  cache_bytes: int = 0,
  trimming_rule: trimming.Rule | None = None,
) -> Source:
  """Returns the source of a split.

  Args:
    task: the prepared task.
    split: one of its splits.
    lengths: tokens of each feature, EOS counted.
    corruption: instead of the task's own, in a 'tokens' task.
    features: those that are needed.
    longest: lengths that text is cut into chunks for; of each chunk the first
      tokens are read, as `lengths` allow. By default `lengths`.
    max_tokens: only so many of the first tokens of a 'tokens' task.
    cache_bytes: a task of examples that takes no more stays in memory.
    trimming_rule: cuts long examples of a task that has no rule of its own.

  Raises:
    UserError: the task lacks the split or a feature; its files are damaged;
      the lengths are not positive, do not fit the corruption, or exceed the
      split's text; it has fewer than `max_tokens`.
  """
  for feature in features:
    length = lengths.get(feature)
    if not isinstance(length, (int, np.integer)) or length < 1:
      raise UserError(
        f"The length of {feature!r} is {length!r}; give a whole number of "
        f"tokens, 1 or more, for {' and '.join(map(repr, features))}."
      )
    if feature not in task.features:
      raise UserError(
        f"Task {task.name!r} has no feature {feature!r}, which the model "
        f"needs; it has {', '.join(task.features)}."
      )
  if task.kind == "tokens":
    return _open_text(
      task, split, lengths, corruption, features, longest or lengths, max_tokens
    )
  return _ExampleSource(
    task, split, lengths, features, cache_bytes, trimming_rule
  )


def _open_text(
  task: manifest.PreparedTask,
  split: str,
  lengths: Mapping[str, int],
  corruption: Any,
  features: Sequence[str],
  longest: Mapping[str, int],
  max_tokens: int | None,
) -> Source:
  """Returns the source of unlabelled text that a corruption works on."""
  if corruption is None:
    corruption = corruptions.from_spec(task.corruption)
  layout = getattr(corruption, "layout", "encoder_decoder")
  lengths, longest = _completed(lengths, layout), _completed(longest, layout)
  arguments = task, split, lengths, corruption, features, longest, max_tokens
  if isinstance(corruption, Denoising | SpanCorruption):
    return _TokenSource(*arguments)
  # Span corruption and denoising load no source of another kind.
  from transformer_zoo.data.loader import concatenated_source
  from transformer_zoo.data.loader import sentence_source

  if isinstance(corruption, sentence_source.Objective):
    return sentence_source.SentenceSource(
      task, split, lengths, corruption, max_tokens
    )
  if isinstance(corruption, concatenated_source.ConcatenatedDocuments):
    return concatenated_source.ConcatenatedSource(*arguments)
  return _TokenSource(*arguments)


class _ExampleSource:
  """Examples as the task made them."""

  layout = "encoder_decoder"
  shares_rows = True

  def __init__(
    self,
    task: manifest.PreparedTask,
    split: str,
    lengths: Mapping[str, int],
    features: Sequence[str],
    cache_bytes: int,
    trimming_rule: trimming.Rule | None,
  ):
    self._records = records.ExampleRecords(task, split)
    self._features = tuple(features)
    self._widths = np.array([lengths[name] for name in features], np.int32)
    self._columns = [task.features.index(name) for name in features]
    self._untrimmed = task.lengths(split)
    self._trim = trimming.Trimmer(
      task, {name: lengths[name] for name in features}, trimming_rule
    )
    self.num_examples = task.split(split).num_examples
    self._cache, self.cached_bytes = None, 0
    # The lengths of a large task need not be summed.
    if 4 * self.num_examples <= cache_bytes and not self._trim.drawn:
      trimmed = self.lengths(slice(None))
      num_bytes = ExampleCache.num_bytes(trimmed)
      if num_bytes <= cache_bytes:
        self._cache = ExampleCache(trimmed, self._features)
        self.cached_bytes = num_bytes

  def lengths(self, indices: np.ndarray | slice) -> np.ndarray:
    return np.minimum(self._untrimmed[indices][:, self._columns], self._widths)

  def read(self, indices: np.ndarray, seed: int, keys: np.ndarray) -> Examples:
    if self._cache is None:
      return self._read(indices, seed, keys)
    missing = self._cache.missing(indices)
    if missing.size:
      read = self._read(missing, seed, missing)
      self._cache.put(missing, read.features)
    return Examples(self._cache.take(indices), [])

  def _read(self, indices: np.ndarray, seed: int, keys: np.ndarray) -> Examples:
    examples, texts = [], []
    read = self._records.read(indices)
    for (tokens, text), key in zip(read, keys.tolist(), strict=True):
      examples.append(self._trim(tokens, text, (seed, key)))
      texts.append(text)
    joined = {
      name: Ragged.of([tokens[name] for tokens in examples])
      for name in self._features
    }
    return Examples(joined, texts)


class _TokenSource:
  """Chunks of a token stream, corrupted when they are read."""

  cached_bytes = 0
  shares_rows = False

  def __init__(
    self,
    task: manifest.PreparedTask,
    split: str,
    lengths: Mapping[str, int],
    corruption: Callable[..., dict[str, Ragged]],
    features: Sequence[str],
    longest: Mapping[str, int],
    max_tokens: int | None,
  ):
    corruption.check(lengths, task.vocabulary)
    self.layout = getattr(corruption, "layout", "encoder_decoder")
    self._corruption = corruption
    self._vocabulary = task.vocabulary
    self._eos_after_trim = task.eos_after_trim
    self._widths = {name: lengths[name] for name in features}
    self._raw_length = corruption.raw_length(lengths)
    self._stride = corruption.raw_length(longest)
    self._stream = token_stream.TokenStream(task, split)
    num_tokens = used_tokens(task, split, max_tokens)
    self.num_examples = num_tokens // self._stride
    if not self.num_examples:
      raise UserError(
        f"Split {split!r} of task {task.name!r} has {num_tokens} tokens, fewer "
        f"than one example of {self._stride} at lengths {dict(longest)}; use "
        "smaller lengths or more text."
      )

  def lengths(self, indices: np.ndarray) -> np.ndarray:
    # A chunk is cut to fill the inputs, so it always has a row of its own.
    widths = np.array([*self._widths.values()], np.int32)
    return np.tile(widths, (len(indices), 1))

  def read(self, indices: np.ndarray, seed: int, keys: np.ndarray) -> Examples:
    chunks = self._stream.read(indices * self._stride, self._raw_length)
    corrupted = self._corruption(chunks, Draws(seed, keys), self._vocabulary)
    if self.layout == "encoder_decoder":
      corrupted = {
        name: corrupted[name].ended(
          self._vocabulary.eos_id, width, self._eos_after_trim
        )
        for name, width in self._widths.items()
      }
    return Examples(corrupted, [{} for _ in keys])


def _completed(lengths: Mapping[str, int], layout: str) -> dict[str, int]:
  """Adds the lengths that a converter of one feature leaves out.

  What an encoder should predict is as long as what it reads; a language model
  reads nothing before its targets, EOS apart.
  """
  inputs = lengths.get("inputs", 1)
  targets = inputs if layout == "encoder" else 1
  return {"inputs": inputs, "targets": targets, **lengths}
