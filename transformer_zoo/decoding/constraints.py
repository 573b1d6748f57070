"""Which tokens may come next, whatever the model says."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from transformer_zoo.decoding.options import DecodingOptions

# (logits [B, W, V], tokens so far [B, W, T], position) -> logits, forbidden
# tokens at minus infinity. `tokens[:, :, :position + 1]` are known; the first
# is what the model was fed first.
Constrain = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def of_options(options: DecodingOptions, eos_id: int) -> Constrain:
  """All constraints of the options, one after the other.

  A forced token comes even where another constraint forbids it.
  """

  def constrain(logits_BWV, tokens_BWT, position):
    if options.no_repeat_ngram_size is not None:
      logits_BWV = no_repeated_ngram(
        logits_BWV, tokens_BWT, position, options.no_repeat_ngram_size
      )
    if options.min_length > 1:
      early = position + 1 < options.min_length
      logits_BWV = logits_BWV.at[:, :, eos_id].add(
        jnp.where(early, -jnp.inf, 0.0)
      )
    if options.forced_prefix:
      logits_BWV = jnp.where(
        is_forced(options, position),
        only(logits_BWV, _forced_token(options, position)),
        logits_BWV,
      )
    return logits_BWV

  return constrain


def is_forced(options: DecodingOptions, position: jax.Array) -> jax.Array:
  """Whether the token made at a position is one of the forced prefix."""
  return position < len(options.forced_prefix)


def only(logits_BWV: jax.Array, token: jax.Array) -> jax.Array:
  """Forbids every other token; that one gets 0."""
  ids_11V = jnp.arange(logits_BWV.shape[-1])[None, None]
  row_11V = jnp.where(ids_11V == token, 0.0, -jnp.inf)
  return jnp.broadcast_to(row_11V.astype(logits_BWV.dtype), logits_BWV.shape)


def no_repeated_ngram(
  logits_BWV: jax.Array, tokens_BWT: jax.Array, position: jax.Array, size: int
) -> jax.Array:
  """Forbids each token that would end an n-gram that is already there.

  What the model was fed first counts, as in `transformers`
  (NoRepeatNGramLogitsProcessor).
  """
  length = tokens_BWT.shape[-1]
  if length < size:
    return logits_BWV
  starts = jnp.arange(length - size + 1)
  # Place s begins an n-gram that is there if it ends at the position or before.
  same_BWS = jnp.broadcast_to(
    starts + size - 1 <= position, (*tokens_BWT.shape[:2], len(starts))
  )
  for offset in range(size - 1):
    last_BW1 = jnp.take(
      tokens_BWT, (position - size + 2 + offset)[None], axis=2, mode="clip"
    )
    some_BWS = tokens_BWT[:, :, offset : offset + len(starts)]
    same_BWS &= some_BWS == last_BW1
  ends_BWS = tokens_BWT[:, :, size - 1 :]
  rows_B11 = jnp.arange(tokens_BWT.shape[0])[:, None, None]
  beams_1W1 = jnp.arange(tokens_BWT.shape[1])[None, :, None]
  return logits_BWV.at[rows_B11, beams_1W1, ends_BWS].add(
    jnp.where(same_BWS, -jnp.inf, 0.0)
  )


def _forced_token(options: DecodingOptions, position: jax.Array) -> jax.Array:
  prefix = jnp.asarray(options.forced_prefix, jnp.int32)
  return jnp.take(prefix, position, mode="clip")
