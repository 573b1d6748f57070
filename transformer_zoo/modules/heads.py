"""Heads: from the output of a stack to logits.

Logits over the vocabulary first, then logits of an encoder's other answers.
"""

from collections.abc import Callable
from typing import ClassVar

from flax import linen as nn
from flax import struct
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import feed_forward
from transformer_zoo.modules import initializers
from transformer_zoo.modules import scalars
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.embedding import AdaptiveEmbed
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.normalization import LayerNorm
from transformer_zoo.modules.parts import part


@gin.register
class TiedLogits(nn.Module):
  """Logits from the embedding table (Press and Wolf 2017).

  Attributes:
    scale_by_depth: multiply the output by d_model^-0.5 first, as T5 v1.0 does
      because its embeddings have unit variance.
    use_bias: whether to add a bias for each token, initially 0 (Marian).
  """

  scale_by_depth: bool = True
  use_bias: bool = False

  @nn.compact
  def __call__(self, x_BLD: jax.Array, embedder: nn.Module) -> jax.Array:
    """Returns float32 logits [B, L, V]."""
    if self.scale_by_depth:
      x_BLD = _scaled(x_BLD)
    logits_BLV = embedder.attend(x_BLD).astype(jnp.float32)
    if self.use_bias:
      bias_V = self.param(
        "logits_bias",
        axes.partitioned(nn.initializers.zeros, "vocab"),
        (logits_BLV.shape[-1],),
        jnp.float32,
      )
      logits_BLV += bias_V.reshape(1, 1, -1)
    return axes.constrain(logits_BLV, "batch", "length", "vocab")


@gin.register
class LinearLogits(nn.Module):
  """Logits from a projection of their own, in float32 (T5.1.1).

  Attributes:
    logits_dense: the projection.
    scale_by_depth: multiply the output by d_model^-0.5 first; checkpoints of
      `transformers` exist that do so beside a matrix of their own.
  """

  logits_dense: nn.Module = part(Linear, kernel_axes=("embed", "vocab"))
  scale_by_depth: bool = False

  @nn.compact
  def __call__(self, x_BLD: jax.Array, embedder: nn.Module) -> jax.Array:
    """Returns float32 logits [B, L, V]."""
    x_BLD = x_BLD.astype(jnp.float32)
    if self.scale_by_depth:
      x_BLD = x_BLD * x_BLD.shape[-1] ** -0.5
    logits_BLV = self.logits_dense(x_BLD, embedder.num_embeddings)
    return axes.constrain(logits_BLV, "batch", "length", "vocab")


@gin.register
class SoftCappedLogits(nn.Module):
  """Logits that stay between -`cap` and `cap` (Gemma 2: Riviere et al. 2024).

  A logit z of another head is cap * tanh(z / cap).

  Attributes:
    softmax: `TiedLogits` or `LinearLogits`, whose parameters lie where its own
      would.
    cap: The bound.
  """

  softmax: nn.Module
  cap: float = 30.0

  def __post_init__(self):
    scalars.check_cap(self)
    super().__post_init__()

  def setup(self):
    nn.share_scope(self, self.softmax)

  def __call__(self, x_BLD: jax.Array, embedder: nn.Module) -> jax.Array:
    """Returns float32 logits [B, L, V]."""
    return scalars.soft_capped(self.softmax(x_BLD, embedder), self.cap)


@gin.register
class LogitsOfTransform(nn.Module):
  """Logits of what a transform makes of the hidden states.

  ModernBERT's decoders have a projection, an activation and a norm before their
  softmax (Ettin: Weller et al. 2025).

  Attributes:
    softmax: `TiedLogits` or `LinearLogits`, whose parameters lie where its own
      would.
    transform: A `Transform`.
  """

  softmax: nn.Module
  transform: nn.Module

  def setup(self):
    nn.share_scope(self, self.softmax)

  def __call__(self, x_BLD: jax.Array, embedder: nn.Module) -> jax.Array:
    """Returns float32 logits [B, L, V]."""
    return self.softmax(self.transform(x_BLD), embedder)


