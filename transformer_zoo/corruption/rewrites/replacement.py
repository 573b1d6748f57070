"""Replacement of masked tokens: mask, random token, or themselves."""

import dataclasses
import math
from typing import Any

import numpy as np

from transformer_zoo.corruption import special_tokens
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Replacement:
  """Shares of the masked tokens, which add up to 1.

      BERT: 0.8, 0.1, 0.1 (table 8 of its paper has five others)
      ELECTRA's generator: 0.85, 0, 0.15
      T5's "BERT-style": 0.9, 0.1, 0

  Attributes:
    masked: share that becomes the mask.
    random: share that becomes a random token, uniform over the ids that are
      not special; it may be the same one.
    kept: share that stays as it is, and is predicted all the same.
    per_span: one choice for each run of masked tokens (SpanBERT); the random
      tokens of a run are drawn one by one.
  """

  masked: float = 0.8
  random: float = 0.1
  kept: float = 0.1
  per_span: bool = False

  def __post_init__(self):
    shares = self.masked, self.random, self.kept
    if min(shares) < 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
      raise UserError(
        f"Replacement has shares {shares} of masked, random and kept tokens; "
        "they must not be negative and add up to 1."
      )

  def check(self, vocabulary: Any) -> None:
    """Raises UserError if it masks and the vocabulary has no mask."""
    if self.masked:
      special_tokens.mask_id(vocabulary, "Replacement")

  def __call__(
    self, tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
  ) -> np.ndarray:
    """Returns the tokens with those under the mask replaced, int32 [B, L]."""
    length = tokens.shape[1]
    choice = draws.uniform(length)
    if self.per_span:
      choice = np.take_along_axis(choice, _first_of_run(mask), axis=1)
    replaced = tokens
    if self.random:
      ids = special_tokens.ordinary_ids(vocabulary)
      random = ids[draws.integers(len(ids), length)]
      replaced = np.where(mask & (choice >= 1 - self.random), random, replaced)
    if self.masked:
      mask_id = special_tokens.mask_id(vocabulary, "Replacement")
      replaced = np.where(mask & (choice < self.masked), mask_id, replaced)
    return replaced.astype(np.int32, copy=False)


def _first_of_run(mask: np.ndarray) -> np.ndarray:
  """Returns the place where the run of True begins that a place is in."""
  places = np.arange(mask.shape[1])
  opens = mask.copy()
  opens[:, 1:] &= ~mask[:, :-1]
  return np.maximum.accumulate(np.where(opens, places, 0), axis=1)
