"""What the sources of examples give, and how much of a text they use."""

from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Examples:
  """Examples as they were read, trimmed, EOS included.

  Attributes:
    features: name -> ids of each example.
    texts: the untokenised rest of each.
  """

  features: dict[str, Ragged]
  texts: list[dict[str, Any]]


def used_tokens(
  task: manifest.PreparedTask, split: str, max_tokens: int | None
) -> int:
  """Returns how many of the first tokens of unlabelled text are used.

  Raises:
    UserError: there are fewer than `max_tokens`.
  """
  num_tokens = task.split(split).num_tokens
  if max_tokens is None:
    return num_tokens
  if not 1 <= max_tokens <= num_tokens:
    raise UserError(
      f"max_tokens is {max_tokens}, but split {split!r} of task "
      f"{task.name!r} has {num_tokens} tokens; give at most these, or None "
      "for all."
    )
  return max_tokens


class ExampleCache:
  """Trimmed examples of a small task, which is read for many epochs.

  Tokens of all examples lie in one array per feature, so that it costs what
  `num_bytes` says and not an object per example.
  """

  def __init__(self, lengths: np.ndarray, features: tuple[str, ...]):
    """Makes an empty cache.

    Args:
      lengths: the most tokens of each example, int [examples, features].
      features: their names.
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
    """Returns those of `indices` that are not in it, each once."""
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
