"""Vectors by distance that all layers of a stack read."""

from collections.abc import Callable

from flax import linen as nn
from flax import struct
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules.positions import absolute
from transformer_zoo.modules.positions import Positions


@struct.dataclass
class RelativeTable:
  """A vector for each pair of positions, kept once for each distance.

  Attributes:
    table_RD: The vectors.
    row_1LM: The row of the vector of each query and key, int32 [1 or B, L, M].
    row_1R: The row of each distance, key minus query, from 1 - L to M - 1,
      int32 [1, L + M - 1]; None where positions are not counted from 0.
  """

  table_RD: jax.Array
  row_1LM: jax.Array
  row_1R: jax.Array | None = None

  def of_queries(self, places_BP: jax.Array) -> "RelativeTable":
    """Returns the table with the rows of the queries at some places."""
    row_BPM = jnp.take_along_axis(self.row_1LM, places_BP[..., None], axis=1)
    return self.replace(row_1LM=row_BPM, row_1R=None)


def logarithmic_buckets(num_buckets: int, max_distance: int) -> np.ndarray:
  """The bucket of each distance from 0 on, up to the first in the last bucket.

  Distances up to half of the buckets have one each; the others grow
  logarithmically, so that the last but one ends at `max_distance` - 1
  (microsoft/DeBERTa 4d7fe0b, `make_log_bucket_position`).
  """
  exact = num_buckets // 2
  distances = np.arange(max_distance + 2 * num_buckets)
  logarithmic = exact + np.ceil(
    np.log(np.maximum(distances, 1) / exact)
    / np.log((max_distance - 1) / exact)
    * (exact - 1)
  )
  buckets = np.where(distances <= exact, distances, logarithmic)
  last = int(np.argmax(buckets >= num_buckets))
  return np.minimum(buckets[: last + 1], num_buckets).astype(np.int32)


@gin.register
class RelativeEmbeddings(nn.Module):
  """Learned vectors by distance for disentangled attention (He et al. 2021).

  Row `num_buckets + b` is of keys that lie b buckets before the query, for b
  from -`num_buckets` on; distances beyond share the first or the last row.

  Attributes:
    features: D, d_model.
    num_buckets: The buckets on each side; the table has twice as many rows.
    max_distance: The distance up to which buckets grow logarithmically (DeBERTa
      v2 and v3); None for a bucket of each distance (v1).
    norm: The normalization of the table, or None.
    embedding_init: The distribution of the table.
  """

  features: int
  num_buckets: int = 512
  max_distance: int | None = None
  norm: nn.Module | None = None
  embedding_init: Callable = initializers.unit_normal

  def __post_init__(self):
    if self.num_buckets < 1:
      raise UserError(
        f"RelativeEmbeddings.num_buckets is {self.num_buckets}; it must be at "
        "least 1"
      )
    exact, longest = self.num_buckets // 2, self.max_distance
    if longest is not None and not 1 < exact < longest - 1:
      raise UserError(
        f"RelativeEmbeddings has num_buckets={self.num_buckets} and "
        f"max_distance={longest}; half of the buckets, at least 2, hold single "
        "distances, which must be fewer than max_distance - 1"
      )
    super().__post_init__()

  @nn.compact
  def __call__(
    self, positions: Positions, *, deterministic: bool = True
  ) -> RelativeTable:
    """Returns the rows that are read, float32, and the row of each pair.

    Keys and queries are as many as positions at most: no distance is longer.
    """
    del deterministic  # Attention has a dropout of its own for the table.
    table_RD = self.param(
      "embedding",
      axes.partitioned(self.embedding_init, "relpos_buckets", "embed"),
      (2 * self.num_buckets, self.features),
      jnp.float32,
    )
    farthest = positions.key_1M.shape[1] - 1
    if self.max_distance is None:
      buckets = None
      reach = min(farthest, self.num_buckets)
    else:
      buckets = logarithmic_buckets(self.num_buckets, self.max_distance)
      reach = int(buckets[min(farthest, len(buckets) - 1)])
    # The rows of longer distances are not read.
    first = self.num_buckets - reach
    table_RD = table_RD[first : self.num_buckets + reach + 1]
    if self.norm is not None:
      table_RD = self.norm(table_RD)

    def rows(distance):
      before = -distance
      if buckets is not None:
        before = jnp.sign(before) * jnp.take(
          jnp.asarray(buckets), jnp.abs(before), mode="clip"
        )
      return jnp.clip(before + reach, 0, len(table_RD) - 1)

    return RelativeTable(
      table_RD,
      rows(positions.distance_1LM),
      rows(positions.distances_R)[None] if positions.counted else None,
    )


@gin.register
class RelativeSinusoids(nn.Module):
  """Sines and cosines of distances (Dai et al. 2019, appendix B).

  Attributes:
    features: D, d_model, even.
    clip: Distances beyond are clipped to it; None for any distance.
    dropout: applied to the table, or None.
  """

  features: int
  clip: int | None = None
  dropout: nn.Module | None = None

  def __post_init__(self):
    if self.features < 2 or self.features % 2:
      raise UserError(
        f"RelativeSinusoids.features is {self.features}; a sine and a cosine "
        "need an even number"
      )
    if self.clip is not None and self.clip < 1:
      raise UserError(
        f"RelativeSinusoids.clip is {self.clip}; it must be a distance, at "
        "least 1, or None"
      )
    super().__post_init__()

  def __call__(
    self, positions: Positions, *, deterministic: bool = True
  ) -> RelativeTable:
    """Returns the table, float32, and the row of each pair of positions.

    Positions of keys count from 0, and queries lie among them.
    """
    farthest = positions.key_1M.shape[1] - 1
    distances_R = jnp.arange(-farthest, farthest + 1)
    if self.clip is not None:
      distances_R = jnp.clip(distances_R, -self.clip, self.clip)
    table_RD = absolute.sinusoids(distances_R, self.features, interleaved=False)
    if self.dropout is not None:
      table_RD = self.dropout(table_RD, deterministic=deterministic)
    row_1LM = jnp.clip(farthest - positions.distance_1LM, 0, 2 * farthest)
    return RelativeTable(table_RD, row_1LM)
