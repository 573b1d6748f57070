"""What the sources of examples give, and how much of a text they use."""

import dataclasses
from typing import Any

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