@gin.register
class AdaptiveLogits(nn.Module):
  """Log-probabilities of an adaptive softmax, over an `AdaptiveEmbed`.

  The first softmax is over the tokens of the first cluster and the others'
  clusters, each of which has a softmax over its tokens (Grave et al. 2017;
  `adaptive_softmax.py` of Mesh TensorFlow). The original saves time in training
  by the loss of each token's cluster alone; here all are computed, which gives
  the same loss.

  Attributes:
    scale_by_depth: as of `TiedLogits`.
    clusters_init: The distribution of the vectors of clusters.
  """

  scale_by_depth: bool = True
  clusters_init: Callable = initializers.unit_normal

  @nn.compact
  def __call__(self, x_BLD: jax.Array, embedder: nn.Module) -> jax.Array:
    """Returns float32 log-probabilities [B, L, V]."""
    if not isinstance(embedder, AdaptiveEmbed):
      raise UserError(
        "AdaptiveLogits reads the clusters of AdaptiveEmbed, but the model has "
        f"{type(embedder).__name__}; add parts/softmax/adaptive.gin, which "
        "binds both"
      )
    if self.scale_by_depth:
      x_BLD = _scaled(x_BLD)
    first_BLV, *others = embedder.attend_to_clusters(x_BLD)
    clusters_CD = self.param(
      "clusters",
      axes.partitioned(self.clusters_init, None, "embed"),
      (len(others), x_BLD.shape[-1]),
      jnp.float32,
    )
    clusters_BLC = x_BLD @ clusters_CD.astype(x_BLD.dtype).T
    number = first_BLV.shape[-1]
    first_BLX = jnp.concatenate([first_BLV, clusters_BLC], axis=-1)
    first_BLX = jax.nn.log_softmax(first_BLX.astype(jnp.float32))
    found = [first_BLX[..., :number]]
    for i, other_BLV in enumerate(others, start=number):
      other_BLV = jax.nn.log_softmax(other_BLV.astype(jnp.float32))
      found.append(first_BLX[..., i : i + 1] + other_BLV)
    logits_BLV = jnp.concatenate(found, axis=-1)
    return axes.constrain(logits_BLV, "batch", "length", "vocab")


@gin.register
class MixtureLogits(nn.Module):
  """Log-probabilities of a mixture of softmaxes (Yang et al. 2018).

  log sum_c p(c | x) softmax(table @ tanh(W_c x)), where the mixture's weights
  p(c | x) are a softmax too and the table is that of the embeddings
  (`MixtureOfSoftmaxes` of Mesh TensorFlow's `vocab_embeddings.py`).

  Attributes:
    num_softmaxes: C.
    vectors_init: The distribution of W and of the vectors of the weights.
  """

  num_softmaxes: int = 15
  vectors_init: Callable = initializers.unit_normal

  @nn.compact
  def __call__(self, x_BLD: jax.Array, embedder: nn.Module) -> jax.Array:
    """Returns float32 log-probabilities [B, L, V]."""
    rows, length, features = x_BLD.shape
    number = self.num_softmaxes
    x_BLD = _scaled(x_BLD)
    weights_CD = self._parameter("mixture", number, features)
    contexts_CDD = self._parameter("contexts", number, features, features)
    weights_BLC = x_BLD @ weights_CD.astype(x_BLD.dtype).T
    contexts_BLCD = jnp.tanh(
      jnp.einsum("bld,cde->blce", x_BLD, contexts_CDD.astype(x_BLD.dtype))
    )
    logits_BXV = embedder.attend(contexts_BLCD.reshape(rows, -1, features))
    logits_BLCV = logits_BXV.reshape(rows, length, number, -1)
    mixed_BLCV = jax.nn.log_softmax(logits_BLCV.astype(jnp.float32))
    mixed_BLCV += jax.nn.log_softmax(weights_BLC.astype(jnp.float32))[..., None]
    logits_BLV = jax.nn.logsumexp(mixed_BLCV, axis=2)
    return axes.constrain(logits_BLV, "batch", "length", "vocab")

  def _parameter(self, name: str, *shape: int) -> jax.Array:
    last = (None,) * (len(shape) - 2)
    init = axes.partitioned(self.vectors_init, None, "embed", *last)
    return self.param(name, init, shape, jnp.float32)


def _scaled(x_BLD: jax.Array) -> jax.Array:
  """Returns x times d_model^-0.5, for a table of unit variance."""
  return x_BLD * jnp.asarray(x_BLD.shape[-1] ** -0.5, x_BLD.dtype)


