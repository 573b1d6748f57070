"""Search for output tokens, over any function that gives next-token logits."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# (tokens [B, 1], position, cache or None) -> (logits [B, V], cache). Without a
# cache it makes one.
NextLogits = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, Any]]


def greedy(
  next_logits: NextLogits,
  *,
  batch_size: int,
  max_length: int,
  start_id: int = 0,
  eos_id: int = 1,
  pad_id: int = 0,
) -> jax.Array:
  """Takes the likeliest token at each position.

  Stops when all rows have ended.

  Args:
    next_logits: the model.
    batch_size: B.
    max_length: L, the most tokens that are made, EOS counted.
    start_id: what the model is fed first; T5 starts with padding.
    eos_id: ends a row.
    pad_id: fills a row after its end.

  Returns:
    int32 ids [B, L], EOS included where it came.
  """

  def choose(logits_BV, ended_B):
    choice_B = jnp.argmax(logits_BV, axis=-1).astype(jnp.int32)
    return jnp.where(ended_B, pad_id, choice_B)

  def advance(carry):
    position, tokens_BL, token_B, ended_B, cache = carry
    logits_BV, cache = next_logits(token_B[:, None], position, cache)
    token_B = choose(logits_BV, ended_B)
    tokens_BL = jax.lax.dynamic_update_slice_in_dim(
      tokens_BL, token_B[:, None], position, axis=1
    )
    return (
      position + 1,
      tokens_BL,
      token_B,
      ended_B | (token_B == eos_id),
      cache,
    )

  def going(carry):
    position, _, _, ended_B, _ = carry
    return (position < max_length) & ~jnp.all(ended_B)

  carry = advance(
    (
      jnp.asarray(0, jnp.int32),
      jnp.full((batch_size, max_length), pad_id, jnp.int32),
      jnp.full((batch_size,), start_id, jnp.int32),
      jnp.zeros((batch_size,), bool),
      None,
    )
  )
  _, tokens_BL, *_ = jax.lax.while_loop(going, advance, carry)
  return tokens_BL
