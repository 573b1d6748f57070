"""Adapters: small feed-forward networks in a model that stays as it is.

T5's form (Raffel et al. 2020, section 3.5.1, after Bapna and Firat 2019;
`task_adapter.gin` of the T5 repository): one more sublayer ends each layer of
encoder and decoder, with a normalization and a skip of its own. What ends a
network is initially 0, so that fine-tuning begins with the model as it was.
"""

import functools

from flax import linen as nn
import gin
import jax

from transformer_zoo.modules import connections
from transformer_zoo.modules.layers import DecoderLayer
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.peft.substitution import Rule
from transformer_zoo.peft.substitution import Substitute


class AdaptedLayer(Substitute):
  """A layer and, after it, x + dropout(adapter(norm(x))).

  Attributes:
    base: the layer, whose norm and dropout are also those of the sublayer.
    adapter: the feed-forward network.
  """

  adapter: nn.Module

  @nn.compact
  def __call__(
    self, x_BLD: jax.Array, *arguments, deterministic: bool, **keywords
  ) -> jax.Array:
    """Returns [B, L, D]; arguments are the layer's."""
    x_BLD = self.base(
      x_BLD, *arguments, deterministic=deterministic, **keywords
    )
    # Whatever the layer's own connection is: after this one x is unchanged
    # where the adapter gives 0.
    return connections.pre_norm(
      x_BLD,
      {"adapter": functools.partial(self.adapter, deterministic=deterministic)},
      norm=lambda name: self.base.norm.copy(name=name),
      dropout=functools.partial(self.base.dropout, deterministic=deterministic),
    )


@gin.register
def adapters(adapter: nn.Module) -> Rule:
  """Gives each layer of encoder and decoder an adapter of its own.

  Args:
    adapter: a feed-forward network; each layer has parameters of its own.
  """

  def rule(part: nn.Module) -> nn.Module:
    if isinstance(part, EncoderLayer | DecoderLayer):
      return AdaptedLayer(base=part, adapter=adapter.copy())
    return part

  return rule
