"""The enhanced mask decoder of DeBERTa (He et al. 2021, section 3.2)."""

from flax import linen as nn
from flax import struct
import gin
import jax

from transformer_zoo.errors import UserError


@struct.dataclass
class MaskDecoded:
  """The output of layers with a mask decoder.

  Attributes:
    hidden_BLD: The output of the layers.
    masked_BLD: The output of the decoder, which the head of masked tokens
      reads.
  """

  hidden_BLD: jax.Array
  masked_BLD: jax.Array

  def read_by(self, head: nn.Module) -> jax.Array:
    """Returns the one of both that a head reads."""
    # Not of the module itself, whose parameters that would set up.
    if getattr(type(head), "reads_masked", False):
      return self.masked_BLD
    return self.hidden_BLD


@gin.register
class EnhancedMaskDecoder(nn.Module):
  """Absolute positions that enter before the softmax of masked tokens.

  The last layer is applied again, to queries that are at first the output of
  the layer before it plus a vector of each position; keys and values are that
  output (`EnhancedMaskDecoder` of microsoft/DeBERTa 4d7fe0b).

  Attributes:
    positions: gives the vectors of absolute positions, [1 or B, L, D].
    repeats: The number of times that the last layer is applied.
  """

  positions: nn.Module
  repeats: int = 2

  def __post_init__(self):
    if self.repeats < 1:
      raise UserError(
        f"EnhancedMaskDecoder.repeats is {self.repeats}; it must be at least 1"
      )
    super().__post_init__()

  def __call__(
    self, hidden_BLD: jax.Array, token_positions_1L: jax.Array
  ) -> jax.Array:
    """Returns the first queries, [B, L, D]."""
    added_1LD = self.positions(token_positions_1L)
    return hidden_BLD + added_1LD.astype(hidden_BLD.dtype)
