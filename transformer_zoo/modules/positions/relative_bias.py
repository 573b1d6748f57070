"""Biases of the scores by distance: T5's buckets and ALiBi."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules.positions import Positions


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

  One table serves all layers of a stack (T5: Raffel et al. 2020, section 2.1)
  where the stack holds it, and one layer where its attention does (umT5).

  Attributes:
    num_heads: heads of the attention that it is added to.
    bidirectional: whether keys after the query have buckets of their own; None
      where they have if they are seen.
    num_buckets: rows of the table.
    max_distance: distance from which all share a bucket.
  """

  num_heads: int
  bidirectional: bool | None
  num_buckets: int = 32
  max_distance: int = 128

  def __post_init__(self):
    # Of the buckets for a side, half are single distances.
    parts = {False: (2,), True: (4,), None: (2, 4)}[self.bidirectional]
    for exact in (self.num_buckets // part for part in parts):
      if not 0 < exact < self.max_distance:
        raise UserError(
          f"RelativePositionBias has num_buckets={self.num_buckets} and "
          f"max_distance={self.max_distance}; {exact} buckets on a side hold "
          "single distances, which must be at least 1 and fewer than "
          "max_distance"
        )
    super().__post_init__()

  def setup(self):
    self.table_HR = self.param(
      "rel_embedding",
      axes.partitioned(
        initializers.fan_average_uniform, "heads", "relpos_buckets"
      ),
      (self.num_heads, self.num_buckets),
      jnp.float32,
    )

  def __call__(self, positions: Positions) -> jax.Array:
    """Returns bias [1 or B, H, L, M], float32."""
    return self._of(positions.distance_1LM, positions)

  def by_distance(self, positions: Positions) -> jax.Array:
    """Returns the bias of each distance of counted positions, [H, R]."""
    return self._of(positions.distances_R[None, None], positions)[0, :, 0]

  def _of(self, distance_1LM, positions):
    buckets_1LM = relative_position_bucket(
      distance_1LM,
      bidirectional=(
        positions.bidirectional
        if self.bidirectional is None
        else self.bidirectional
      ),
      num_buckets=self.num_buckets,
      max_distance=self.max_distance,
    )
    return jnp.moveaxis(jnp.take(self.table_HR, buckets_1LM, axis=1), 0, 1)


@gin.register
class RelativePositionBiasWithSummaries(nn.Module):
  """A bias of tokens, and one of the summaries that they see beside them.

  Of transient global attention (Guo et al. 2022, section 3.2.2), which counts
  the distance of summaries in summaries.

  Attributes:
    tokens: The bias of tokens, whose parameters lie directly under this one.
    summaries: The bias of summaries.
  """

  tokens: RelativePositionBias
  summaries: RelativePositionBias

  def setup(self):
    nn.share_scope(self, self.tokens)

  def __call__(self, positions: Positions) -> jax.Array:
    """Returns the bias of tokens, [1 or B, H, L, M], float32."""
    return self.tokens(positions)

  def by_distance(self, positions: Positions) -> jax.Array:
    """Returns the bias of each distance of tokens, [H, R]."""
    return self.tokens.by_distance(positions)

  def of_summaries(self, positions: Positions) -> jax.Array:
    """Returns the bias of each distance of summaries, [H, R]."""
    return self.summaries.by_distance(positions)


def alibi_slopes(num_heads: int) -> np.ndarray:
  """Returns the slope of each head, float32 [H] (Press et al. 2022).

  For n heads, a power of two, 2^(-8/n), 2^(-16/n), ... Other numbers take the
  slopes of the power below, and every second one of the power above.
  """
  power = 1 << (num_heads.bit_length() - 1)
  slopes = 2.0 ** (-8.0 / power * np.arange(1, power + 1))
  more = 2.0 ** (-4.0 / power * np.arange(1, 2 * power + 1, 2))
  return np.concatenate([slopes, more])[:num_heads].astype(np.float32)


@gin.register
class Alibi(nn.Module):
  """Attention with linear biases: a fixed penalty on distance.

  Press et al. 2022. Where keys after the query are seen, they count as those
  before it at the same distance.

  Attributes:
    num_heads: heads of the attention that it is added to.
  """

  num_heads: int

  def __call__(self, positions: Positions) -> jax.Array:
    """Returns bias [1 or B, H, L, M], float32."""
    return self._of(positions.distance_1LM)

  def by_distance(self, positions: Positions) -> jax.Array:
    """Returns the bias of each distance of counted positions, [H, R]."""
    return self._of(positions.distances_R[None, None])[0, :, 0]

  def _of(self, distance_1LM):
    distance_1LM = jnp.abs(distance_1LM).astype(jnp.float32)
    slopes_H = jnp.asarray(alibi_slopes(self.num_heads))
    return -slopes_H[None, :, None, None] * distance_1LM[:, None]
