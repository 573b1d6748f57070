"""Several residual streams: hyper-connections (Zhu et al. 2024).

The connection of the layers and the stack that goes with it: one hands streams
from sublayer to sublayer, the other makes them of what enters the first layer
and of them what leaves the last.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

from flax import linen as nn
from flax import struct
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import connections
from transformer_zoo.modules import parts
from transformer_zoo.modules import scalars
from transformer_zoo.modules.stack import Stack
from transformer_zoo.modules.stacks.funnel import PoolingLayer
from transformer_zoo.modules.stacks.other_layers import refuse_between_layers
from transformer_zoo.modules.stacks.other_layers import with_layers
from transformer_zoo.modules.two_streams import TwoStreamLayer


@struct.dataclass
class HyperStreams:
  """The state that goes from layer to layer.

  Attributes:
    array_BLXD: X streams.
    depth_111: The number of sublayers before, from which the first parameters
      are made, int32; None where there are parameters.
  """

  array_BLXD: jax.Array
  depth_111: jax.Array | None


class StreamMixes(nn.Module):
  """What a sublayer reads of the streams, and what becomes of them.

  The weights that are parameters are named as biases of those that are
  computed: optimizers do not let them decay, as the paper has it.

  Attributes:
    num_streams: X.
    dynamic: Whether a part of the weights is computed from the streams.
  """

  num_streams: int
  dynamic: bool

  @nn.compact
  def __call__(
    self,
    streams: HyperStreams,
    norm: Callable[[str], connections.Function],
  ) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns what is read, the streams mixed, and the weights of the output.

    Args:
      streams: The streams.
      norm: Makes the normalization of the streams that weights are computed
        of, by its name.

    Returns:
      [B, L, D]; [B, L, X, D]; float32 [1 or B, 1 or L, X, 1].
    """
    array_BLXD, number = streams.array_BLXD, self.num_streams

    def alpha_init(key, shape, dtype):
      del key, shape
      read = 0
      if streams.depth_111 is not None:
        read = streams.depth_111[0, 0, 0] % number
      first_X = jax.nn.one_hot(read, number, dtype=dtype)
      return jnp.concatenate([first_X[:, None], jnp.eye(number)], axis=1)

    # Of each stream in what is read, and in each of the streams.
    alpha = self._weights("alpha", alpha_init, number + 1)
    beta = self._weights("beta", nn.initializers.ones, 1)
    if self.dynamic:
      normalized_BLXD = norm("layer_norm")(array_BLXD)
      alpha = alpha + self._computed("alpha", normalized_BLXD, number + 1)
      beta = beta + self._computed("beta", normalized_BLXD, 1)
    mixed = sum(
      alpha[..., i, :, None] * array_BLXD[..., i, None, :].astype(jnp.float32)
      for i in range(number)
    ).astype(array_BLXD.dtype)
    return mixed[..., 0, :], mixed[..., 1:, :], beta

  def _weights(self, name: str, init, number: int) -> jax.Array:
    """Weights of each stream, [1, 1, X, number]."""
    return self.param(
      f"{name}_bias",
      axes.partitioned(init, None, None),
      (self.num_streams, number),
      jnp.float32,
    )[None, None]

  def _computed(self, name: str, x_BLXD: jax.Array, number: int) -> jax.Array:
    """What is added to the weights of each stream, [B, L, X, number]."""
    kernel = self.param(
      f"{name}_kernel",
      axes.partitioned(nn.initializers.zeros, "embed", None),
      (x_BLXD.shape[-1], number),
      jnp.float32,
    )
    products = jnp.einsum(
      "blxd,dn->blxn",
      x_BLXD,
      kernel.astype(x_BLXD.dtype),
      preferred_element_type=jnp.float32,
    )
    return scalars.Scale(0.01, name=f"{name}_factor")(jnp.tanh(products))


