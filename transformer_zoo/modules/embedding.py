"""Token embeddings."""

from collections.abc import Callable, Sequence
import dataclasses

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part

COMPUTE_DTYPES = ("auto", "float32", "bfloat16")


def compute_dtype(name: str) -> str:
  """The compute dtype that 'auto' means here: bfloat16 but on CPU.

  XLA's bfloat16 matmul on CPU is slower than its float32 one.
  """
  if name != "auto":
    return name
  return "float32" if tracing.platform() == "cpu" else "bfloat16"


@jax.custom_vjp
def _rows(table_VD: jax.Array, ids_BL: jax.Array) -> jax.Array:
  """Returns the rows of a table; its gradient is made of the rows' gradients.

  The gradient is added to zeros. XLA on CPU fills zeros that depend on nothing
  before the forward pass and keeps them through it: a whole table of memory.
  """
  return jnp.take(table_VD, ids_BL, axis=0, mode="clip")


def _rows_forward(table_VD, ids_BL):
  return _rows(table_VD, ids_BL), (table_VD, ids_BL)


def _rows_backward(residuals, gradient_BLD):
  table_VD, ids_BL = residuals
  first = gradient_BLD.reshape(-1)[0]
  zero = jnp.where(first == first, 0, first)  # NaN if the gradient is.
  gradient_VD = jnp.full(table_VD.shape, zero)
  return gradient_VD.at[ids_BL].add(gradient_BLD, mode="clip"), None


_rows.defvjp(_rows_forward, _rows_backward)


def look_up(
  table_VD: jax.Array, ids_BL: jax.Array, width_axis: str | None = "embed"
) -> jax.Array:
  """Returns the rows of a table, [B, L, D].

  Devices that share out the width of the table look the same ids up, each its
  part of the width: neither the table nor the batch is gathered.

  Args:
    table_VD: the table.
    ids_BL: Token ids; an id beyond the table takes its first or last row.
    width_axis: the logical axis of D.
  """
  ids_BL = axes.constrain(ids_BL, "lookup", None)
  on_one_cpu = (
    tracing.platform() == "cpu" and jax.sharding.get_abstract_mesh().size <= 1
  )
  if on_one_cpu and ids_BL.size:
    x_BLD = _rows(table_VD, ids_BL)
  else:
    x_BLD = jnp.take(table_VD, ids_BL, axis=0, mode="clip")
  x_BLD = axes.constrain(x_BLD, "lookup", None, width_axis)
  return axes.constrain(x_BLD, "batch", "length", "embed")


@gin.register
class Embed(nn.Module):
  """A table of token embeddings; sets the compute dtype of what follows.

  Attributes:
    num_embeddings: rows, at least the vocabulary's size (T5 pads 32,100 to
      32,128 so that the table divides over a mesh).
    features: d_model.
    dtype: compute dtype, one of `COMPUTE_DTYPES`; 'auto' chooses by device.
    embedding_init: distribution of the table; T5's is N(0, 1).
    inner_features: if given, the table has this width and a matrix leads to
      `features`, and back for a tied softmax (Lan et al. 2020, section 3.1).
    multiply_by_sqrt_depth: embeddings times sqrt(d_model), as the Transformer
      of 2017 does (section 3.4), whose table is the softmax's too.
    round_sqrt_depth: Whether that root and the embeddings are in the compute
      dtype when they are multiplied, as Gemma's are.
  """

  num_embeddings: int
  features: int
  dtype: str = "auto"
  embedding_init: Callable = initializers.unit_normal
  inner_features: int | None = None
  multiply_by_sqrt_depth: bool = False
  round_sqrt_depth: bool = False

  def __post_init__(self):
    if self.dtype not in COMPUTE_DTYPES:
      raise UserError(
        f"unknown compute dtype {self.dtype!r}; "
        f"allowed: {', '.join(COMPUTE_DTYPES)}"
      )
    super().__post_init__()

  def setup(self):
    self.embedding = self.param(
      "embedding",
      axes.partitioned(self.embedding_init, "vocab", self._width_axis),
      (self.num_embeddings, self.inner_features or self.features),
      jnp.float32,
    )
    if self.inner_features is not None:
      self.projection = self.param(
        "projection",
        axes.partitioned(initializers.fan_in_truncated_normal, None, "embed"),
        (self.inner_features, self.features),
        jnp.float32,
      )

  def __call__(self, tokens_BL: jax.Array) -> jax.Array:
    """Looks up embeddings: [B, L] ids to [B, L, D] in the compute dtype."""
    x_BLD = look_up(self.embedding, tokens_BL, self._width_axis)
    if self.inner_features is not None:
      x_BLD = x_BLD @ self.projection
    if self.round_sqrt_depth:
      x_BLD = x_BLD.astype(compute_dtype(self.dtype))
    if self.multiply_by_sqrt_depth:
      x_BLD = x_BLD * jnp.asarray(self.features**0.5, x_BLD.dtype)
    return axes.constrain(
      x_BLD.astype(compute_dtype(self.dtype)), "batch", "length", "embed"
    )

  def attend(self, x_BLD: jax.Array) -> jax.Array:
    """Dot products with every embedding: [B, L, D] to [B, L, V]."""
    if self.inner_features is not None:
      x_BLD = x_BLD @ self.projection.astype(x_BLD.dtype).T
    return x_BLD @ self.embedding.astype(x_BLD.dtype).T

  @property
  def _width_axis(self) -> str | None:
    return "embed" if self.inner_features is None else None


