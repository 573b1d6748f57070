"""Examples by index: the interface of every source."""

import dataclasses
from typing import Any, Protocol

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


class Source(Protocol):
  """Random access to the examples of one split of one task.

  Attributes:
    num_examples: The number of examples in an epoch.
    layout: The kind of its examples, the `layout` of the converters that lay
      them out.
    shares_rows: whether several examples may fit into a row.
    cached_bytes: The memory that its examples may take, in bytes.
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
      seed: The seed of the draws.
      keys: int64 [n], with `seed` the key of what each example draws.
    """


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
