"""The interface of a search: its arguments and its results.

Letters of decoding: B rows, W outputs of a row that are in the making (beams
or samples, all at one position), V vocabulary, L the largest length, T = L + 1
with what the model is fed first, N outputs of a row that are returned.
"""

from typing import Any, Protocol

from flax import struct
import jax
import jax.numpy as jnp


class Step(Protocol):
  """The next-token function that is searched over."""

  def __call__(
    self,
    tokens_BW: jax.Array,
    parents_BW: jax.Array | None,
    position: jax.Array,
    state: Any,
  ) -> tuple[jax.Array, Any]:
    """Reads one token of each output.

    Args:
      tokens_BW: int32 ids.
      parents_BW: which output of the step before each one continues; None
        where every output continues itself.
      position: 0 at the first call, then 1, ...
      state: what the call before returned; the search does not look into it. At
        the first call it may be built otherwise than from then on.

    Returns:
      Float32 logits of the next tokens [B, W, V], and the state after it.
    """


@struct.dataclass
class Outputs:
  """The outputs of a search, best first.

  Attributes:
    tokens: int32 ids [B, N, L], EOS included where it came, then padding.
    log_likelihoods: [B, N], of the tokens by the model, in nats, without the
      tokens of a forced prefix. -inf where every token was forbidden.
    scores: [B, N], what the outputs are ordered by: log-likelihoods over length
      penalties, where repetition_penalty and renormalize have changed the
      probabilities; without beams the log-likelihoods.
  """

  tokens: jax.Array
  log_likelihoods: jax.Array
  scores: jax.Array


def take_outputs(x: jax.Array, chosen_BC: jax.Array) -> jax.Array:
  """Of an array [B, W, ...] the outputs `chosen_BC` of each row."""
  index = chosen_BC.reshape(*chosen_BC.shape, *([1] * (x.ndim - 2)))
  return jnp.take_along_axis(x, index, axis=1)


def write(tokens_BWT: jax.Array, token_BW: jax.Array, position: jax.Array):
  """The tokens with those made at a position."""
  return jax.lax.dynamic_update_slice_in_dim(
    tokens_BWT, token_BW[:, :, None], position + 1, axis=2
  )


def read(tokens_BWT: jax.Array, position: jax.Array) -> jax.Array:
  """The tokens that the model is fed at a position, [B, W]."""
  return jax.lax.dynamic_index_in_dim(
    tokens_BWT, position, axis=2, keepdims=False
  )


def start(first_B: jax.Array, width: int, length: int, pad_id: int):
  """Tokens [B, W, T] of which only what is fed first is known."""
  shape = first_B.shape[0], width, length + 1
  tokens_BWT = jnp.full(shape, pad_id, jnp.int32)
  return tokens_BWT.at[:, :, 0].set(first_B[:, None])