@gin.register
class AdaptiveEmbed(nn.Module):
  """Tables of clusters of tokens, narrower for rarer tokens.

  Adaptive input embeddings (Baevski and Auli 2019, section 3;
  `vocab_embeddings.py` of Mesh TensorFlow). Vocabularies list tokens by their
  frequency, so a cluster has consecutive ids.

  Attributes:
    embed: The table of one cluster, with the rows of the whole vocabulary; each
      cluster has a copy of its own size.
    sizes: The number of tokens of each cluster.
    widths: The width of the table of each cluster; None is d_model, without a
      projection.
  """

  embed: Embed
  sizes: Sequence[int]
  widths: Sequence[int | None]

  def __post_init__(self):
    if len(self.sizes) != len(self.widths):
      raise UserError(
        f"AdaptiveEmbed.sizes has {len(self.sizes)} clusters, but "
        f"AdaptiveEmbed.widths {len(self.widths)}; give each cluster both"
      )
    if sum(self.sizes) != self.embed.num_embeddings:
      raise UserError(
        f"AdaptiveEmbed.sizes are {tuple(self.sizes)}, {sum(self.sizes)} "
        f"tokens, but there are {self.embed.num_embeddings}; set "
        "EMBEDDING_CLUSTERS to sizes whose sum is VOCAB_SIZE"
      )
    super().__post_init__()

  def setup(self):
    self.clusters = [
      self.embed.copy(
        num_embeddings=size, inner_features=width, name=f"cluster_{i}"
      )
      for i, (size, width) in enumerate(
        zip(self.sizes, self.widths, strict=True)
      )
    ]

  @property
  def num_embeddings(self) -> int:
    """As of `Embed`."""
    return self.embed.num_embeddings

  @property
  def features(self) -> int:
    """As of `Embed`."""
    return self.embed.features

  def __call__(self, tokens_BL: jax.Array) -> jax.Array:
    """As `Embed.__call__`."""
    x_BLD, first = 0.0, 0
    for size, cluster in zip(self.sizes, self.clusters, strict=True):
      own_BL = tokens_BL - first
      is_own_BL = (own_BL >= 0) & (own_BL < size)
      own_BLD = cluster(jnp.where(is_own_BL, own_BL, 0))
      x_BLD += jnp.where(is_own_BL[..., None], own_BLD, 0)
      first += size
    return x_BLD

  def attend(self, x_BLD: jax.Array) -> jax.Array:
    """As `Embed.attend`."""
    return jnp.concatenate(self.attend_to_clusters(x_BLD), axis=-1)

  def attend_to_clusters(self, x_BLD: jax.Array) -> list[jax.Array]:
    """Returns dot products with the embeddings of each cluster."""
    return [cluster.attend(x_BLD) for cluster in self.clusters]


