"""T5's relative position bias (Raffel et al. 2020, section 2.1)."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import axes
from transformer_zoo.modules import initializers


def relative_position_bucket(
  relative_position: jax.Array,
  *,
  bidirectional: bool,
  num_buckets: int,
  max_distance: int,
) -> jax.Array:
  """Maps key position minus query position to a bucket in [0, num_buckets).

  Half of the buckets hold exact distances, the others distances that grow
  logarithmically up to `max_distance`, beyond which all share the last one.
  Bidirectional attention splits the buckets between both signs; otherwise
  keys after the query share bucket 0. (Mesh TensorFlow,
  `_relative_position_bucket`.)
  """
  distance = -relative_position
  offset = jnp.zeros_like(distance)
  if bidirectional:
    num_buckets //= 2
    offset = jnp.where(distance < 0, num_buckets, 0)
    distance = jnp.abs(distance)
  else:
    distance = jnp.maximum(distance, 0)
  exact = num_buckets // 2
  # float32 logarithm with numpy's smallest step added, as in T5X: the bucket
  # borders must not move by a rounding.
  logarithmic = exact + (
    jnp.log(distance.astype(jnp.float32) / exact + np.finfo(np.float32).eps)
    / np.log(max_distance / exact)
    * (num_buckets - exact)
  ).astype(jnp.int32)
  logarithmic = jnp.minimum(logarithmic, num_buckets - 1)
  return offset + jnp.where(distance < exact, distance, logarithmic)


@gin.register
class RelativePositionBias(nn.Module):
  """A learned number per head and bucketed distance, added to the scores.

  One table serves all layers of a stack.

  Attributes:
    num_heads: heads of the attention that it is added to.
    bidirectional: whether keys after the query have buckets of their own.
    num_buckets: rows of the table.
    max_distance: distance from which all share a bucket.
  """

  num_heads: int
  bidirectional: bool
  num_buckets: int = 32
  max_distance: int = 128

  @nn.compact
  def __call__(
    self, query_positions_L: jax.Array, key_positions_M: jax.Array
  ) -> jax.Array:
    """Returns bias [1, H, L, M], float32."""
    table_HR = self.param(
      "rel_embedding",
      axes.partitioned(
        initializers.fan_average_uniform, "heads", "relpos_buckets"
      ),
      (self.num_heads, self.num_buckets),
      jnp.float32,
    )
    buckets_LM = relative_position_bucket(
      key_positions_M[None, :] - query_positions_L[:, None],
      bidirectional=self.bidirectional,
      num_buckets=self.num_buckets,
      max_distance=self.max_distance,
    )
    return jnp.take(table_HR, buckets_LM, axis=1)[None]
