"""Dot-product attention and the kernels that compute it.

A kernel is an object that computes the same function in its own way:

  softmax(query key^T + bias, where the mask allows) * keep @ value

`Attention.kernel` binds one (gin_configs/parts/attention/kernels/): the
reference is here, `chunked.py` has one that needs less memory and one for CPUs,
and `kernels.py` the kernels of JAX's libraries and the choice among all.
"""

import abc
import dataclasses
from typing import ClassVar

import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.dropout import Draw
from transformer_zoo.modules.positions import Bias
from transformer_zoo.modules.positions import whole_bias

# Scores of masked pairs are replaced by it, so that a query without any key
# still has a finite softmax (T5X adds the same number).
MASKED_SCORE = -1e10


@jax.custom_vjp
def masked_softmax(
  scores_BHLM: jax.Array, mask_B1LM: jax.Array | None
) -> jax.Array:
  """Softmax over the keys that the mask allows; uniform where it allows none.

  The gradient is written from the weights alone, w * (g - sum(w * g)). JAX's
  own keeps the exponentials and their sums too and reads them again.
  """
  if mask_B1LM is not None:
    scores_BHLM = jnp.where(mask_B1LM, scores_BHLM, MASKED_SCORE)
  return jax.nn.softmax(scores_BHLM, axis=-1)


def _softmax_forward(scores_BHLM, mask_B1LM):
  weights_BHLM = masked_softmax(scores_BHLM, mask_B1LM)
  return weights_BHLM, (weights_BHLM, mask_B1LM)


def _softmax_backward(residuals, gradient_BHLM):
  weights_BHLM, mask_B1LM = residuals
  weighted_BHLM = weights_BHLM * gradient_BHLM
  total_BHL1 = jnp.sum(weighted_BHLM, axis=-1, keepdims=True)
  scores_gradient_BHLM = weighted_BHLM - weights_BHLM * total_BHL1
  if mask_B1LM is not None:
    scores_gradient_BHLM = jnp.where(mask_B1LM, scores_gradient_BHLM, 0.0)
  return scores_gradient_BHLM, None


masked_softmax.defvjp(_softmax_forward, _softmax_backward)


def attention_scores(query_BLHK: jax.Array, key_BMGK: jax.Array) -> jax.Array:
  """Returns the products of queries and keys, float32 [B, H, L, M].

  Of H query heads, H / G neighbours share a key head (grouped queries, Ainslie
  et al. 2023). Of a single row, B may be left out.
  """
  *batch, length, heads, head_dim = query_BLHK.shape
  groups = key_BMGK.shape[-2]
  if groups == heads:
    return jnp.einsum(
      "...lhk,...mhk->...hlm",
      query_BLHK,
      key_BMGK,
      preferred_element_type=jnp.float32,
    )
  # X heads of queries share a head of keys and values.
  query_BLGXK = query_BLHK.reshape(*batch, length, groups, -1, head_dim)
  scores_BGXLM = jnp.einsum(
    "...lgxk,...mgk->...gxlm",
    query_BLGXK,
    key_BMGK,
    preferred_element_type=jnp.float32,
  )
  return scores_BGXLM.reshape(*batch, heads, length, -1)


def attention_weights(
  query_BLHK: jax.Array,
  key_BMGK: jax.Array,
  mask_B1LM: jax.Array | None = None,
  bias_1HLM: jax.Array | None = None,
  keep_BH1M: jax.Array | None = None,
) -> jax.Array:
  """Returns the share of each key, [B, H, L, M], after dropout.

  The softmax is in float32, its result in the dtype of the queries.
  """
  scores_BHLM = attention_scores(query_BLHK, key_BMGK)
  return weights_of_scores(
    scores_BHLM, mask_B1LM, bias_1HLM, keep_BH1M, query_BLHK.dtype
  )


def weights_of_scores(
  scores_BHLM: jax.Array,
  mask_B1LM: jax.Array | None,
  bias_1HLM: jax.Array | None,
  keep_BH1M: jax.Array | None,
  dtype: jnp.dtype,
) -> jax.Array:
  """Returns the share of each key by its score; see `attention_weights`."""
  if bias_1HLM is not None:
    scores_BHLM += bias_1HLM
  weights_BHLM = masked_softmax(scores_BHLM, mask_B1LM)
  tracing.record_weights(weights_BHLM)
  weights_BHLM = weights_BHLM.astype(dtype)
  return weights_BHLM if keep_BH1M is None else weights_BHLM * keep_BH1M


def weighted_values(
  weights_BHLM: jax.Array, value_BMGK: jax.Array
) -> jax.Array:
  """Returns the sums of the values under the weights, [B, L, H, K].

  Of a single row, B may be left out.
  """
  *batch, heads, length, memory = weights_BHLM.shape
  groups = value_BMGK.shape[-2]
  if groups == heads:
    return jnp.einsum("...hlm,...mhk->...lhk", weights_BHLM, value_BMGK)
  weights_BGXLM = weights_BHLM.reshape(*batch, groups, -1, length, memory)
  context_BLGXK = jnp.einsum(
    "...gxlm,...mgk->...lgxk", weights_BGXLM, value_BMGK
  )
  return context_BLGXK.reshape(*batch, length, heads, -1)


