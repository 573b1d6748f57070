"""Summaries of many tokens: parts of `Attention.summaries`."""

from flax import linen as nn
from flax import struct
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.normalization import RMSNorm
from transformer_zoo.modules.parts import part


@struct.dataclass
class Summed:
  """Summaries before they are projected to keys and values.

  Attributes:
    sums_BSD: The summaries.
    ids_BS: As of `banded.Summaries`.
    places_BL: As of `banded.Summaries`.
  """

  sums_BSD: jax.Array
  ids_BS: jax.Array
  places_BL: jax.Array


@gin.register
class BlockSums(nn.Module):
  """The normalized sum of each block of tokens of a text.

  Transient global attention (Guo et al. 2022, section 3.2.2): they are made
  anew in every layer, of what enters the attention. Blocks are counted from the
  first token of a text; those after the last whole block belong to it, and a
  text shorter than a block has no summary.

  Attributes:
    block: The number of tokens of a block.
    norm: The normalization of the sums.
  """

  block: int = 16
  norm: nn.Module = part(RMSNorm)

  def __post_init__(self):
    if self.block < 1:
      raise UserError(f"BlockSums.block is {self.block}; it must be positive")
    super().__post_init__()

  @nn.compact
  def __call__(self, x_BLD: jax.Array, ids_BL: jax.Array) -> Summed:
    """Returns the sums of L // block places, as many as a row can have.

    Args:
      x_BLD: What enters the attention.
      ids_BL: The id of the text of each token, int32 [1 or B, L], negative for
        padding, as of `masks.Mask`.
    """
    batch, length, _ = x_BLD.shape
    number = length // self.block
    ids_BL = jnp.broadcast_to(ids_BL, (batch, length))
    places_BL, is_end_BL = _places(ids_BL, self.block)

    def sums(x_LD, places_L):
      return jax.ops.segment_sum(
        x_LD.astype(jnp.float32),
        jnp.where(places_L < 0, number, places_L),
        num_segments=number,
      )

    def ids(ids_L, places_L, is_end_L):
      return (
        jnp.full(number, masks.NO_KEY)
        .at[jnp.where(is_end_L, places_L, number)]
        .set(ids_L, mode="drop")
      )

    sums_BSD = jax.vmap(sums)(x_BLD, places_BL).astype(x_BLD.dtype)
    return Summed(
      self.norm(sums_BSD),
      jax.vmap(ids)(ids_BL, places_BL, is_end_BL),
      places_BL,
    )


def _places(ids_BL: jax.Array, block: int) -> tuple[jax.Array, jax.Array]:
  """The number of the block of each token, and whether it is the last of it.

  Whole blocks of a row are counted on over its texts; -1 for padding and for
  tokens of a text without a whole block.
  """
  valid_BL = ids_BL > 0
  places_1L = jnp.arange(ids_BL.shape[1])[None]
  starts_BL = jnp.pad(
    ids_BL[:, 1:] != ids_BL[:, :-1], ((0, 0), (1, 0)), constant_values=True
  )
  start_BL = jax.lax.cummax(jnp.where(starts_BL, places_1L, 0), axis=1)
  is_end_BL = valid_BL & ((places_1L - start_BL) % block == block - 1)
  ended_BL = jnp.cumsum(is_end_BL, axis=1)
  before_BL = ended_BL - is_end_BL
  # Of the text of each token, the first whole block and the last one.
  first_BL = jnp.take_along_axis(before_BL, start_BL, axis=1)
  end_BL = masks.ends_of_runs(valid_BL, ids_BL)
  last_BL = jnp.take_along_axis(ended_BL, end_BL, axis=1) - 1
  is_part_BL = valid_BL & (last_BL >= first_BL)
  places_BL = jnp.where(is_part_BL, jnp.minimum(before_BL, last_BL), -1)
  return places_BL, is_end_BL