@gin.register
class TransformedLogits(nn.Module):
  """Logits of masked tokens: softmax(norm(activation(dense(x)))).

  BERT's head (Devlin et al. 2019; `get_masked_lm_output` of its code), whose
  softmax is the embedding table with a bias for each token; `dense` leads to
  the width of that table.

  Attributes:
    softmax: `TiedLogits` or `LinearLogits`; its parameters lie beside `dense`
      and `norm`.
    activation: a key of `feed_forward.ACTIVATIONS`, or a function.
    dense: the projection before the norm; None leaves out all but the softmax
      (XLNet).
    norm: the normalization.
  """

  softmax: nn.Module
  activation: feed_forward.Activation = "gelu"
  dense: nn.Module | None = part(Linear)
  norm: nn.Module | None = part(LayerNorm)

  reads_pooled: ClassVar[bool] = False
  reads_masked: ClassVar[bool] = True

  def __post_init__(self):
    feed_forward.check_activation(self.activation)
    super().__post_init__()

  def setup(self):
    nn.share_scope(self, self.softmax)

  def __call__(
    self, x_BPD: jax.Array, *, embedder: nn.Module, deterministic: bool
  ) -> jax.Array:
    """Returns float32 logits [B, P, V]."""
    del deterministic
    if self.dense is None:
      return self.softmax(x_BPD, embedder)
    activation = feed_forward.activation(self.activation)
    x_BPE = self.norm(activation(self.dense(x_BPD, embedder.features)))
    return self.softmax(x_BPE, embedder)


@gin.register
class OneWayLogits(nn.Module):
  """Logits from the half of the vectors of `BothWays` that reads in one way.

  Attributes:
    softmax: `TiedLogits` or `LinearLogits`, whose parameters lie where its own
      would.
    direction: 'left_to_right' or 'right_to_left'.
  """

  softmax: nn.Module
  direction: str = "left_to_right"

  reads_pooled: ClassVar[bool] = False

  def __post_init__(self):
    if self.direction not in ("left_to_right", "right_to_left"):
      raise UserError(
        f"unknown OneWayLogits.direction {self.direction!r}; allowed: "
        "left_to_right, right_to_left"
      )
    super().__post_init__()

  def setup(self):
    nn.share_scope(self, self.softmax)

  def __call__(
    self, x_BPX: jax.Array, *, embedder: nn.Module, deterministic: bool
  ) -> jax.Array:
    """Returns float32 logits [B, P, V]."""
    del deterministic
    halves = jnp.split(x_BPX, 2, axis=-1)
    return self.softmax(halves[self.direction == "right_to_left"], embedder)


@struct.dataclass
class Averaged:
  """The output of a stack, and means of it.

  Attributes:
    hidden_BLD: The output of the layers.
    mean_BLD: For each token the mean over the tokens of its text; 0 at padding.
  """

  hidden_BLD: jax.Array
  mean_BLD: jax.Array

  @classmethod
  def of_texts(cls, hidden_BLD: jax.Array, texts_BL: jax.Array) -> "Averaged":
    """Returns the output with its means, which are taken in float32.

    Args:
      hidden_BLD: The output of the layers.
      texts_BL: The number of the text of each token, 0 at padding.
    """
    is_same_BLM = texts_BL[:, :, None] == texts_BL[:, None, :]
    is_same_BLM &= (texts_BL > 0)[:, :, None]
    weights_BLM = is_same_BLM.astype(jnp.float32)
    number_BL1 = jnp.maximum(jnp.sum(weights_BLM, axis=-1, keepdims=True), 1.0)
    mean_BLD = (weights_BLM / number_BL1) @ hidden_BLD.astype(jnp.float32)
    return cls(hidden_BLD, mean_BLD.astype(hidden_BLD.dtype))

  def read_by(self, head: nn.Module) -> jax.Array:
    """Returns the one of both that a head reads."""
    # Not of the module itself, whose parameters that would set up.
    return self.mean_BLD if type(head).reads_pooled else self.hidden_BLD


