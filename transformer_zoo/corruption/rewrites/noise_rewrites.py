"""Rewrites of a batch under a noise mask (t5 `preprocessors.py`).

`tokens` is an int32 array [B, length], `mask` a boolean one of the same shape
(True is noise). `vocabulary` has `sentinel_ids`, the ids that stand for removed
spans in order of use (T5: the last ids of its vocabulary, descending). What is
called a sentinel without being unique is `mask_id`: the first sentinel in T5's
vocabulary, as in its code, and [MASK] in BERT's. Where nothing is drawn,
`draws` is not used.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from transformer_zoo.corruption import special_tokens
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

Rewrite = Callable[[np.ndarray, np.ndarray, Draws, Any], Ragged]


def _first_of_span(mask: np.ndarray) -> np.ndarray:
  """Returns the mask of the tokens that open a run of True in each row."""
  first = mask.copy()
  first[:, 1:] &= ~mask[:, :-1]
  return first


def noise_span_to_unique_sentinel(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Replaces each noise span by a sentinel of its own, the k-th by the k-th.

  Raises:
    UserError: there are more spans than sentinels. t5 goes on downwards into
      the ids of real pieces without a word.
  """
  del draws
  first = _first_of_span(mask)
  num_spans = np.count_nonzero(first, axis=1)
  sentinels = vocabulary.sentinel_ids
  if num_spans.max(initial=0) > len(sentinels):
    raise UserError(
      f"An example of {tokens.shape[1]} tokens has {num_spans.max()} noise "
      f"spans, but the vocabulary has {len(sentinels)} sentinel ids; shorten "
      "the inputs, lower noise_density, or use a vocabulary with more "
      "extra_ids."
    )
  rewritten = tokens.copy()
  ends = np.cumsum(num_spans)
  ranks = np.arange(ends[-1] if len(ends) else 0)
  ranks -= np.repeat(ends - num_spans, num_spans)
  rewritten[first] = np.asarray(sentinels, np.int32)[ranks]
  return Ragged.selected(rewritten, first | ~mask)


