"""Rewrites of a token sequence under a noise mask (t5 `preprocessors.py`).

`tokens` is an integer array of shape [length], `mask` a boolean one of the
same shape (True is noise), `sentinel_ids` the ids that stand for removed
spans, in order of use: T5 takes the last ids of its vocabulary, descending.
The result has the dtype of `tokens`.
"""

import numpy as np

from transformer_zoo.errors import UserError


def _first_of_span(mask: np.ndarray) -> np.ndarray:
  """Returns the mask of the tokens that open a run of True in `mask`."""
  first = mask.copy()
  first[1:] &= ~mask[:-1]
  return first


def noise_span_to_unique_sentinel(
  tokens: np.ndarray, mask: np.ndarray, sentinel_ids: np.ndarray
) -> np.ndarray:
  """Replaces each noise span by a sentinel of its own, the k-th by the k-th.

  Raises:
    UserError: there are more spans than sentinels. t5 goes on downwards into
      the ids of real pieces without a word.
  """
  first = _first_of_span(mask)
  num_spans = np.count_nonzero(first)
  if num_spans > len(sentinel_ids):
    raise UserError(
      f"An example of {len(tokens)} tokens has {num_spans} noise spans, "
      f"but the vocabulary has {len(sentinel_ids)} sentinel ids; shorten "
      "the inputs, lower noise_density, or use a vocabulary with more "
      "extra_ids."
    )
  rewritten = tokens.copy()
  rewritten[first] = sentinel_ids[:num_spans]
  return rewritten[first | ~mask]


def nonnoise_span_to_unique_sentinel(
  tokens: np.ndarray, mask: np.ndarray, sentinel_ids: np.ndarray
) -> np.ndarray:
  """Replaces each non-noise span by a sentinel of its own.

  Raises:
    UserError: there are more spans than sentinels.
  """
  return noise_span_to_unique_sentinel(tokens, ~mask, sentinel_ids)


def noise_span_to_sentinel(
  tokens: np.ndarray, mask: np.ndarray, sentinel_ids: np.ndarray
) -> np.ndarray:
  """Replaces each noise span by the first sentinel, the same for all."""
  rewritten = np.where(mask, sentinel_ids[0], tokens).astype(tokens.dtype)
  return rewritten[_first_of_span(mask) | ~mask]


def nonnoise_span_to_sentinel(
  tokens: np.ndarray, mask: np.ndarray, sentinel_ids: np.ndarray
) -> np.ndarray:
  """Replaces each non-noise span by the first sentinel, the same for all."""
  return noise_span_to_sentinel(tokens, ~mask, sentinel_ids)


def noise_token_to_sentinel(
  tokens: np.ndarray, mask: np.ndarray, sentinel_ids: np.ndarray
) -> np.ndarray:
  """Replaces each noise token by the first sentinel; the length stays."""
  return np.where(mask, sentinel_ids[0], tokens).astype(tokens.dtype)


def drop_noise_tokens(tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
  """Leaves out the noise tokens and puts nothing in their place."""
  return tokens[~mask]


def drop_nonnoise_tokens(tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
  """Keeps the noise tokens only and puts nothing between them."""
  return tokens[mask]
