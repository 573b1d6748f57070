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
    more_ahead: How many tokens more a layer sees ahead than back, where it sees
      both (T5Gemma 2's encoder).
  """

  sizes: tuple[int | None, ...] = (None,)
  more_ahead: int = 0

  def __post_init__(self):
    if not self.sizes or any(w is not None and w < 1 for w in self.sizes):
      raise UserError(
        f"Windows.sizes is {self.sizes}; each must be a positive number of "
        "tokens or None"
      )
    if self.more_ahead < 0:
      raise UserError(
        f"Windows.more_ahead is {self.more_ahead}; it is a number of tokens, "
        "0 or more"
      )
    super().__post_init__()

  def __call__(self, num_layers: int) -> Mapping[str, jax.Array]:
    """Returns `window`, int32 [N]; nothing if all layers see everything.

    It is [N, 2], back and ahead, where these differ.
    """
    if all(size is None for size in self.sizes):
      return {}
    largest = jnp.iinfo(jnp.int32).max

    def window(more):
      pattern = [largest if s is None else s + more for s in self.sizes]
      return jnp.resize(jnp.array(pattern, jnp.int32), num_layers)

    if not self.more_ahead:
      return {"window": window(0)}
    return {"window": jnp.stack([window(0), window(self.more_ahead)], axis=1)}


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