@gin.register
class EmbedDifference(nn.Module):
  """A table of token embeddings as its difference from another, fixed one.

  The difference begins at zero, and no gradient reaches the other table:
  gradient-disentangled embedding sharing (He et al. 2023, section 3.3;
  `RTDModel` of microsoft/DeBERTa 4d7fe0b).

  Attributes:
    num_embeddings: The number of rows, as many as the other table has.
    features: d_model.
    dtype: as in `Embed`.
  """

  num_embeddings: int
  features: int
  dtype: str = "auto"

  def setup(self):
    self.difference = self.param(
      "embedding_difference",
      axes.partitioned(nn.initializers.zeros, "vocab", "embed"),
      (self.num_embeddings, self.features),
      jnp.float32,
    )

  def __call__(self, tokens_BL: jax.Array, other_VD: jax.Array) -> jax.Array:
    """Looks up embeddings: [B, L] ids to [B, L, D] in the compute dtype."""
    x_BLD = jax.lax.stop_gradient(look_up(other_VD, tokens_BL))
    x_BLD = x_BLD + look_up(self.difference, tokens_BL)
    return axes.constrain(
      x_BLD.astype(compute_dtype(self.dtype)), "batch", "length", "embed"
    )

  def attend(self, x_BLD: jax.Array, other_VD: jax.Array) -> jax.Array:
    """Dot products with every embedding: [B, L, D] to [B, L, V]."""
    table_VD = jax.lax.stop_gradient(other_VD) + self.difference
    return x_BLD @ table_VD.astype(x_BLD.dtype).T


@dataclasses.dataclass(frozen=True)
class FromOther:
  """An `EmbedDifference` together with the table that it differs from.

  Attributes:
    difference: the difference.
    other: the embedder of the other table.
  """

  difference: EmbedDifference
  other: Embed

  @property
  def num_embeddings(self) -> int:
    """As of `Embed`."""
    return self.difference.num_embeddings

  @property
  def features(self) -> int:
    """As of `Embed`."""
    return self.difference.features

  def __call__(self, tokens_BL: jax.Array) -> jax.Array:
    """As `Embed.__call__`."""
    return self.difference(tokens_BL, self.other.embedding)

  def attend(self, x_BLD: jax.Array) -> jax.Array:
    """As `Embed.attend`."""
    return self.difference.attend(x_BLD, self.other.embedding)


@gin.register
class EmbedWithNew(Embed):
  """A table with rows for tokens that the vocabulary lacks.

  Their ids follow the ids of the table, whose parameters and ids stay: GPT's
  start, delimiter and extract tokens begin at random beside a pre-trained table
  (Radford et al. 2018, section 3.3).

  Attributes:
    num_new: The number of further tokens.
    new_init: The distribution of their rows.
  """

  num_new: int = 3
  new_init: Callable = initializers.unit_normal

  def setup(self):
    super().setup()
    self.new_embedding = self.param(
      "new_embedding",
      axes.partitioned(self.new_init, None, "embed"),
      (self.num_new, self.features),
      jnp.float32,
    )

  def __call__(self, tokens_BL: jax.Array) -> jax.Array:
    """As `Embed.__call__`, of ids up to `num_embeddings + num_new`."""
    new_BL = tokens_BL - self.num_embeddings
    x_BLD = super().__call__(tokens_BL)
    new_BLD = look_up(self.new_embedding, new_BL).astype(x_BLD.dtype)
    return jnp.where(new_BL[..., None] >= 0, new_BLD, x_BLD)

  def attend(self, x_BLD: jax.Array) -> jax.Array:
    """As `Embed.attend`, with the logits of the further tokens last."""
    of_new = x_BLD @ self.new_embedding.astype(x_BLD.dtype).T
    return jnp.concatenate([super().attend(x_BLD), of_new], axis=-1)


@gin.register
class TokenTypeEmbed(nn.Module):
  """A vector for each segment of a text (Devlin et al. 2019, section 3).

  Attributes:
    num_types: rows of the table; BERT has two segments.
    features: d_model.
    embedding_init: distribution of the table.
  """

  num_types: int
  features: int
  embedding_init: Callable = initializers.unit_normal

  @nn.compact
  def __call__(self, types_BL: jax.Array) -> jax.Array:
    """Returns float32 [B, L, D]."""
    table_TD = self.param(
      "embedding",
      axes.partitioned(self.embedding_init, None, "embed"),
      (self.num_types, self.features),
      jnp.float32,
    )
    return look_up(table_TD, types_BL)


@gin.register
class InputProjection(nn.Module):
  """From embeddings to the wider or narrower layers that read them.

  The factorized embeddings of ALBERT (Lan et al. 2020, section 3.1) and of
  ELECTRA, whose norm and dropout go before it in their public code.

  Attributes:
    features: d_model of the layers.
    dense: the projection.
  """

  features: int
  dense: nn.Module = part(Linear, kernel_axes=(None, "embed"), use_bias=True)

  def __call__(self, x_BLE: jax.Array) -> jax.Array:
    """Maps [B, L, E] to [B, L, D]."""
    return self.dense(x_BLE, self.features)
