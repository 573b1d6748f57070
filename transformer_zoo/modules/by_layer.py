"""Values that differ by layer: what each layer of a stack is given of its own.

A part of `Transformer.by_layer` maps the number of layers to keyword arguments
of the layer, arrays whose first axis is the layers.
"""

from collections.abc import Mapping

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError


@gin.register
class Windows(nn.Module):
  """The distance that each layer sees.

  Attributes:
    sizes: The distances back, and ahead where layers see what comes, in tokens,
      repeated in turn; None is everything. (None, 256) alternates dense and
      banded layers, as GPT-3 does.
  """

  sizes: tuple[int | None, ...] = (None,)

  def __post_init__(self):
    if not self.sizes or any(w is not None and w < 1 for w in self.sizes):
      raise UserError(
        f"Windows.sizes is {self.sizes}; each must be a positive number of "
        "tokens or None"
      )
    super().__post_init__()

  def __call__(self, num_layers: int) -> Mapping[str, jax.Array]:
    """Returns `window`, int32 [N]; nothing if all layers see everything."""
    if all(size is None for size in self.sizes):
      return {}
    largest = jnp.iinfo(jnp.int32).max
    pattern = [largest if size is None else size for size in self.sizes]
    return {"window": jnp.resize(jnp.array(pattern, jnp.int32), num_layers)}


@gin.register
class ScoreScales(nn.Module):
  """The factor of the scores of each layer's attention to itself.

  Attributes:
    divide_by_depth: Whether scores are divided by the number of the layer, from
      1 on (Stanford CRFM's GPT-2).
  """

  divide_by_depth: bool = False

  def __call__(self, num_layers: int) -> Mapping[str, jax.Array]:
    """Returns `score_scale`, float32 [N]; nothing if there is no factor."""
    if not self.divide_by_depth:
      return {}
    depth_N = jnp.arange(1, num_layers + 1, dtype=jnp.float32)
    return {"score_scale": 1 / depth_N}
