"""Vectors of the tokens around each token, and what mixes them.

A neighbour is read where attention may see it, so neither padding nor another
text of a row counts, and what comes is hidden where a mask is causal. While
decoding, the last vectors of each output are kept in the `cache` collection.
"""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import cache
from transformer_zoo.modules.attention import masks


def moved(
  x_BLD: jax.Array, mask_B1LM: jax.Array | None, place: int
) -> jax.Array:
  """Returns the vector `place` tokens after each; 0 where there is none.

  Args:
    x_BLD: The vectors.
    mask_B1LM: True where a token sees another; None if all do.
    place: How many tokens after it, before it if negative.
  """
  length = x_BLD.shape[1]
  if abs(place) >= length:
    return jnp.zeros_like(x_BLD)
  before, after = max(-place, 0), max(place, 0)
  if mask_B1LM is not None:
    seen_BL = jnp.diagonal(mask_B1LM[:, 0], place, axis1=1, axis2=2)
    seen_BL = jnp.pad(seen_BL, ((0, 0), (before, after)))
  moved_BLD = jnp.pad(
    x_BLD[:, after : length - before], ((0, 0), (before, after), (0, 0))
  )
  if mask_B1LM is None:
    return moved_BLD
  return jnp.where(seen_BL[..., None], moved_BLD, 0)


def around(
  module: nn.Module,
  x_BLD: jax.Array,
  *,
  before: int,
  after: int = 0,
  mask_B1LM: jax.Array | masks.Mask | None,
  decoding: cache.Decoding | None,
) -> list[jax.Array]:
  """Returns the vectors of each token's neighbours, itself among them.

  Args:
    module: The module that keeps the last vectors while decoding.
    x_BLD: The vectors; while decoding, of the tokens of L outputs.
    before, after: The number of neighbours on each side.
    mask_B1LM: True where a token sees another; None if all do.
    decoding: Where decoding stands, if it does.

  Returns:
    before + 1 + after arrays [B, L, D], the first neighbour's first.

  Raises:
    UserError: what comes would have to be known while decoding.
  """
  if decoding is not None and after:
    raise UserError(
      f"{type(module).__name__}.after is {after}: it reads tokens that are not "
      "written yet; bind 0 in a decoder"
    )
  if decoding is not None and decoding.position is not None:
    return _next(module, x_BLD, before, decoding)
  mask_B1LM = masks.whole(mask_B1LM)
  if decoding is not None:
    _keep_prompt(module, x_BLD, before, decoding)
  return [
    x_BLD if place == 0 else moved(x_BLD, mask_B1LM, place)
    for place in range(-before, after + 1)
  ]


def _kept(module, x_BLD, before, decoding):
  """The variable of the last vectors of each output, [B, W, before, D]."""
  shape = (x_BLD.shape[0], decoding.width, before, x_BLD.shape[-1])
  return module.variable("cache", "recent", jnp.zeros, shape, x_BLD.dtype)


def _next(module, x_BWD, before, decoding):
  kept = _kept(module, x_BWD, before, decoding)
  recent_BWXD = jnp.concatenate(
    [cache.continued(kept.value, decoding), x_BWD[:, :, None]], axis=2
  )
  kept.value = recent_BWXD[:, :, 1:]
  return [recent_BWXD[:, :, place] for place in range(before + 1)]


def _keep_prompt(module, x_BPD, before, decoding):
  """Keeps the vectors before the prompt's last token, which is fed again."""
  kept = _kept(module, x_BPD, before, decoding)
  prompt = decoding.prompt_slots
  if not prompt:
    return
  real_BPD = jnp.where(decoding.prompt_BP[..., None], x_BPD[:, :prompt], 0)
  missing = max(before - prompt, 0)
  last_BXD = jnp.pad(
    real_BPD[:, prompt - min(before, prompt) :],
    ((0, 0), (missing, 0), (0, 0)),
  )
  kept.value = jnp.broadcast_to(last_BXD[:, None], kept.value.shape)


@gin.register
class DepthwiseConvolution(nn.Module):
  """A causal convolution of each feature alone (Primer: So et al. 2021).

  The sum over the last `width` tokens of x times a kernel of each feature, at
  first 1/2 of the token itself and 1 / (2 width) of each before it (theirs, in
  google-research `primer/t5_models.py`).

  Attributes:
    width: The number of tokens, the token itself among them.
  """

  width: int = 3

  def __post_init__(self):
    if self.width < 1:
      raise UserError(
        f"DepthwiseConvolution.width is {self.width}; it counts the token "
        "itself, so it must be at least 1"
      )
    super().__post_init__()

  @nn.compact
  def __call__(
    self,
    x_BLX: jax.Array,
    *,
    mask_B1LM: jax.Array | masks.Mask | None,
    decoding: cache.Decoding | None = None,
  ) -> jax.Array:
    """Returns [B, L, X], of queries, keys or values of all heads."""

    def init(key, shape, dtype):
      del key
      return jnp.full(shape, 0.5 / self.width, dtype).at[-1].set(0.5)

    kernel_RX = self.param(
      "kernel",
      axes.partitioned(init, None, "joined_kv"),
      (self.width, x_BLX.shape[-1]),
      jnp.float32,
    ).astype(x_BLX.dtype)
    neighbours = around(
      self,
      x_BLX,
      before=self.width - 1,
      mask_B1LM=mask_B1LM,
      decoding=decoding,
    )
    return sum(
      each_BLX * kernel_RX[place][None, None]
      for place, each_BLX in enumerate(neighbours)
    )
