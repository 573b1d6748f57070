"""Noise on a fixed number of tokens: BERT's, and budgets of noise."""

import dataclasses

import numpy as np

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.noise_masks import check_density
from transformer_zoo.corruption.masks.noise_masks import Rows
from transformer_zoo.errors import UserError


def check_most(mask: object, most: int | None) -> None:
  """Raises UserError unless `most` is None or a number of tokens."""
  if most is not None and (not isinstance(most, int) or most < 1):
    raise UserError(
      f"{type(mask).__name__}.most is {most!r}; it must be a whole number of "
      "tokens, 1 or more, or None."
    )


def budgets(
  noise: np.ndarray, allowed: np.ndarray, most: int | None
) -> np.ndarray:
  """Returns the noise tokens of each row, int64 [B].

  Args:
    noise: The intended number of noise tokens, [B]; at least 1 is used.
    allowed: True where a token may be noise, [B, L]; there cannot be more.
    most: The largest number of noise tokens; None for no limit.
  """
  noise = np.maximum(noise, 1).astype(np.int64)
  if most is not None:
    noise = np.minimum(noise, most)
  return np.minimum(noise, np.count_nonzero(allowed, axis=1))


@dataclasses.dataclass(frozen=True)
class FixedNumber:
  """A fixed number of tokens, all choices equally likely (BERT).

  Attributes:
    noise_density: share of the tokens of a row, special ones counted, that are
      noise: `round(size * density)`, halves to even, and at least 1.
    most: The largest number of noise tokens of a row (BERT's
      `max_predictions_per_seq`); None for no limit.
    random_rounding: the number is rounded up with the chance of its fraction
      (RoBERTa, fairseq `mask_tokens_dataset.py` 3d262bb2).
  """

  noise_density: float = 0.15
  most: int | None = None
  random_rounding: bool = False

  def __post_init__(self):
    check_density(self, self.noise_density)
    check_most(self, self.most)

  def __call__(
    self, draws: Draws, length: int, rows: Rows | None = None
  ) -> np.ndarray:
    shape = draws.batch_size, length
    allowed = np.ones(shape, bool) if rows is None else rows.allowed
    sizes = np.full(shape[0], length) if rows is None else rows.sizes
    noise = sizes * self.noise_density
    if self.random_rounding:
      noise = np.floor(noise + draws.uniform(1)[:, 0])
    number = budgets(np.rint(noise), allowed, self.most)
    choices = np.count_nonzero(allowed, axis=1)
    chosen = draws.subsets(choices, number)
    mask = np.zeros(shape, bool)
    mask[allowed] = chosen[np.arange(chosen.shape[1]) < choices[:, None]]
    return mask
