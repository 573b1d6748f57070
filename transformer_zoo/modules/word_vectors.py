"""Encoders without layers: the vectors of tokens by themselves.

Word vectors (Mikolov et al. 2013) are an encoder whose output at a token is the
token's embedding, whatever stands around it.
"""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.mask_decoder import MaskDecoded
from transformer_zoo.modules.positions import Positions


@gin.register
class NoLayers(nn.Module):
  """Stands in the place of a `Transformer` and gives back what it reads."""

  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    mask_B1LM: jax.Array | masks.Mask,
    positions: Positions,
    token_positions_1L: jax.Array | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """Returns x."""
    del mask_B1LM, positions, token_positions_1L, deterministic
    return x_BLD

  def embedded(
    self, x_BLD: jax.Array, token_positions_1L: jax.Array
  ) -> jax.Array:
    """As `Transformer.embedded`: nothing is added."""
    del token_positions_1L
    return x_BLD


@gin.register
class ContextMean(NoLayers):
  """Gives back what it reads, and the mean of its context to masked tokens.

  CBOW: the head of tokens reads the mean over the tokens around a token, of the
  same text, and predicts that token (Mikolov et al. 2013, section 3.1).

  Attributes:
    window: The largest distance of a token of the context, in tokens.
  """

  window: int = 5

  def __post_init__(self):
    if self.window < 1:
      raise UserError(
        f"ContextMean.window is {self.window}; it must be at least 1 token"
      )
    super().__post_init__()

  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    mask_B1LM: jax.Array | masks.Mask,
    positions: Positions,
    token_positions_1L: jax.Array | None = None,
    deterministic: bool = True,
  ) -> MaskDecoded:
    """Returns x and the means of contexts, 0 where there is no other token."""
    del token_positions_1L, deterministic
    distance_1LM = jnp.abs(positions.distance_1LM)
    around_1LM = (distance_1LM > 0) & (distance_1LM <= self.window)
    around_BLM = (masks.whole(mask_B1LM)[:, 0] & around_1LM).astype(x_BLD.dtype)
    number_BL1 = jnp.maximum(jnp.sum(around_BLM, axis=-1, keepdims=True), 1)
    return MaskDecoded(x_BLD, (around_BLM @ x_BLD) / number_BL1)
