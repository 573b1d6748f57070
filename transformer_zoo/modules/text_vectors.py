"""Vectors of texts, and what is learned beside them.

`TextVectors` makes one vector of the hidden states of each text of a row, as
Sentence-BERT (Reimers and Gurevych 2019), SimCSE (Gao et al. 2021) and
Sentence-T5 (Ni et al. 2022) do; `heads/embedding.gin` puts it among the heads
of an encoder. The two other heads read these vectors.
"""

import math
from typing import ClassVar

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part

HIGHEST = jax.lax.Precision.HIGHEST
POOLS = ("first", "mean", "last")
# The norm of a vector that is taken for 0, PyTorch's `normalize`'s epsilon.
_LEAST_NORM = 1e-12


def unit(x: jax.Array) -> jax.Array:
  """Returns vectors [..., E] over their norms; 0, and no gradient, for 0."""
  squares = jnp.sum(jnp.square(x), axis=-1, keepdims=True)
  found = x * jax.lax.rsqrt(jnp.maximum(squares, _LEAST_NORM**2))
  return jnp.where(squares > _LEAST_NORM**2, found, 0.0)


def pooled(
  x_BLD: jax.Array, texts_BL: jax.Array, pool: str, num_texts: int
) -> jax.Array:
  """Returns the vectors of the texts of each row, float32 [B, T, D].

  Args:
    x_BLD: The hidden states.
    texts_BL: The number of the text of each token, from 1 on, 0 at padding.
    pool: "first" or "last" for the token of a text there, special ones too;
      "mean" for the mean over all of its tokens.
    num_texts: T. A text that is not there has the vector 0.
  """
  numbers_T = jnp.arange(1, num_texts + 1)
  is_of_BTL = texts_BL[:, None] == numbers_T[None, :, None]
  count_BTL = jnp.cumsum(is_of_BTL, axis=-1)
  number_BT1 = count_BTL[..., -1:]
  if pool == "mean":
    weights_BTL = is_of_BTL / jnp.maximum(number_BT1, 1)
  else:
    chosen_BT1 = 1 if pool == "first" else number_BT1
    weights_BTL = is_of_BTL & (count_BTL == chosen_BT1)
  return jnp.einsum(
    "btl,bld->btd",
    weights_BTL.astype(jnp.float32),
    x_BLD.astype(jnp.float32),
    precision=HIGHEST,
  )


@gin.register
class TextVectors(nn.Module):
  """A vector of each text: normalize(projection(pool(hidden states))).

  Attributes:
    pool: "first", "mean" or "last", as of `pooled`. The first output of a
      decoder that reads the text is "first" too (`parts/decoder_vectors.gin`).
    projection: A `Pooler` that goes over the pooled vectors, or None.
    projects_in_training_only: Whether the projection is left out where there is
      no dropout, as in SimCSE without labels (Gao et al. 2021, section 3).
    normalize: Whether a vector is divided by its norm.
  """

  pool: str = "mean"
  projection: nn.Module | None = None
  projects_in_training_only: bool = False
  normalize: bool = False

  reads_pooled: ClassVar[bool] = False

  def __post_init__(self):
    if self.pool not in POOLS:
      raise UserError(
        f"TextVectors.pool is {self.pool!r}; it must be one of "
        f"{', '.join(map(repr, POOLS))}"
      )
    super().__post_init__()

  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    embedder: nn.Module | None,
    deterministic: bool,
    texts_BL: jax.Array | None = None,
    num_texts: int = 1,
  ) -> jax.Array:
    """Returns the vectors of the texts of each row, float32 [B, T, E].

    Args:
      x_BLD: The hidden states, 0 at padding.
      embedder: Not read.
      deterministic: Whether there is no dropout.
      texts_BL: The number of the text of each token, from 1 on, 0 at padding;
        None for one text without padding in each row.
      num_texts: T, the most texts of a row.
    """
    del embedder
    if texts_BL is None:
      texts_BL = jnp.ones(x_BLD.shape[:2], jnp.int32)
    x_BTD = pooled(x_BLD, texts_BL, self.pool, num_texts)
    projects = self.projection is not None
    if self.projects_in_training_only and deterministic:
      projects &= self.is_initializing()
    x_BTE = self.projection(x_BTD) if projects else x_BTD
    return unit(x_BTE) if self.normalize else x_BTE


@gin.register
class LearnedTemperature(nn.Module):
  """A temperature that is learned by its logarithm (CLIP: Radford et al. 2021).

  Attributes:
    initial: The temperature before training, 0.07 in CLIP.
    least: The bound below, so that no logit is multiplied by more than 100.
  """

  initial: float = 0.07
  least: float = 0.01

  reads_pooled: ClassVar[bool] = False

  def __post_init__(self):
    if not 0 < self.least <= self.initial:
      raise UserError(
        f"LearnedTemperature.initial is {self.initial} and least {self.least}; "
        "both have to be above 0, and the first is not the smaller one"
      )
    super().__post_init__()

  @nn.compact
  def __call__(
    self, x: jax.Array, *, embedder: nn.Module | None, deterministic: bool
  ) -> jax.Array:
    """Returns the temperature, float32 [1, 1, 1]; no argument is read."""
    del x, embedder, deterministic
    start = nn.initializers.constant(math.log(self.initial))
    logarithm_1 = self.param(
      "log_temperature", axes.partitioned(start, None), (1,), jnp.float32
    )
    return jnp.maximum(jnp.exp(logarithm_1), self.least).reshape(1, 1, 1)


@gin.register
class PairClassLogits(nn.Module):
  """Logits of the class of two texts, from their vectors u and v.

  out([u; v; |u - v|]), Sentence-BERT's objective of classification (Reimers and
  Gurevych 2019, section 3). The vectors have the width of the model.

  Attributes:
    num_classes: K.
    out: The projection to the classes, without a bias in the authors' code.
  """

  num_classes: int = 3
  out: nn.Module = part(Linear, kernel_axes=("embed", None))

  reads_pooled: ClassVar[bool] = False

  def __call__(
    self, x_BTE: jax.Array, *, embedder: nn.Module | None, deterministic: bool
  ) -> jax.Array:
    """Returns float32 logits [B, 1, K] of the first and the last vector."""
    del embedder, deterministic
    u_B1E, v_B1E = x_BTE[:, :1], x_BTE[:, -1:]
    features = [u_B1E, v_B1E, jnp.abs(u_B1E - v_B1E)]
    logits = self.out(jnp.concatenate(features, axis=-1), self.num_classes)
    return logits.astype(jnp.float32)
