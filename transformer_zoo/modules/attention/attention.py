"""Multi-head attention (Vaswani et al. 2017, section 3.2)."""

from flax import linen as nn
from flax import struct
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import initializers
from transformer_zoo.modules.attention import banded
from transformer_zoo.modules.attention import cache
from transformer_zoo.modules.attention import dot_product
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.dot_product import KernelChoice
from transformer_zoo.modules.attention.dot_product import REFERENCE
from transformer_zoo.modules.attention.dot_product import ReferenceAttention
from transformer_zoo.modules.attention.first_values import FirstValues
from transformer_zoo.modules.attention.kernels import AutomaticAttention
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part
from transformer_zoo.modules.positions import Bias
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions import score_bias
from transformer_zoo.modules.positions import sum_of_biases
from transformer_zoo.modules.positions import whole_bias

# The variables that keep the keys and values of a memory beside x.
_OF_MEMORY = "cached_memory_key", "cached_memory_value"


@struct.dataclass
class Beside:
  """A memory that queries attend to beside their own text (T5Gemma 2).

  Attributes:
    memory_BMD: The input of further keys and values, [B, M, D].
    mask_B1LM: True where a query may attend to the memory.
    places_BL: The place of each query in its own text, [1 or B, L], by which it
      is turned: keys of the memory are not. None for its position.
  """

  memory_BMD: jax.Array
  mask_B1LM: jax.Array | masks.Mask | None
  places_BL: jax.Array | None = None


