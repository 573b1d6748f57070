"""Adapters: small feed-forward networks in a model that stays as it is.

- T5's form (Raffel et al. 2020, section 3.5.1, after Bapna and Firat 2019;
  `task_adapter.gin` of the T5 repository): one more sublayer ends each layer of
  encoder and decoder, with a normalization and a skip of its own.
- Houlsby et al. 2019, section 2.1: x + adapter(x) of what each sublayer gives,
  attention and feed-forward alike, before it joins the residual stream.
- Pfeiffer et al. 2021, as the library `adapters` has it: one at the end of each
  layer. It reads the stream after the layer's last sublayer, normalized where
  the layer normalizes there, and is added before that normalization.
- Parallel (He et al. 2022, table 6): the adapter reads what the feed-forward
  network reads, and scaled it is added to what that gives.

What ends an adapter is initially 0, so that fine-tuning begins with the model
as it was.
"""

import functools

from flax import linen as nn
import gin
import jax

from transformer_zoo.modules import connections
from transformer_zoo.modules.layers import DecoderLayer
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.peft import substitution
from transformer_zoo.peft.method import Method
from transformer_zoo.peft.method import Rule
from transformer_zoo.peft.substitution import Substitute


class Adapted(Substitute, nn.Module, kw_only=True):
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


class SequentiallyAdapted(Substitute, nn.Module, kw_only=True):
  """A sublayer whose output y becomes y + adapter(y).

  Attributes:
    adapter: a feed-forward network.
  """

  adapter: nn.Module

  @nn.compact
  def __call__(self, *arguments, deterministic: bool, **keywords) -> jax.Array:
    """Returns [B, L, D]; the arguments are the sublayer's."""
    y_BLD = super().__call__(
      *arguments, deterministic=deterministic, **keywords
    )
    return y_BLD + self.adapter(y_BLD, deterministic=deterministic)


class EndAdapted(Substitute, nn.Module, kw_only=True):
  """A layer whose last sublayer's output y becomes y + adapter(z).

  z is what the layer gives without the adapter: x + y where it normalizes
  before its sublayers, norm(x + y) where it does behind them.

  Attributes:
    adapter: a feed-forward network.
  """

  adapter: nn.Module

  @nn.nowrap
  def joined(
    self,
    x_BLD: jax.Array,
    sublayers: connections.Sublayers,
    *,
    deterministic: bool,
  ) -> jax.Array:
    """Returns [B, L, D]; called inside of the layer's `__call__`."""
    made, how = {}, {"deterministic": deterministic}

    def once(name, sublayer):
      def run(h_BLD):
        if name not in made:
          made[name] = self.dropout(sublayer(h_BLD), **how)
        return made[name]

      return run

    # A second connection costs its norms and sums alone.
    connect = functools.partial(
      self.connect,
      norm=functools.cache(lambda name: self.norm.copy(name=name)),
      dropout=lambda y_BLD: y_BLD,
    )
    sublayers = {name: once(name, each) for name, each in sublayers.items()}
    z_BLD = connect(x_BLD, sublayers)
    last = next(reversed(sublayers))
    made[last] = made[last] + self.adapter(z_BLD, **how)
    return connect(x_BLD, sublayers)


class ParallelAdapted(Substitute, nn.Module, kw_only=True):
  """A sublayer whose output y becomes y + scale * adapter(x).

  Attributes:
    adapter: a feed-forward network.
    scale: a constant; He et al. 2022 use 4.
  """

  adapter: nn.Module
  scale: float = 4.0

  @nn.compact
  def __call__(
    self, x_BLD: jax.Array, *arguments, deterministic: bool, **keywords
  ) -> jax.Array:
    """Returns [B, L, D]; the arguments are the sublayer's."""
    y_BLD = super().__call__(
      x_BLD, *arguments, deterministic=deterministic, **keywords
    )
    adapted_BLD = self.adapter(x_BLD, deterministic=deterministic)
    return y_BLD + self.scale * adapted_BLD


_ADDS = r".*/adapter/.*"
ADAPTERS = Method(
  name="adapters",
  parts=(Adapted,),
  adds=r".*/(adapter|pre_adapter_layer_norm)/.*",
)
END_ADAPTERS = Method(name="end_adapters", parts=(EndAdapted,), adds=_ADDS)
SEQUENTIAL_ADAPTERS = Method(
  name="sequential_adapters", parts=(SequentiallyAdapted,), adds=_ADDS
)
PARALLEL_ADAPTERS = Method(
  name="parallel_adapters", parts=(ParallelAdapted,), adds=_ADDS
)


@gin.register
def adapters(adapter: nn.Module) -> Rule:
  """Ends each layer of encoder and decoder with an adapter.

  Args:
    adapter: a feed-forward network; each layer has parameters of its own.
  """

  @ADAPTERS.rule(of=EncoderLayer | DecoderLayer)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return substitution.extended(part, Adapted, adapter=adapter.copy())

  return rule


@gin.register
def end_adapters(adapter: nn.Module) -> Rule:
  """Adds an adapter of the stream to the last sublayer of each layer.

  Args:
    adapter: a feed-forward network; each layer has parameters of its own.
  """

  @END_ADAPTERS.rule(of=EncoderLayer | DecoderLayer)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return substitution.extended(part, EndAdapted, adapter=adapter.copy())

  return rule


@gin.register
def sequential_adapters(adapter: nn.Module, sublayers: str) -> Rule:
  """Puts an adapter behind sublayers, before they join the residual stream.

  Args:
    adapter: a feed-forward network; each sublayer has parameters of its own.
    sublayers: a regular expression that matches the whole names of the
      sublayers, like `encoder/layers/attention`.
  """

  @SEQUENTIAL_ADAPTERS.rule(sublayers)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return substitution.extended(
      part, SequentiallyAdapted, adapter=adapter.copy()
    )

  return rule


@gin.register
def parallel_adapters(
  adapter: nn.Module, sublayers: str, scale: float = 4.0
) -> Rule:
  """Puts an adapter beside sublayers.

  Args:
    adapter: a feed-forward network; each sublayer has parameters of its own.
    sublayers: as for `sequential_adapters`.
    scale: a constant factor of what the adapters give.
  """

  @PARALLEL_ADAPTERS.rule(sublayers)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return substitution.extended(
      part, ParallelAdapted, adapter=adapter.copy(), scale=scale
    )

  return rule
