"""Sources of a prepared task's examples, read by index, trimmed and cached."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo import corruption as corruptions
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data import trimming
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import forms
from transformer_zoo.data.loader.examples import Examples
from transformer_zoo.data.loader.examples import Source
from transformer_zoo.data.loader.examples import used_tokens
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError


def open_source(
  task: manifest.PreparedTask,
  split: str,
  lengths: Mapping[str, int],
  corruption: Callable[..., dict[str, Ragged]] | None,
  *,
  converter: converters.Converter = converters.ENCODER_DECODER,
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
    converter: The converter that lays the examples out.
    longest: lengths that text is cut into chunks for; of each chunk the first
      tokens are read, as `lengths` allow. By default `lengths`.
    max_tokens: only so many of the first tokens of a 'tokens' task.
    cache_bytes: a task of examples that takes no more stays in memory.
    trimming_rule: cuts long examples of a task that has no rule of its own.

  Raises:
    UserError: the task lacks the split or a feature; its files are damaged;
      the lengths are not positive, do not fit the corruption, or exceed the
      split's text; it has fewer than `max_tokens`; its examples are of another
      kind than the converter lays out.
  """
  if (converter.begin_id, converter.end_id) != (None, None):
    # A run imports the source that its converter needs.
    from transformer_zoo.data.loader import prefixed_source

    source = open_source(
      task,
      split,
      converters.room(converter, lengths),
      corruption,
      converter=dataclasses.replace(converter, begin_id=None, end_id=None),
      longest=longest and converters.room(converter, longest),
      max_tokens=max_tokens,
      cache_bytes=cache_bytes,
      trimming_rule=trimming_rule,
    )
    return prefixed_source.PrefixedSource(
      source, converter.begin_id, converter.end_id
    )
  features = converter.features
  for feature in features:
    length = lengths.get(feature)
    if not isinstance(length, (int, np.integer)) or length < 1:
      raise UserError(
        f"The length of {feature!r} is {length!r}; give a whole number of "
        f"tokens, 1 or more, for {' and '.join(map(repr, features))}."
      )
    if feature not in task.features and task.form is None:
      raise UserError(
        f"Task {task.name!r} has no feature {feature!r}, which the model "
        f"needs; it has {', '.join(task.features)}."
      )
  if task.kind == "tokens":
    source = _open_text(
      task, split, lengths, corruption, features, longest or lengths, max_tokens
    )
    _check_layout(task, source.layout, converter)
    return source
  layout = task.form["form"] if task.form else _ExampleSource.layout
  _check_layout(task, layout, converter)
  if task.form:
    # A run imports the source that its task needs.
    from transformer_zoo.data.loader import form_source

    return form_source.FormSource(task, split, lengths, converter)
  return _ExampleSource(
    task, split, lengths, features, cache_bytes, trimming_rule
  )


# Layout -> the kind of examples in messages.
# Records that are read at once to count questions.
_ROWS_AT_ONCE = 256
_KINDS = {
  "encoder_decoder": "for an encoder_decoder model",
  "encoder": "for an encoder model",
  **{form: f"of the form {form!r}" for form in forms.FORMS},
}


