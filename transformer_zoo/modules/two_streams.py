"""Two streams through one layer (XLNet: Yang et al. 2019, section 2.3).

The content stream has a vector of every token, which knows the token. The query
stream has one of every predicted place, which knows the place and not its
token. Both go through the same parameters; keys and values are of contents.
"""

from collections.abc import Callable, Mapping

from flax import linen as nn
from flax import struct
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules import layers
from transformer_zoo.modules.positions import Positions


@struct.dataclass
class Streams:
  """The state that goes from layer to layer.

  Attributes:
    content_BLD: The content stream.
    query_BPD: The query stream, of P predicted places of each row.
  """

  content_BLD: jax.Array
  query_BPD: jax.Array


@gin.register
class QueryVector(nn.Module):
  """The vector that the query stream begins with at every place.

  Attributes:
    features: D, d_model.
    embedding_init: The distribution of the vector.
  """

  features: int
  embedding_init: Callable = initializers.unit_normal

  @nn.compact
  def __call__(self) -> jax.Array:
    """Returns float32 [D]."""
    return self.param(
      "embedding",
      axes.partitioned(self.embedding_init, "embed"),
      (self.features,),
      jnp.float32,
    )


@gin.register
class TwoStreamLayer(layers.EncoderLayer):
  """An `EncoderLayer` of one stream or two, by the same parameters.

  Its attention takes a `RelativeTable`.
  """

  def __call__(
    self,
    x: jax.Array | Streams,
    *,
    mask_B1LM: jax.Array | None,
    bias_1HLM: jax.Array | None,
    positions: Positions,
    deterministic: bool,
    of_queries: Mapping[str, jax.Array] | None = None,
    earlier_BMD: jax.Array | None = None,
    **of_contents,
  ) -> jax.Array | Streams:
    """Returns the layer's output, in the form of x.

    Args:
      x: The contents [B, L, D], or both streams.
      mask_B1LM: True where a content may attend.
      bias_1HLM: added to the scores.
      positions: The positions of contents and keys.
      deterministic: no dropout.
      of_queries: The arguments of attention that are others for the query
        stream, like `mask_B1LM` [B, 1, P, M]; given if x has two streams.
      earlier_BMD: What entered the layer for the text before, which keys and
        values begin with.
      **of_contents: further arguments of the attention.
    """
    content_BLD = x.content_BLD if isinstance(x, Streams) else x
    memory_BMD = content_BLD
    if earlier_BMD is not None:
      memory_BMD = jnp.concatenate([earlier_BMD, content_BLD], axis=1)
    arguments = {
      **of_contents,
      "memory_BMD": memory_BMD,
      "mask_B1LM": mask_B1LM,
      "bias_1HLM": bias_1HLM,
      "positions": positions,
      "deterministic": deterministic,
    }
    apply = super().__call__
    y_BLD = apply(content_BLD, **arguments)
    if not isinstance(x, Streams):
      return y_BLD
    if "window" in of_contents:
      raise UserError(
        "Windows.sizes limits what a token sees by its place, which a query "
        "stream has not; bind Windows.sizes = (None,)"
      )
    relative = of_contents["relative"].replace(row_1LM=of_queries["row_1LM"])
    arguments |= {**of_queries, "relative": relative}
    del arguments["row_1LM"]
    return Streams(y_BLD, apply(x.query_BPD, **arguments))