@gin.register
class Pooler(nn.Module):
  """activation(dense(x)), a text's vector from one of its tokens.

  Attributes:
    activation: a key of `feed_forward.ACTIVATIONS`, or a function; BERT's and
      RoBERTa's tanh.
    dense: the projection.
    features: The width E of the result; None for the width of what is read.
  """

  activation: feed_forward.Activation = "tanh"
  dense: nn.Module = part(Linear)
  features: int | None = None

  def __post_init__(self):
    feed_forward.check_activation(self.activation)
    super().__post_init__()

  def __call__(self, x_BPD: jax.Array) -> jax.Array:
    """Maps [B, P, D] to [B, P, E]."""
    activation = feed_forward.activation(self.activation)
    return activation(self.dense(x_BPD, self.features or x_BPD.shape[-1]))


@gin.register
class Transform(nn.Module):
  """norm(activation(dense(x))), before every head of a ModernBERT.

  Attributes:
    activation: a key of `feed_forward.ACTIVATIONS`, or a function.
    dense: the projection.
    norm: the normalization.
  """

  activation: feed_forward.Activation = "gelu_exact"
  dense: nn.Module = part(Linear)
  norm: nn.Module = part(LayerNorm)

  def __post_init__(self):
    feed_forward.check_activation(self.activation)
    super().__post_init__()

  def __call__(self, x_BPD: jax.Array) -> jax.Array:
    """Maps [B, P, D] to [B, P, D]."""
    activation = feed_forward.activation(self.activation)
    return self.norm(activation(self.dense(x_BPD, x_BPD.shape[-1])))


@gin.register
class ClassLogits(nn.Module):
  """Logits of the classes of a text, from the vector of one of its tokens.

  One class is a number (STS-B) or the score of a choice.

  Attributes:
    num_classes: K.
    pooler: A pooler of the head's own with dropout before it, as RoBERTa has;
      None reads what the model's pooler gives.
    dropout: applied before the output.
    out: the projection to the classes.
  """

  num_classes: int
  pooler: nn.Module | None = None
  dropout: nn.Module = part(Dropout)
  out: nn.Module = part(Linear, kernel_axes=("embed", None), use_bias=True)

  reads_pooled: ClassVar[bool] = True

  def __call__(
    self, x_BPD: jax.Array, *, embedder: nn.Module, deterministic: bool
  ) -> jax.Array:
    """Returns float32 logits [B, P, K]."""
    del embedder
    if self.pooler is not None:
      x_BPD = self.pooler(self.dropout(x_BPD, deterministic=deterministic))
    x_BPD = self.dropout(x_BPD, deterministic=deterministic)
    return self.out(x_BPD, self.num_classes).astype(jnp.float32)


@gin.register
class TokenClassLogits(nn.Module):
  """Logits of the classes of every token: tags, or the ends of an answer.

  Attributes:
    num_classes: K; the start and the end of an answer are two.
    transform: goes over each vector first, like `Transform`, or None.
    dropout: applied before the output.
    out: the projection to the classes.
  """

  num_classes: int
  transform: nn.Module | None = None
  dropout: nn.Module = part(Dropout)
  out: nn.Module = part(Linear, kernel_axes=("embed", None), use_bias=True)

  reads_pooled: ClassVar[bool] = False

  def __call__(
    self, x_BPD: jax.Array, *, embedder: nn.Module, deterministic: bool
  ) -> jax.Array:
    """Returns float32 logits [B, P, K]."""
    del embedder
    if self.transform is not None:
      x_BPD = self.transform(x_BPD)
    x_BPD = self.dropout(x_BPD, deterministic=deterministic)
    return self.out(x_BPD, self.num_classes).astype(jnp.float32)


