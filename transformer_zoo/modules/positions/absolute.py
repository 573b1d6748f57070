"""Positions as vectors that are added to the embeddings."""

from collections.abc import Callable

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import embedding
from transformer_zoo.modules import initializers


def sinusoids(
  positions: jax.Array,
  features: int,
  *,
  interleaved: bool = True,
  reach_longest: bool = False,
) -> jax.Array:
  """Sines and cosines of positions, float32 [..., features].

  Wave i of n = features / 2 has wavelength 2 pi * 10000^(i / n) (Vaswani et al.
  2017, section 3.5).

  Args:
    positions: [...].
    features: The number of features of a position, even.
    interleaved: sine and cosine of a wave side by side, as in the paper;
      otherwise all sines come first, as in most code (tensor2tensor, Marian).
    reach_longest: wavelengths go by i / (n - 1), so that the longest is 2 pi *
      10000 (tensor2tensor's `get_timing_signal_1d`, fairseq).
  """
  waves = features // 2
  steps = max(waves - 1, 1) if reach_longest else waves
  both = _sine_and_cosine(positions, 10000.0 ** (-np.arange(waves) / steps))
  if interleaved:
    return jnp.stack(both, axis=-1).reshape(*positions.shape, features)
  return jnp.concatenate(both, axis=-1)


def _sine_and_cosine(positions, frequencies):
  """Sine and cosine of positions * frequencies, float32 [..., frequencies].

  A float32 product at position 1,000 is wrong by 3e-5 radians. Published tables
  were computed in float64; so here a frequency is a number of 12 bits, whose
  products with positions up to 4,095 are exact, and a small rest.
  """
  mantissas, exponents = np.frexp(frequencies)
  coarse = np.ldexp(np.round(mantissas * 4096) / 4096, exponents)
  angles, rests = (
    jnp.multiply.outer(positions.astype(jnp.float32), part.astype(np.float32))
    for part in (coarse, frequencies - coarse)
  )
  sine, cosine = jnp.sin(angles), jnp.cos(angles)
  sine_of_rest, cosine_of_rest = jnp.sin(rests), jnp.cos(rests)
  return (
    sine * cosine_of_rest + cosine * sine_of_rest,
    cosine * cosine_of_rest - sine * sine_of_rest,
  )


@gin.register
class SinusoidalPositions(nn.Module):
  """Fixed sines and cosines; any length.

  Attributes:
    features: d_model, even.
    interleaved, reach_longest: The options of `sinusoids`; the paper's by
      default.
  """

  features: int
  interleaved: bool = True
  reach_longest: bool = False

  def __post_init__(self):
    if self.features % 2:
      raise UserError(
        f"SinusoidalPositions.features is {self.features}; sines and cosines "
        "come in pairs, so it must be even"
      )
    super().__post_init__()

  def __call__(self, positions_BL: jax.Array) -> jax.Array:
    """Returns float32 [B, L, D]."""
    return sinusoids(
      positions_BL,
      self.features,
      interleaved=self.interleaved,
      reach_longest=self.reach_longest,
    )


@gin.register
class LearnedPositions(nn.Module):
  """A learned vector for each position (Gehring et al. 2017; BERT, GPT).

  Attributes:
    num_positions: the longest sequence, in tokens.
    features: d_model.
    embedding_init: distribution of the table.
    offset: The number of rows before the row of the first position; RoBERTa and
      BART have two, for ids of padding, which no token has.
    longest_example: the most tokens of an example where a row has several, with
      positions of their own, and may be longer than the table; None if rows are
      examples.
  """

  num_positions: int
  features: int
  embedding_init: Callable = initializers.unit_normal
  offset: int = 0
  longest_example: int | None = None

  @nn.compact
  def __call__(self, positions_BL: jax.Array) -> jax.Array:
    """Returns float32 [B, L, D].

    Raises:
      UserError: the sequence is longer than the table.
    """
    length = positions_BL.shape[-1]
    longest = min(length, self.longest_example or length)
    if longest > self.num_positions:
      raise UserError(
        f"a sequence of {longest} tokens has no learned "
        f"position beyond LearnedPositions.num_positions={self.num_positions}; "
        "shorten TASK_FEATURE_LENGTHS or raise num_positions"
      )
    table_PD = self.param(
      "pos_embedding",
      axes.partitioned(self.embedding_init, "abspos_buckets", "embed"),
      (self.num_positions + self.offset, self.features),
      jnp.float32,
    )
    return embedding.look_up(table_PD, positions_BL + self.offset)
