"""Rotary positions (Su et al. 2021, RoFormer)."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo.errors import UserError


@gin.register
class Rotary(nn.Module):
  """Turns pairs of features of queries and keys by angles of their position.

  The score of a query and a key then depends on their distance alone. Pair i
  of n turns by theta^(-i / n) radians a position.

  Attributes:
    theta: base of the frequencies.
    interleaved: a pair is two neighbours (RoFormer, GPT-J); otherwise feature
      i goes with feature i + n (GPT-NeoX, LLaMA).
    rotated: The number of leading features that turn, even; all if None.
    stretch: pairs turn this many times slower, for texts that are this many
      times longer than those that the model knew (Chen et al. 2023).
    trained_length: The length of the texts of training, in tokens. If given,
      pairs that turn fewer times in it than the first of `partly_stretched` are
      stretched, those that turn more often than the second are not, and those
      between are partly (Llama 3.1).
    partly_stretched: The two numbers of turns that `trained_length` refers to.
    local_theta: The base of the frequencies in layers with a window, whose
      pairs are not stretched (ModernBERT, Gemma 3); None if all layers turn
      alike.
  """

  theta: float = 10000.0
  interleaved: bool = False
  rotated: int | None = None
  stretch: float = 1.0
  trained_length: int | None = None
  partly_stretched: tuple[float, float] = (1.0, 4.0)
  local_theta: float | None = None

  def __post_init__(self):
    least = {"theta": self.theta, "stretch": self.stretch}
    for name in ("trained_length", "local_theta"):
      if (value := getattr(self, name)) is not None:
        least[name] = value
    for name, value in least.items():
      if not value > 0:
        raise UserError(f"Rotary.{name} is {value}; it must be positive")
    fewest, most = self.partly_stretched
    if not fewest < most:
      raise UserError(
        f"Rotary.partly_stretched is {self.partly_stretched}; the first must "
        "be smaller than the second"
      )
    super().__post_init__()

  def __call__(
    self,
    x_BLHK: jax.Array,
    positions_1L: jax.Array,
    local: jax.Array | None = None,
  ) -> jax.Array:
    """Returns the turned [B, L, H, K] for positions [1 or B, L].

    Args:
      x_BLHK: queries or keys.
      positions_1L: The position of each.
      local: As in `Positions`.

    Raises:
      UserError: there is no even number of features to turn.
    """
    head_dim = x_BLHK.shape[-1]
    size = head_dim if self.rotated is None else self.rotated
    if size % 2 or not 0 < size <= head_dim:
      raise UserError(
        f"Rotary turns pairs: {size} of {head_dim} features cannot be; set "
        "Rotary.rotated to an even number up to the head's size"
      )
    frequencies = self.frequencies(size // 2)
    if self.local_theta is not None and local is not None:
      near = self.clone(
        theta=self.local_theta, stretch=1.0, trained_length=None, parent=None
      )
      frequencies = jnp.where(local, near.frequencies(size // 2), frequencies)
    turned = _turn(
      x_BLHK[..., :size].astype(jnp.float32),
      positions_1L,
      frequencies,
      self.interleaved,
    )
    return jnp.concatenate(
      [turned.astype(x_BLHK.dtype), x_BLHK[..., size:]], axis=-1
    )

  def frequencies(self, pairs: int) -> np.ndarray:
    """Returns the radians by which each pair turns at a position, float32.

    Rounded where published models round: at position 10,000 a step of float32
    is a thousandth of a radian.
    """
    exponents = np.arange(pairs, dtype=np.float32) / pairs
    powers = self.theta ** exponents.astype(np.float64)
    frequencies = 1 / powers.astype(np.float32)
    slow = frequencies / self.stretch
    if self.trained_length is None:
      return slow
    turns = self.trained_length * frequencies / (2 * np.pi)
    fewest, most = self.partly_stretched
    kept = np.clip((turns - fewest) / (most - fewest), 0, 1)
    return kept * frequencies + (1 - kept) * slow


def _turn(x_BLHK, positions_1L, frequencies, interleaved):
  half = x_BLHK.shape[-1] // 2
  angles_1LP = jnp.multiply.outer(positions_1L.astype(jnp.float32), frequencies)
  angles = angles_1LP[:, :, None]  # the same for all heads
  cos, sin = jnp.cos(angles), jnp.sin(angles)
  if interleaved:
    first, second = x_BLHK[..., 0::2], x_BLHK[..., 1::2]
  else:
    first, second = x_BLHK[..., :half], x_BLHK[..., half:]
  pair = first * cos - second * sin, second * cos + first * sin
  if interleaved:
    return jnp.stack(pair, axis=-1).reshape(x_BLHK.shape)
  return jnp.concatenate(pair, axis=-1)