@gin.register
class Attention(nn.Module):
  """Multi-head attention from x to a memory (to x itself by default).

  Attributes:
    num_heads: H.
    head_dim: K; H * K need not be d_model.
    num_kv_heads: G, heads of keys and values, a divisor of H; H if None.
    scale_scores: multiply scores by 1/sqrt(head_dim). T5 folds it into the
      distribution of the query kernel instead.
    scale_size: The number whose root divides scores that are scaled; head_dim
      if None (Gemma 2 has another one).
    query, key, value, out: the projections; parameters are theirs.
    dropout: applied to the attention weights.
    rotary: turns queries and keys by their positions, or None.
    position_bias: a bias of this layer's own, or None.
    relative_vectors: vectors by distance for keys, or keys and values, or None.
      All three are of attention to x itself: a memory has no distances.
    convolution: mixes the queries, keys and values of neighbours, of attention
      to x itself (modules/neighbours.py), or None.
    value_residual: mixes values with those of the first layer, of attention to
      x itself (modules/attention/first_values.py), or None.
    norm: normalization of each query and key before `rotary`, or None.
    gate: The projection of x to a number for each head, whose sigmoid
      multiplies the context of the head, or None.
    context: computes the context in another way than by the shares of one
      softmax a head (modules/attention/contexts.py), or None.
    radius: The number of tokens that each token sees on either side, in
      attention to x itself, which needs time and memory by the length alone
      then (modules/attention/banded.py); None for all. `Windows` gives layers
      distances of their own.
    summaries: Makes further keys and values of many tokens each
      (modules/attention/summaries.py), in attention to x itself within
      `radius`, or None.
    kernel: The kernel that computes scores, weights and context. Relative
      vectors, `context` and decoding are always computed by the reference,
      `summaries` always in blocks.
  """

  num_heads: int
  head_dim: int
  num_kv_heads: int | None = None
  scale_scores: bool = False
  scale_size: int | None = None
  query: nn.Module = part(
    Linear,
    kernel_axes=("embed", "joined_kv"),
    kernel_init=initializers.fan_in_normal,
  )
  key: nn.Module = part(
    Linear,
    kernel_axes=("embed", "joined_kv"),
    kernel_init=initializers.fan_in_normal,
  )
  value: nn.Module = part(
    Linear,
    kernel_axes=("embed", "joined_kv"),
    kernel_init=initializers.fan_in_normal,
  )
  out: nn.Module = part(
    Linear,
    kernel_axes=("joined_kv", "embed"),
    kernel_init=initializers.fan_in_normal,
  )
  dropout: nn.Module = part(Dropout)
  rotary: nn.Module | None = None
  position_bias: nn.Module | None = None
  relative_vectors: nn.Module | None = None
  convolution: nn.Module | None = None
  value_residual: nn.Module | None = None
  norm: nn.Module | None = None
  gate: nn.Module | None = None
  context: nn.Module | None = None
  radius: int | None = None
  summaries: nn.Module | None = None
  kernel: KernelChoice = AutomaticAttention()

  def __post_init__(self):
    if self.num_kv_heads is not None and (
      self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads
    ):
      raise UserError(
        f"{self.num_heads} heads cannot share {self.num_kv_heads} heads of "
        "keys and values evenly; num_kv_heads must divide num_heads"
      )
    if self.scale_size is not None and self.scale_size < 1:
      raise UserError(
        f"Attention.scale_size is {self.scale_size}; scores are divided by its "
        "root, so it must be positive"
      )
    vectors = self.relative_vectors
    unserved = {"relative vectors": vectors, "Attention.context": self.context}
    for name, given in unserved.items():
      if given is not None and not isinstance(
        self.kernel, AutomaticAttention | ReferenceAttention
      ):
        raise UserError(
          f"Attention.kernel = @{type(self.kernel).__name__}() cannot serve "
          f"{name}; bind @AutomaticAttention() or @ReferenceAttention()"
        )
    if vectors is not None and self.context is not None:
      raise UserError(
        f"Attention.context = @{type(self.context).__name__}() adds no vectors "
        "by distance; leave Attention.relative_vectors None, or the context"
      )
    if vectors is not None and (
      vectors.head_dim != self.head_dim
      or vectors.num_heads not in (None, self.num_heads)
    ):
      raise UserError(
        f"RelativeVectors of head_dim={vectors.head_dim} and "
        f"num_heads={vectors.num_heads} do not fit Attention.head_dim="
        f"{self.head_dim} and num_heads={self.num_heads}; set HEAD_DIM and "
        "NUM_HEADS, which both read"
      )
    if self.radius is not None and self.radius < 0:
      raise UserError(
        f"Attention.radius is {self.radius}; it is a number of tokens on "
        "either side, or None"
      )
    if self.summaries is not None:
      self._check_summaries()
    super().__post_init__()

  @nn.nowrap
  def _check_summaries(self):
    """Raises UserError for fields that know nothing of summaries."""
    if self.radius is None:
      raise UserError(
        "Attention.summaries stand for tokens farther away than "
        "Attention.radius, which is None; bind it to a number of tokens"
      )
    for name in (
      *("rotary", "relative_vectors", "convolution", "value_residual"),
      "context",
    ):
      if getattr(self, name) is not None:
        raise UserError(
          f"Attention.summaries does not go with Attention.{name}, which is of "
          "tokens alone; leave one of the two None"
        )

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    memory_BMD: jax.Array | None = None,
    *,
    mask_B1LM: jax.Array | masks.Mask | None = None,
    bias_1HLM: jax.Array | Bias | None = None,
    positions: Positions | None = None,
    score_scale: jax.Array | None = None,
    decoding: cache.Decoding | None = None,
    first_values: FirstValues | None = None,
    beside: Beside | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """Returns [B, L, D].

    Args:
      x_BLD: The input of the queries.
      memory_BMD: The input of keys and values; x if None.
      mask_B1LM: True where a query may attend.
      bias_1HLM: added to the scores.
      positions: The positions of queries and keys, for attention to x itself; 0
        to L - 1 by default.
      score_scale: A factor of the scores, applied before any bias is added.
      decoding: if given, keys and values are kept in the `cache` collection:
        from x they are appended, from a memory they are computed once.
      first_values: What `value_residual` mixes values with.
      beside: A memory that queries attend to beside x, by one softmax.
      deterministic: no dropout.
    """
    to_itself = memory_BMD is None
    if decoding is None and not self.is_initializing():
      axes.check_length(x_BLD.shape[1])
    if positions is None:
      positions = Positions.of_length(x_BLD.shape[1])
    of_itself = None
    if to_itself:
      of_itself = {"mask_B1LM": mask_B1LM, "decoding": decoding}
    query_BLHK = self._heads("query", x_BLD, self.num_heads, of_itself)
    if self.scale_scores:
      query_BLHK = query_BLHK * self._scale
    if score_scale is not None:
      query_BLHK = query_BLHK * score_scale.astype(query_BLHK.dtype)
    turned_by = positions.query_1L
    if beside is not None and beside.places_BL is not None:
      turned_by = beside.places_BL
    if self.rotary is not None and to_itself:
      query_BLHK = self.rotary(query_BLHK, turned_by, positions.local)
    summed = None
    if self.summaries is not None and to_itself:
      summed = self._summed(x_BLD, mask_B1LM, positions, decoding)
    if self.radius is not None and to_itself:
      mask_B1LM, positions = masks.within(self.radius + 1, mask_B1LM, positions)

    def project():
      source = x_BLD
      if not to_itself:
        source = _with_one_gradient(memory_BMD)
      if summed is not None:
        source = jnp.concatenate([x_BLD, summed.sums_BSD], axis=1)
      num_heads = self.num_kv_heads or self.num_heads
      key_BMGK = self._heads("key", source, num_heads, of_itself)
      if self.rotary is not None and to_itself:
        key_BMGK = self.rotary(key_BMGK, positions.query_1L, positions.local)
      value_BMGK = self._heads("value", source, num_heads, of_itself)
      if self.value_residual is not None and to_itself:
        value_BMGK = self._with_first(value_BMGK, first_values)
      return key_BMGK, value_BMGK

    of_memory = None
    if beside is not None:
      (key_BMGK, value_BMGK), of_memory = self._projected_together(
        x_BLD, beside, (turned_by, positions.local), decoding
      )
    elif decoding is None:
      key_BMGK, value_BMGK = project()
    elif to_itself:
      key_BMGK, value_BMGK = cache.append(self, project(), decoding)
    else:
      key_BMGK, value_BMGK = cache.compute_once(self, project, decoding)

    if self.position_bias is not None and to_itself:
      own_1HLM = score_bias(
        self.position_bias.copy(name="relpos_bias"), positions
      )
      if bias_1HLM is not None:
        own_1HLM = sum_of_biases(bias_1HLM, own_1HLM)
      bias_1HLM = own_1HLM
    whole_1HLM = whole_bias(bias_1HLM)
    if bias_1HLM is not None and whole_1HLM.shape[1] != self.num_heads:
      raise UserError(
        f"a position bias of {whole_1HLM.shape[1]} heads cannot be added to "
        f"the scores of Attention.num_heads={self.num_heads}; set NUM_HEADS, "
        "which both read"
      )
    if beside is not None:
      key_BMGK, value_BMGK, mask_B1LM, bias_1HLM = _side_by_side(
        query_BLHK.shape,
        (key_BMGK, value_BMGK, mask_B1LM),
        (*of_memory, beside.mask_B1LM),
        whole_1HLM,
      )
    key_BMGK, value_BMGK, mask_B1LM, bias_1HLM = self._preceded(
      key_BMGK, value_BMGK, mask_B1LM, bias_1HLM
    )
    memory = key_BMGK.shape[1]
    if summed is not None:
      memory -= summed.sums_BSD.shape[1]
    shape = *query_BLHK.shape[:2], memory
    keep_BH1M = self._draw_dropout(shape, query_BLHK.dtype, deterministic)
    if self.relative_vectors is not None and to_itself:
      context_BLHK = self._attend_by_distance(
        query_BLHK,
        key_BMGK,
        value_BMGK,
        masks.whole(mask_B1LM),
        whole_1HLM,
        None if keep_BH1M is None else keep_BH1M.array(),
        positions,
      )
    elif summed is not None:
      context_BLHK = self._attend_to_summaries(
        query_BLHK,
        key_BMGK,
        value_BMGK,
        mask_B1LM,
        bias_1HLM,
        keep_BH1M,
        summed,
      )
    elif self.context is not None:
      context_BLHK = self.context(
        query_BLHK,
        key_BMGK,
        value_BMGK,
        mask_B1LM=masks.whole(mask_B1LM),
        bias_1HLM=whole_bias(bias_1HLM),
        keep_BH1M=None if keep_BH1M is None else keep_BH1M.array(),
      )
    else:
      context_BLHK = dot_product.dot_product_attention(
        query_BLHK,
        key_BMGK,
        value_BMGK,
        mask_B1LM=mask_B1LM,
        bias_1HLM=bias_1HLM,
        keep_BH1M=keep_BH1M,
        dropout=self.dropout.rate > 0.0,
        kernel=self.kernel if decoding is None else REFERENCE,
      )
    return self._out(x_BLD, context_BLHK, deterministic)

  def _summed(self, x_BLD, mask_B1LM, positions, decoding):
    """Returns the sums of tokens, and what is known of them."""
    if decoding is not None or not positions.bidirectional:
      raise UserError(
        "Attention.summaries are of tokens on both sides, of which a decoder "
        "sees those before alone; bind encoder/Attention.summaries"
      )
    intervals = isinstance(mask_B1LM, masks.Mask) and (
      mask_B1LM.first_BL is not None or mask_B1LM.last_BL is not None
    )
    if intervals or not isinstance(mask_B1LM, masks.Mask | None):
      raise UserError(
        "Attention.summaries are of all tokens of a text, some of which this "
        "model's mask or Windows.sizes hides; leave Attention.summaries None"
      )
    return self.summaries(
      x_BLD, banded.ids_of_queries(mask_B1LM, x_BLD.shape[1])
    )

  def _attend_to_summaries(
    self, query_BLHK, key_BXGK, value_BXGK, mask_B1LM, bias, keep, summed
  ):
    """Returns the context [B, L, H, K] of near tokens and of summaries."""
    length = query_BLHK.shape[1]
    described = isinstance(mask_B1LM, masks.Mask)
    if not described or not isinstance(bias, Bias | None):
      raise UserError(
        "Attention.summaries need keys, masks and biases of tokens by their "
        "distances, and something of this model precedes them or is an array; "
        "leave one of the two out"
      )
    return banded.attend(
      query_BLHK,
      key_BXGK[:, :length],
      value_BXGK[:, :length],
      mask=mask_B1LM,
      bias=bias,
      keep=keep,
      summaries=banded.Summaries(
        key_BXGK[:, length:],
        value_BXGK[:, length:],
        summed.ids_BS,
        summed.places_BL,
      ),
    )

  def _projected_together(self, x_BLD, beside, turned_by, decoding):
    """Returns the keys and values of x and those of the memory beside it.

    Both have the same projections; `turned_by` are arguments of the rotary
    positions of x, of which the memory has none.
    """
    for name in (
      *("convolution", "radius", "relative_vectors", "summaries"),
      "value_residual",
    ):
      if getattr(self, name) is not None:
        raise UserError(
          f"Attention.{name} is of tokens of one text, and this attention "
          "sees an encoder's beside it; leave it None"
        )
    length, source_BXD = x_BLD.shape[1], x_BLD
    if decoding is None or not self.has_variable("cache", _OF_MEMORY[0]):
      memory_BMD = _with_one_gradient(beside.memory_BMD)
      source_BXD = jnp.concatenate([x_BLD, memory_BMD], axis=1)
    num_heads = self.num_kv_heads or self.num_heads
    key_BXGK = self._heads("key", source_BXD, num_heads, None)
    value_BXGK = self._heads("value", source_BXD, num_heads, None)
    own = key_BXGK[:, :length], value_BXGK[:, :length]
    of_memory = key_BXGK[:, length:], value_BXGK[:, length:]
    if self.rotary is not None:
      own = self.rotary(own[0], *turned_by), own[1]
    if decoding is None:
      return own, of_memory
    return cache.append(self, own, decoding), cache.compute_once(
      self, lambda: of_memory, decoding, _OF_MEMORY
    )

  def _with_first(self, value_BMGK, first_values):
    """Returns the values mixed with those of the first layer."""
    if first_values is None:
      raise UserError(
        "Attention.value_residual mixes the values of the first layer, which "
        "value_residual_stack hands on; bind Transformer.layer_stack = "
        "@value_residual_stack() (encoder/Transformer.layer_stack where a file "
        "binds that one), and value_residual_stack.stack to the stack that "
        "was there"
      )
    return self.value_residual(value_BMGK, first_values)

  @property
  def _scale(self) -> float:
    """The factor of scores that are scaled."""
    return (self.scale_size or self.head_dim) ** -0.5

  def _out(self, x_BLD, context_BLHK, deterministic):
    """Returns [B, L, D] of the contexts of all heads."""
    del deterministic
    context_BLHK = self._gated(x_BLD, context_BLHK)
    context_BLX = context_BLHK.reshape(*x_BLD.shape[:-1], -1)
    return self.out(context_BLX, x_BLD.shape[-1])

  def _gated(self, x_BLD, context_BLHK):
    # Else the layout of the output reaches back to it, and to the weights.
    context_BLHK = axes.constrain(
      context_BLHK, "batch", "length", "heads", "kv"
    )
    if self.gate is None:
      return context_BLHK
    gate_BLH = nn.sigmoid(self.gate(x_BLD, self.num_heads))
    return context_BLHK * gate_BLH[..., None]

  def _preceded(self, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM):
    """Returns what is attended to, with what a subclass puts before it."""
    return key_BMGK, value_BMGK, mask_B1LM, bias_1HLM

  def _draw_dropout(self, shape_BLM, dtype, deterministic):
    """Returns the draw that dropout multiplies the weights by, or None."""
    if deterministic or self.dropout.rate == 0.0:
      return None
    batch, length, memory = shape_BLM
    return self.dropout.described(
      (batch, self.num_heads, length, memory), dtype
    )

  def _attend_by_distance(
    self,
    query_BLHK,
    key_BMGK,
    value_BMGK,
    mask_B1LM,
    bias_1HLM,
    keep_BH1M,
    positions,
  ):
    """Returns the context [B, L, H, K] with what relative vectors add."""
    bias_BHLM = self.relative_vectors.scores(query_BLHK, positions)
    if bias_1HLM is not None:
      bias_BHLM += bias_1HLM
    weights_BHLM = dot_product.attention_weights(
      query_BLHK, key_BMGK, mask_B1LM, bias_BHLM, keep_BH1M
    )
    context_BLHK = dot_product.weighted_values(weights_BHLM, value_BMGK)
    return context_BLHK + self.relative_vectors.values(weights_BHLM, positions)

  def _heads(self, name: str, y: jax.Array, num_heads: int, of_itself):
    """Returns queries, keys or values, [B, L or M, heads, K].

    Args:
      name: "query", "key" or "value".
      y: what is projected.
      num_heads: The number of heads.
      of_itself: The mask and the state of decoding of attention to x itself,
        which `convolution` reads; None of a memory.
    """
    y = getattr(self, name)(y, num_heads * self.head_dim)
    if self.convolution is not None and of_itself is not None:
      y = self.convolution.copy(name=f"{name}_convolution")(y, **of_itself)
    y_BLHK = y.reshape(*y.shape[:-1], num_heads, self.head_dim)
    if self.norm is not None and name != "value":
      y_BLHK = self.norm.copy(name=f"{name}_norm")(y_BLHK)
    # A query needs the keys of all tokens, those of other devices too.
    length = "length" if name == "query" else None
    return axes.constrain(y_BLHK, "batch", length, "heads", "kv")