@gin.register
@dataclasses.dataclass(frozen=True)
class HyperConnections:
  """Adds dropout(sublayer(norm(mix))) to each of several streams, mixed.

  Zhu et al. 2024, section 2: of streams h_i a sublayer f reads
  m = sum_i a_i h_i, and stream j becomes sum_i A_ij h_i + b_j f(norm(m)). At
  first sublayer k, counted through the layers, reads stream k mod X, A is the
  identity and b is 1, so that all streams are that of pre-norm. Weights that
  are computed add s tanh(w . norm(h_i)) to a_i, A_ij and b_i, at first with
  w = 0 and s = 0.01, one s for a and A. The norm of the streams is LayerNorm in
  the paper, RMSNorm in the package `hyper-connections`, which draws the stream
  that is read at first unless it is given a number, and that of the layer here.

  Attributes:
    num_streams: The number X of residual streams, the paper's expansion rate.
    dynamic: Whether a part of the weights is computed from the streams (DHC),
      or all of them are parameters (SHC).
  """

  num_streams: int = 4
  dynamic: bool = True

  def __post_init__(self):
    if self.num_streams < 1:
      raise UserError(
        f"HyperConnections.num_streams is {self.num_streams}; it must be at "
        "least 1"
      )

  def __call__(
    self,
    x: HyperStreams,
    sublayers: connections.Sublayers,
    *,
    norm: Callable[[str], connections.Function],
    dropout: connections.Function,
  ) -> HyperStreams:
    """Returns the streams after all sublayers.

    Raises:
      UserError: There is one stream, as of a stack that does not make several.
    """
    if not isinstance(x, HyperStreams):
      raise UserError(
        "HyperConnections joins sublayers to several streams, which "
        "hyper_stack makes; bind Transformer.layer_stack = @hyper_stack() "
        "(encoder/Transformer.layer_stack where a file binds that one), and "
        "hyper_stack.stack to the stack that was there"
      )
    mixes = StreamMixes(self.num_streams, self.dynamic, parent=None)
    for name, sublayer in sublayers.items():
      read_BLD, array_BLXD, beta_BLX1 = mixes.copy(name=f"{name}_streams")(
        x, norm
      )
      y_BLD = dropout(sublayer(norm(f"pre_{name}_layer_norm")(read_BLD)))
      added_BLXD = beta_BLX1 * y_BLD[..., None, :].astype(jnp.float32)
      x = HyperStreams(
        array_BLXD + added_BLXD.astype(array_BLXD.dtype),
        None if x.depth_111 is None else x.depth_111 + 1,
      )
    return x


class Hyper:
  """A stack between whose layers several streams go.

  All are at first what enters, and what leaves is their sum.
  """

  def __call__(
    self,
    x_BLD: jax.Array,
    *arguments: Any,
    collect: Callable[[Any], Any] | None = None,
    **keywords: Any,
  ) -> tuple[jax.Array, Any]:
    """Applies the layers in order; arguments as of `Stack`.

    Returns:
      [B, L, D]; and what is collected, of the sums of the streams.
    """
    refuse_between_layers("hyper_stack", keywords)

    def collect_sum(x):
      return collect(_sum(x))

    depth_111 = None
    if self.is_initializing():
      depth_111 = jnp.zeros((1, 1, 1), jnp.int32)
    number = self.layer.connect.num_streams
    shape = (*x_BLD.shape[:2], number, x_BLD.shape[2])
    array_BLXD = jnp.broadcast_to(x_BLD[:, :, None], shape)
    x, collected = super().__call__(
      HyperStreams(array_BLXD, depth_111),
      *arguments,
      collect=None if collect is None else collect_sum,
      **keywords,
    )
    return _sum(x), collected


def _sum(x: HyperStreams) -> jax.Array:
  """Returns [B, L, D], the sum of the streams."""
  return jnp.sum(x.array_BLXD, axis=2)


@gin.register
def hyper_stack(stack: Stack) -> nn.Module:
  """A stack between whose layers several streams go.

  Args:
    stack: The stack of layers, whose `connect` is `HyperConnections`.

  Raises:
    UserError: The layers have another connection, or none.
  """

  def checked(layer):
    reads_stream = isinstance(layer, PoolingLayer | TwoStreamLayer)
    connect = getattr(layer, "connect", None)
    if reads_stream or not isinstance(connect, HyperConnections):
      raise UserError(
        f"hyper_stack: a layer, {type(layer).__name__}, "
        + (
          "reads the residual stream itself"
          if reads_stream
          else "is not connected by HyperConnections"
        )
        + "; use parts/connections/hyper_connections.gin with layers that have "
        "a connection, or bind Transformer.layer_stack = @Stack()"
      )
    return layer

  return parts.extended(with_layers(stack, checked), Hyper)