def whole_groups(
  query_BLHK: jax.Array, key_BMGK: jax.Array, value_BMGK: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Returns keys and values of which each device has what its queries share.

  Where the devices divide the query heads but not the heads of keys and values,
  keys and values are repeated: there is one for each query head then.
  """
  groups = key_BMGK.shape[2]
  if groups == 1 or groups % axes.partitions("heads") == 0:
    return key_BMGK, value_BMGK
  shared_by = query_BLHK.shape[2] // groups
  key, value = (
    jnp.repeat(x, shared_by, axis=2) for x in (key_BMGK, value_BMGK)
  )
  return key, value


@dataclasses.dataclass(frozen=True)
class Problem:
  """The properties of an attention by which kernels decide if they serve.

  Attributes:
    shape: B, H, L, M of the scores.
    head_dim: K.
    dtype: The dtype of queries, keys and values.
    has_bias: whether something is added to the scores.
    dropout: whether attention weights are dropped in training.
    described: Whether what decides mask, bias and dropout is known, and no
      array of queries by keys has to be read.
    window: The constant number of tokens from which on a text does not see
      itself; None for any other attention.
  """

  shape: tuple[int, int, int, int]
  head_dim: int
  dtype: jnp.dtype
  has_bias: bool
  dropout: bool
  described: bool = False
  window: int | None = None


@dataclasses.dataclass(frozen=True)
class KernelChoice(abc.ABC):
  """The type of `Attention.kernel`: a kernel, or a rule that chooses one."""

  @abc.abstractmethod
  def choose(self, problem: Problem) -> tuple["Kernel", str]:
    """The kernel that serves, and why.

    Raises:
      UserError: there is none for the problem.
    """


@dataclasses.dataclass(frozen=True)
class Kernel(KernelChoice):
  """One way to compute dot-product attention.

  Attributes:
    reads_descriptions: Whether `attend` takes a mask, a bias and a draw as
      `masks.Mask`, `positions.Bias` and `dropout.Draw`, and not as arrays.
  """

  reads_descriptions: ClassVar[bool] = False

  def refusal(self, problem: Problem) -> str | None:
    """Why it cannot serve the problem, half a sentence; None if it can."""
    del problem
    return None

  def choose(self, problem: Problem) -> tuple["Kernel", str]:
    """Itself, as it is bound by name; see `KernelChoice`."""
    refusal = self.refusal(problem)
    if refusal is not None:
      raise UserError(
        f"Attention.kernel = @{type(self).__name__}() cannot serve this model: "
        f"{refusal}; bind @AutomaticAttention() or @ReferenceAttention()"
      )
    return self, "as bound"

  @abc.abstractmethod
  def attend(
    self,
    query_BLHK: jax.Array,
    key_BMGK: jax.Array,
    value_BMGK: jax.Array,
    mask_B1LM: jax.Array | None,
    bias_1HLM: jax.Array | None,
    keep_BH1M: jax.Array | None,
  ) -> jax.Array:
    """Returns [B, L, H, K]; arguments as of `dot_product_attention`."""


@gin.register
@dataclasses.dataclass(frozen=True)
class ReferenceAttention(Kernel):
  """Scores and weights as whole arrays [B, H, L, M]; serves everything."""

  def attend(
    self, query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  ):
    weights_BHLM = attention_weights(
      query_BLHK, key_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
    )
    return weighted_values(weights_BHLM, value_BMGK)


REFERENCE = ReferenceAttention()


def dot_product_attention(
  query_BLHK: jax.Array,
  key_BMGK: jax.Array,
  value_BMGK: jax.Array,
  *,
  mask_B1LM: jax.Array | masks.Mask | None = None,
  bias_1HLM: jax.Array | Bias | None = None,
  keep_BH1M: jax.Array | Draw | None = None,
  dropout: bool = False,
  kernel: KernelChoice = REFERENCE,
) -> jax.Array:
  """Attention of queries to keys and values (Vaswani et al. 2017, 3.2.1).

  Args:
    query_BLHK: queries, scaled by the caller where scores are.
    key_BMGK: keys, each of which H / G neighbouring heads share.
    value_BMGK: values.
    mask_B1LM: [1 or B, 1, L, M], True where a query may attend. A query that
      may attend to nothing attends to all alike, and has no gradient.
    bias_1HLM: [1 or B, H, L, M], float32, added to the scores.
    keep_BH1M: The factors of the weights that dropout drew, [B, H, 1 or L, M].
    dropout: whether the model drops weights when it is trained, even if
      nothing is dropped now: so that a kernel which cannot is refused early.
    kernel: The kernel, or the choice of one.

  Returns:
    [B, L, H, K].

  Raises:
    UserError: the kernel cannot serve the model.
  """
  batch, length, heads, head_dim = query_BLHK.shape
  problem = Problem(
    shape=(batch, heads, length, key_BMGK.shape[1]),
    head_dim=head_dim,
    dtype=query_BLHK.dtype,
    has_bias=bias_1HLM is not None,
    dropout=dropout or keep_BH1M is not None,
    described=(
      isinstance(mask_B1LM, masks.Mask | None)
      and isinstance(bias_1HLM, Bias | None)
      and (isinstance(keep_BH1M, Draw | None) or keep_BH1M.shape[2] == 1)
    ),
    window=mask_B1LM.window if isinstance(mask_B1LM, masks.Mask) else None,
  )
  serving, reason = kernel.choose(problem)
  tracing.record_choice(
    f"attention of {length} to {key_BMGK.shape[1]} tokens: {serving}, {reason}"
  )
  if not serving.reads_descriptions:
    mask_B1LM, bias_1HLM = masks.whole(mask_B1LM), whole_bias(bias_1HLM)
    if isinstance(keep_BH1M, Draw):
      keep_BH1M = keep_BH1M.array()
  return serving.attend(
    query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  )


def pad_axis(x: jax.Array, axis: int, amount: int) -> jax.Array:
  """Returns x with zeros (False) after the end of an axis."""
  widths = [(0, amount if i == axis else 0) for i in range(x.ndim)]
  return jnp.pad(x, widths) if amount else x