def _side_by_side(shape, own, of_memory, bias_1HLM):
  """Returns keys, values, mask and bias of x and of a memory behind them.

  Args:
    shape: That of the queries, which begins with B and L.
    own: The keys, the values and the mask of x, which may be None.
    of_memory: Likewise of the memory.
    bias_1HLM: The bias of the scores of x, or None.
  """
  keys, values, seen = zip(own, of_memory, strict=True)
  key_BXGK, value_BXGK = (jnp.concatenate(each, 1) for each in (keys, values))
  batch, length = shape[:2]
  mask_B1LX = jnp.concatenate(
    [
      jnp.broadcast_to(
        True if mask is None else masks.whole(mask),
        (batch, 1, length, key.shape[1]),
      )
      for mask, key in zip(seen, keys, strict=True)
    ],
    axis=-1,
  )
  if bias_1HLM is not None:
    further = ((0, 0), (0, 0), (0, 0), (0, of_memory[0].shape[1]))
    bias_1HLM = jnp.pad(bias_1HLM, further)
  return key_BXGK, value_BXGK, mask_B1LX, bias_1HLM


def _with_one_gradient(memory_BMD: jax.Array) -> jax.Array:
  """The memory, whose gradients by keys and values are added here.

  Otherwise the gradients of each layer are added in turn to the sum of the
  layers above it, and devices that share out the heads sum up both of them, not
  their sum.
  """
  if axes.partitions("heads") == 1:
    return memory_BMD
  return axes.constrain(memory_BMD, "batch", "length", "embed")
