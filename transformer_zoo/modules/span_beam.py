"""A head for questions: starts of an answer, and ends that depend on them.

XLNet (Yang et al. 2019; `get_qa_outputs` of zihangdai/xlnet, and
`XLNetForQuestionAnswering` of `transformers`) and ELECTRA (`qa_tasks.py` of
google-research/electra 8a46635): the first token has a softmax over the text,
the last one a softmax for each likely first token, and one logit says that the
question has no answer.
"""

from collections.abc import Mapping
from typing import ClassVar

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.modules import feed_forward
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.normalization import LayerNorm
from transformer_zoo.modules.parts import part

# The logit of a place at which no answer begins or ends.
NEVER = -1e9


def may_answer(batch: Mapping[str, jax.Array], real_BL: jax.Array) -> jax.Array:
  """Whether an answer may begin or end at a place, bool [B, L].

  At the places of the context and, for no answer, at the first one. Where the
  batch has no token types, at every place.

  Args:
    batch: what the converter `Encoder` lays out.
    real_BL: False at padding.
  """
  types_BL = batch.get("encoder_token_types")
  if types_BL is None:
    return real_BL
  first_1L = jnp.arange(types_BL.shape[1])[None] == 0
  return real_BL & ((types_BL == 1) | first_1L)


@gin.register
class SpanBeamLogits(nn.Module):
  """Logits of starts, of the ends for some starts, and of no answer.

  Attributes:
    num_starts: The number of starts for which there are ends.
    features: The width of the layers before the logits of ends and of no
      answer; the width of the vectors if None (XLNet), 512 in ELECTRA.
    activation: a key of `feed_forward.ACTIVATIONS`, or a function; XLNet's
      tanh.
    start_out: the projection to the logits of starts.
    end_dense, end_out: the projections to the logits of ends, of the vectors of
      a token and of the start.
    end_norm: the normalization between them, or None (ELECTRA).
    answer_dense, answer_out: the projections to the logit of no answer, of the
      vectors of the start and of the first token.
  """

  num_starts: int = 5
  features: int | None = None
  activation: feed_forward.Activation = "tanh"
  start_out: nn.Module = part(
    Linear, kernel_axes=("embed", None), use_bias=True
  )
  end_dense: nn.Module = part(
    Linear, kernel_axes=(None, "embed"), use_bias=True
  )
  end_norm: nn.Module | None = part(LayerNorm)
  end_out: nn.Module = part(Linear, kernel_axes=("embed", None), use_bias=True)
  answer_dense: nn.Module = part(
    Linear, kernel_axes=(None, "embed"), use_bias=True
  )
  answer_out: nn.Module = part(Linear, kernel_axes=("embed", None))

  reads_pooled: ClassVar[bool] = False

  def __post_init__(self):
    feed_forward.check_activation(self.activation)
    if self.num_starts < 1:
      raise UserError(
        f"SpanBeamLogits.num_starts is {self.num_starts}; it must be at least 1"
      )
    super().__post_init__()

  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    embedder: nn.Module,
    deterministic: bool,
    may_answer_BL: jax.Array | None = None,
    starts_B1: jax.Array | None = None,
  ) -> jax.Array:
    """The logits of each place.

    Args:
      x_BLD: the vectors of all places.
      embedder: not read.
      deterministic: no dropout; there is none.
      may_answer_BL: True where an answer may begin or end; all if None.
      starts_B1: The places where the answers begin, from which their ends are
        then predicted; None for the `num_starts` likeliest, the likeliest
        first, of equal ones the first.

    Returns:
      float32 [B, L, S + 2]: the logits of starts, of ends for each of the S
      starts, and of no answer, which are the same at all places.
    """
    del embedder, deterministic
    if may_answer_BL is None:
      may_answer_BL = jnp.ones(x_BLD.shape[:2], bool)
    start_BL = self.start_out(x_BLD, 1)[..., 0].astype(jnp.float32)
    start_BL = jnp.where(may_answer_BL, start_BL, NEVER)
    places_BS = starts_B1
    if starts_B1 is None:
      number = min(self.num_starts, x_BLD.shape[1])
      places_BS = jax.lax.top_k(start_BL, number)[1]
      share_BL = jax.nn.softmax(start_BL).astype(x_BLD.dtype)
      began_BD = jnp.einsum("BL,BLD->BD", share_BL, x_BLD)
    of_starts_BSD = jnp.take_along_axis(x_BLD, places_BS[..., None], axis=1)
    if starts_B1 is not None:
      began_BD = of_starts_BSD[:, 0]

    activation = feed_forward.activation(self.activation)
    width = self.features or x_BLD.shape[-1]
    shape = (*x_BLD.shape[:2], *of_starts_BSD.shape[1:])
    both_BLSE = jnp.concatenate(
      [
        jnp.broadcast_to(x_BLD[:, :, None], shape),
        jnp.broadcast_to(of_starts_BSD[:, None], shape),
      ],
      axis=-1,
    )
    y_BLSD = activation(self.end_dense(both_BLSE, width))
    if self.end_norm is not None:
      y_BLSD = self.end_norm(y_BLSD)
    end_BLS = self.end_out(y_BLSD, 1)[..., 0].astype(jnp.float32)
    end_BLS = jnp.where(may_answer_BL[..., None], end_BLS, NEVER)

    y_BD = jnp.concatenate([began_BD, x_BLD[:, 0]], axis=-1)
    y_BD = activation(self.answer_dense(y_BD, width))
    none_B1 = self.answer_out(y_BD, 1).astype(jnp.float32)
    none_BL1 = jnp.broadcast_to(none_B1[:, None], (*x_BLD.shape[:2], 1))
    return jnp.concatenate([start_BL[..., None], end_BLS, none_BL1], axis=-1)