def nonnoise_span_to_unique_sentinel(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Replaces each non-noise span by a sentinel of its own.

  Raises:
    UserError: there are more spans than sentinels.
  """
  return noise_span_to_unique_sentinel(tokens, ~mask, draws, vocabulary)


def noise_span_to_sentinel(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Replaces each noise span by the mask, the same for all."""
  del draws
  rewritten = _masked(tokens, mask, vocabulary)
  return Ragged.selected(rewritten, _first_of_span(mask) | ~mask)


def nonnoise_span_to_sentinel(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Replaces each non-noise span by the mask, the same for all."""
  return noise_span_to_sentinel(tokens, ~mask, draws, vocabulary)


def noise_token_to_sentinel(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Replaces each noise token by the mask; the length stays."""
  del draws
  return Ragged.full(_masked(tokens, mask, vocabulary))


def noise_token_to_random_token(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Replaces each noise token by a random id; the length stays.

  Padding, EOS and unknown are never drawn; sentinels are, as in t5.
  """
  return Ragged.full(np.where(mask, _random(tokens, draws, vocabulary), tokens))


def noise_token_to_random_token_or_sentinel(
  tokens: np.ndarray,
  mask: np.ndarray,
  draws: Draws,
  vocabulary: Any,
  random_share: float = 0.1,
) -> Ragged:
  """Replaces each noise token by the mask or by a random id.

  T5's "BERT-style": 90 % masked, 10 % random, none kept.

  Args:
    tokens, mask, draws, vocabulary: The arguments of every rewrite of this
      module.
    random_share: chance of a noise token to become a random id.
  """
  use_random = draws.uniform(tokens.shape[1]) < np.float32(random_share)
  random = _random(tokens, draws, vocabulary)
  noise = np.where(use_random, random, _mask_id(vocabulary))
  return Ragged.full(np.where(mask, noise, tokens))


def noise_token_to_mask_random_or_same_token(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Replaces noise tokens as BERT and MASS: 80 % mask, 10 % random, 10 % kept.

  Random ids are ids of text: no sentinel is drawn.
  """
  # Only this rewrite needs it: T5's own objectives import less.
  from transformer_zoo.corruption.rewrites.replacement import Replacement

  return Ragged.full(Replacement()(tokens, mask, draws, vocabulary))


def noise_token_to_gathered_token(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Replaces each noise token by a random token of the same row."""
  del vocabulary
  length = tokens.shape[1]
  gathered = np.take_along_axis(tokens, draws.integers(length, length), axis=1)
  return Ragged.full(np.where(mask, gathered, tokens))


def permute_noise_tokens(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Shuffles the noise tokens among their places; the others stay."""
  del vocabulary
  counts = np.count_nonzero(mask, axis=1)
  order = draws.permutations(counts)
  starts = (np.cumsum(counts) - counts)[:, None]
  within = np.arange(order.shape[1]) < counts[:, None]
  permuted = tokens.copy()
  permuted[mask] = tokens[mask][(starts + order)[within]]
  return Ragged.full(permuted)


def drop_noise_tokens(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Leaves out the noise tokens and puts nothing in their place."""
  del draws, vocabulary
  return Ragged.selected(tokens, ~mask)


def drop_nonnoise_tokens(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Keeps the noise tokens only and puts nothing between them."""
  del draws, vocabulary
  return Ragged.selected(tokens, mask)


def keep(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Returns the text as it is."""
  del mask, draws, vocabulary
  return Ragged.full(tokens)


def nothing(
  tokens: np.ndarray, mask: np.ndarray, draws: Draws, vocabulary: Any
) -> Ragged:
  """Returns empty rows."""
  return drop_nonnoise_tokens(tokens, np.zeros_like(mask), draws, vocabulary)


REWRITES: dict[str, Rewrite] = {
  rewrite.__name__: rewrite
  for rewrite in (
    noise_span_to_unique_sentinel,
    nonnoise_span_to_unique_sentinel,
    noise_span_to_sentinel,
    nonnoise_span_to_sentinel,
    noise_token_to_sentinel,
    noise_token_to_random_token,
    noise_token_to_random_token_or_sentinel,
    noise_token_to_mask_random_or_same_token,
    noise_token_to_gathered_token,
    permute_noise_tokens,
    drop_noise_tokens,
    drop_nonnoise_tokens,
    keep,
    nothing,
  )
}


def find(name: str) -> Rewrite:
  """Returns the rewrite of that name.

  Raises:
    UserError: there is none.
  """
  if name not in REWRITES:
    raise UserError(
      f"No rewrite is named {name!r}" + nearest(str(name), REWRITES)
    )
  return REWRITES[name]


def needs_mask(name: str) -> bool:
  """Returns whether the rewrite of that name writes the vocabulary's mask."""
  return "mask" in name or ("sentinel" in name and "unique" not in name)


def within_sentinels(mask: np.ndarray, available: int) -> np.ndarray:
  """Takes noise away behind the last span that has a sentinel of its own.

  Args:
    mask: bool [B, length].
    available: sentinels, for the spans of noise and those between.

  Returns:
    the mask itself where there are enough for both.
  """
  spans = np.cumsum(_first_of_span(mask), axis=1, dtype=np.int32)
  # There may be one span more between than of noise.
  crowded = spans[:, -1:] >= available if spans.size else spans
  if not crowded.any():
    return mask
  others = np.count_nonzero(_first_of_span(~mask), axis=1)[:, None]
  crowded &= np.maximum(spans[:, -1:], others) > available
  return mask & ~(crowded & (spans >= available))


def _mask_id(vocabulary: Any) -> np.int32:
  return special_tokens.mask_id(vocabulary, "This objective")


def _masked(tokens: np.ndarray, mask: np.ndarray, vocabulary: Any):
  return np.where(mask, _mask_id(vocabulary), tokens)


def _random(tokens: np.ndarray, draws: Draws, vocabulary: Any) -> np.ndarray:
  ids = special_tokens.ordinary_ids(vocabulary, sentinels=True)
  return ids[draws.integers(len(ids), tokens.shape[1])]