def _check_layout(
  task: manifest.PreparedTask, layout: str, converter: converters.Converter
) -> None:
  """Raises UserError if the converter lays out examples of another kind."""
  heads = getattr(converter, "heads", {})
  if layout == heads.get(task.name, converter.layout):
    return
  if heads:
    raise UserError(
      f"Task {task.name!r} makes examples {_KINDS[layout]}, and "
      f"EncoderFeatures.heads are {dict(heads)}; name the form of each task "
      "that is read."
    )
  if task.kind == "tokens":
    advice = (
      "choose another CORRUPTION, or both the converter and a model of such "
      "examples."
    )
  else:
    advice = (
      "choose the form by EncoderFeatures.form (`zoo inspect task` lists those "
      "of a task), or both the converter and a model of such examples."
    )
  raise UserError(
    f"Task {task.name!r} makes examples {_KINDS[layout]}, but the converter "
    f"{type(converter).__name__} lays out those {_KINDS[converter.layout]}; "
    + advice
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
  layout = corruption.layout
  lengths, longest = _completed(lengths, layout), _completed(longest, layout)
  unit = corruption.unit
  # A run imports the source that its corruption needs.
  if unit == "sentence":
    from transformer_zoo.data.loader import sentence_source

    return sentence_source.SentenceSource(
      task, split, lengths, corruption, max_tokens
    )
  arguments = task, split, lengths, corruption, features, longest, max_tokens
  if unit == "document":
    from transformer_zoo.data.loader import concatenated_source

    return concatenated_source.ConcatenatedSource(*arguments)
  return _TokenSource(*arguments)


class ExampleCache:
  """Trimmed examples of a small task, which is read for many epochs.

  Tokens of all examples lie in one array per feature, so that it costs what
  `num_bytes` says and not an object per example.
  """

  def __init__(self, lengths: np.ndarray, features: tuple[str, ...]):
    """Makes an empty cache.

    Args:
      lengths: the most tokens of each example, int [examples, features].
      features: The names of the features.
    """
    starts = np.cumsum(lengths, axis=0, dtype=np.int64) - lengths
    self._starts = dict(zip(features, starts.T, strict=True))
    self._lengths = {
      name: np.zeros(len(lengths), np.int64) for name in features
    }
    self._values = {
      name: np.empty(total, np.int32)
      for name, total in zip(features, lengths.sum(axis=0), strict=True)
    }
    self._has = np.zeros(len(lengths), bool)

  @staticmethod
  def num_bytes(lengths: np.ndarray) -> int:
    """Returns the memory of a cache of such examples, when it is full."""
    num_examples, num_features = lengths.shape
    tokens = int(lengths.sum(dtype=np.int64))
    return 4 * tokens + num_examples * (16 * num_features + 1)

  def missing(self, indices: np.ndarray) -> np.ndarray:
    """Returns the `indices` that are not in it, each once."""
    return np.unique(indices[~self._has[indices]])

  def put(self, indices: np.ndarray, examples: Mapping[str, Ragged]) -> None:
    """Keeps examples; threads may put the same ones at once."""
    for name, sequences in examples.items():
      places = _places(self._starts[name][indices], sequences.lengths)
      self._values[name][places] = sequences.values
      self._lengths[name][indices] = sequences.lengths
    self._has[indices] = True

  def take(self, indices: np.ndarray) -> dict[str, Ragged]:
    """Returns examples that are in it."""
    taken = {}
    for name, values in self._values.items():
      lengths = self._lengths[name][indices]
      places = _places(self._starts[name][indices], lengths)
      taken[name] = Ragged(values[places], lengths)
    return taken


def _places(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
  """Returns where the tokens of sequences are that begin at `starts`."""
  shifts = starts - (np.cumsum(lengths) - lengths)
  return np.arange(lengths.sum()) + np.repeat(shifts, lengths)


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
    from transformer_zoo.data.storage import records

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

  def rows_of(self, examples: int) -> int:
    """Returns the number of rows of so many of the first examples.

    The rows that rank the choices of one question are one example.
    """
    from transformer_zoo.data.storage import records

    questions, most = set(), self.num_examples
    for start in range(0, most, _ROWS_AT_ONCE):
      rows = np.arange(start, min(start + _ROWS_AT_ONCE, most))
      for row, (_, text) in zip(rows, self._records.read(rows), strict=True):
        if (question := records.question_of(text)) is None:
          return min(examples, most)
        questions.add(question)
        if len(questions) > examples:
          return int(row)
    return most

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
    self.layout = corruption.layout
    self._corruption = corruption
    self._vocabulary = task.vocabulary
    self._eos_after_trim = task.eos_after_trim
    self._widths = {name: lengths[name] for name in features}
    self._raw_length = corruption.raw_length(lengths)
    self._stride = corruption.raw_length(longest)
    from transformer_zoo.data.storage import token_stream

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
      starts = corrupted.get("target_starts")
      corrupted = {
        name: corrupted[name].ended(
          self._vocabulary.eos_id, width, self._eos_after_trim
        )
        for name, width in self._widths.items()
      }
      if starts is not None:
        corrupted["target_starts"] = starts
    return Examples(corrupted, [{} for _ in keys])


def _completed(lengths: Mapping[str, int], layout: str) -> dict[str, int]:
  """Adds the lengths that a converter of one feature leaves out.

  What an encoder should predict is as long as what it reads; a language model
  reads nothing before its targets, EOS apart.
  """
  inputs = lengths.get("inputs", 1)
  targets = inputs if layout == "encoder" else 1
  return {"inputs": inputs, "targets": targets, **lengths}