@gin.register
class ReplacedLogits(nn.Module):
  """The logit of whether a token was replaced: out(activation(dense(x))).

  The discriminator's head (`get_discriminator_predictions` of ELECTRA's code).

  Attributes:
    activation: a key of `feed_forward.ACTIVATIONS`, or a function.
    norm: Normalization of the sum of each vector and the vector of the first
      token of its text, before the projection (`LMMaskPredictionHead` of
      microsoft/DeBERTa 4d7fe0b); None leaves both out (ELECTRA).
    dense: the projection before the activation.
    out: the projection to the logit.
  """

  activation: feed_forward.Activation = "gelu"
  norm: nn.Module | None = None
  dense: nn.Module = part(Linear)
  out: nn.Module = part(Linear, kernel_axes=("embed", None), use_bias=True)

  reads_pooled: ClassVar[bool] = False

  def __post_init__(self):
    feed_forward.check_activation(self.activation)
    super().__post_init__()

  def __call__(
    self,
    x_BPD: jax.Array,
    *,
    embedder: nn.Module,
    deterministic: bool,
    firsts_BP: jax.Array | None = None,
  ) -> jax.Array:
    """Returns float32 logits [B, P, 1].

    Args:
      x_BPD: The hidden states of all places of the rows.
      embedder: Not read.
      deterministic: Not read.
      firsts_BP: The place of the first token of each place's text, where texts
        share rows; the first of the row if None.
    """
    del embedder, deterministic
    activation = feed_forward.activation(self.activation)
    if self.norm is not None:
      firsts_BPD = x_BPD[:, :1]
      if firsts_BP is not None:
        firsts_BPD = jnp.take_along_axis(x_BPD, firsts_BP[..., None], axis=1)
      x_BPD = self.norm(x_BPD + firsts_BPD)
    x_BPD = activation(self.dense(x_BPD, x_BPD.shape[-1]))
    return self.out(x_BPD, 1).astype(jnp.float32)


@gin.register
class SpanBoundaryLogits(nn.Module):
  """Logits of a masked token from the two tokens outside of its span.

  softmax(h_2), h_2 = norm(activation(dense_2(h_1))), h_1 =
  norm(activation(dense_1([x_left; x_right; p]))), where p is a vector of the
  place in the span (Joshi et al. 2020, section 3.2; facebookresearch/SpanBERT
  0670d8b `BertPairTargetPredictionHead`).

  Attributes:
    softmax: `TiedLogits` or `LinearLogits`; its parameters lie beside the
      projections.
    num_offsets: The longest span in tokens, rows of the table of p.
    offset_features: The width of p.
    activation: a key of `feed_forward.ACTIVATIONS`, or a function.
    dense_1, dense_2: the projections.
    norm_1, norm_2: the normalizations behind them.
    embedding_init: The distribution of the table of p.
  """

  softmax: nn.Module
  num_offsets: int = 20
  offset_features: int = 200
  activation: feed_forward.Activation = "gelu"
  dense_1: nn.Module = part(Linear)
  dense_2: nn.Module = part(Linear)
  norm_1: nn.Module = part(LayerNorm)
  norm_2: nn.Module = part(LayerNorm)
  embedding_init: Callable = initializers.truncated_normal(0.02)

  reads_pooled: ClassVar[bool] = False

  def __post_init__(self):
    feed_forward.check_activation(self.activation)
    super().__post_init__()

  def setup(self):
    nn.share_scope(self, self.softmax)
    self.offset_embedding = self.param(
      "offset_embedding",
      axes.partitioned(self.embedding_init, None, None),
      (self.num_offsets, self.offset_features),
      jnp.float32,
    )

  def __call__(
    self,
    x_BTD: jax.Array,
    *,
    embedder: nn.Module,
    deterministic: bool,
    offsets_BP: jax.Array | None = None,
  ) -> jax.Array:
    """The logits of P masked tokens.

    Args:
      x_BTD: The vectors left of the span of each token, then those right of it,
        T = 2 P.
      embedder: The embedder whose table a tied softmax reads.
      deterministic: no dropout; there is none.
      offsets_BP: The place of each token in its span, from 0 on; all 0 if None.

    Returns:
      float32 logits [B, P, V].
    """
    del deterministic
    number = x_BTD.shape[1] // 2
    left_BPD, right_BPD = x_BTD[:, :number], x_BTD[:, number : 2 * number]
    if offsets_BP is None:
      offsets_BP = jnp.zeros(left_BPD.shape[:2], jnp.int32)
    place_BPE = jnp.take(self.offset_embedding, offsets_BP, axis=0, mode="clip")
    activation = feed_forward.activation(self.activation)
    h_BPF = jnp.concatenate(
      [left_BPD, right_BPD, place_BPE.astype(x_BTD.dtype)], axis=-1
    )
    h_BPD = activation(self.dense_1(h_BPF, x_BTD.shape[-1]))
    h_BPE = activation(self.dense_2(self.norm_1(h_BPD), embedder.features))
    return self.softmax(self.norm_2(h_BPE), embedder)
