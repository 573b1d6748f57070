"""Adapters: small feed-forward networks in a model that stays as it is.

T5's form (Raffel et al. 2020, section 3.5.1, after Bapna and Firat 2019;
`task_adapter.gin` of the T5 repository): one more sublayer ends each layer of
encoder and decoder, with a normalization and a skip of its own. What ends the
network is initially 0, so that fine-tuning begins with the model as it was.
"""

import functools

from flax import linen as nn
import gin
import jax

from transformer_zoo.modules import connections
from transformer_zoo.modules.layers import DecoderLayer
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.peft import substitution
from transformer_zoo.peft.substitution import Substitute


class _AdaptedLayer(Substitute, nn.Module, kw_only=True):
  """A layer and, after it, x + dropout(adapter(norm(x))).

  Attributes:
    adapter: a feed-forward network.
  """

  adapter: nn.Module

  @nn.compact
  def __call__(self, x_BLD: jax.Array, *arguments, **keywords) -> jax.Array:
    """Returns [B, L, D]; the arguments are the layer's."""
    x_BLD = super().__call__(x_BLD, *arguments, **keywords)
    how = {"deterministic": keywords["deterministic"]}
    # Whatever the layer's own connection is: this one leaves x as it was where
    # the adapter gives 0.
    return connections.pre_norm(
      x_BLD,
      {"adapter": functools.partial(self.adapter, **how)},
      norm=lambda name: self.norm.copy(name=name),
      dropout=functools.partial(self.dropout, **how),
    )


class AdaptedEncoderLayer(_AdaptedLayer, EncoderLayer, kw_only=True):
  """An encoder layer that an adapter ends."""


class AdaptedDecoderLayer(_AdaptedLayer, DecoderLayer, kw_only=True):
  """A decoder layer that an adapter ends."""


_KINDS = {EncoderLayer: AdaptedEncoderLayer, DecoderLayer: AdaptedDecoderLayer}


@gin.register
def adapters(adapter: nn.Module) -> substitution.Rule:
  """Ends each layer of encoder and decoder with an adapter.

  Args:
    adapter: a feed-forward network; each layer has parameters of its own.
  """

  def rule(part: nn.Module) -> nn.Module:
    kind = _KINDS.get(type(part))
    if kind is None:
      return part
    return substitution.replaced(part, kind, adapter=adapter.copy())

  return rule
