"""Connections of a layer's sublayers with the residual stream.

A connection takes x and the sublayers by name, in their order, and is a choice
of where to normalize: `norm(name)` makes a normalization of that name. Scalars
of its own lie beside the norms in the parameters of the layer.
"""

from collections.abc import Callable, Mapping
import dataclasses

import gin
import jax

from transformer_zoo.modules import scalars

Function = Callable[[jax.Array], jax.Array]
Sublayers = Mapping[str, Function]

_SCALE = scalars.Scale(initial=1.0)
_SCALE_FROM_ZERO = scalars.Scale(initial=0.0)
_SHIFT = scalars.Shift()


@gin.register(module="connections")
def pre_norm(
  x: jax.Array,
  sublayers: Sublayers,
  *,
  norm: Callable[[str], Function],
  dropout: Function,
) -> jax.Array:
  """Adds dropout(sublayer(norm(x))) to x: T5, GPT-2."""
  for name, sublayer in sublayers.items():
    x = x + dropout(sublayer(norm(f"pre_{name}_layer_norm")(x)))
  return x


@gin.register(module="connections")
@dataclasses.dataclass(frozen=True)
class PreNormOfDepth:
  """As `pre_norm`, with a number before every sublayer.

  CompleteP (Dey et al. 2025, section 3): the number falls with the depth.

  Attributes:
    multiplier: The number.
  """

  multiplier: float

  def __call__(
    self,
    x: jax.Array,
    sublayers: Sublayers,
    *,
    norm: Callable[[str], Function],
    dropout: Function,
  ) -> jax.Array:
    """Adds multiplier * dropout(sublayer(norm(x))) to x."""

    def scaled(y):
      return self.multiplier * dropout(y)

    return pre_norm(x, sublayers, norm=norm, dropout=scaled)


@gin.register(module="connections")
def pre_norm_after_norm(
  x: jax.Array,
  sublayers: Sublayers,
  *,
  norm: Callable[[str], Function],
  dropout: Function,
) -> jax.Array:
  """As `pre_norm`, but the first sublayer reads x, which is normalized.

  The first layer of ModernBERT (Warner et al. 2024).
  """
  for index, (name, sublayer) in enumerate(sublayers.items()):
    y = x if index == 0 else norm(f"pre_{name}_layer_norm")(x)
    x = x + dropout(sublayer(y))
  return x


@gin.register(module="connections")
def post_norm(
  x: jax.Array,
  sublayers: Sublayers,
  *,
  norm: Callable[[str], Function],
  dropout: Function,
) -> jax.Array:
  """Makes x norm(x + dropout(sublayer(x))): Transformer of 2017, BERT."""
  for name, sublayer in sublayers.items():
    x = norm(f"post_{name}_layer_norm")(x + dropout(sublayer(x)))
  return x


@gin.register(module="connections")
def residual_post_norm(
  x: jax.Array,
  sublayers: Sublayers,
  *,
  norm: Callable[[str], Function],
  dropout: Function,
) -> jax.Array:
  """Adds dropout(norm(sublayer(x))) to x: the residual stream stays as it is.

  "Res-post-norm" of Swin Transformer v2 (Liu et al. 2022).
  """
  for name, sublayer in sublayers.items():
    x = x + dropout(norm(f"post_{name}_layer_norm")(sublayer(x)))
  return x


@gin.register(module="connections")
def sandwich_norm(
  x: jax.Array,
  sublayers: Sublayers,
  *,
  norm: Callable[[str], Function],
  dropout: Function,
) -> jax.Array:
  """Adds dropout(norm(sublayer(norm(x)))) to x: CogView (Ding et al. 2021)."""
  for name, sublayer in sublayers.items():
    y = sublayer(norm(f"pre_{name}_layer_norm")(x))
    x = x + dropout(norm(f"post_{name}_layer_norm")(y))
  return x


@gin.register(module="connections")
def parallel(
  x: jax.Array,
  sublayers: Sublayers,
  *,
  norm: Callable[[str], Function],
  dropout: Function,
) -> jax.Array:
  """Adds all sublayers of one norm(x) to x: GPT-J, PaLM."""
  y = norm("pre_layer_norm")(x)
  return x + sum(dropout(sublayer(y)) for sublayer in sublayers.values())


@gin.register(module="connections")
def parallel_norms(
  x: jax.Array,
  sublayers: Sublayers,
  *,
  norm: Callable[[str], Function],
  dropout: Function,
) -> jax.Array:
  """Adds all sublayers to x, each of a norm(x) of its own: GPT-NeoX."""
  return x + sum(
    dropout(sublayer(norm(f"pre_{name}_layer_norm")(x)))
    for name, sublayer in sublayers.items()
  )


@gin.register(module="connections")
def rezero(
  x: jax.Array,
  sublayers: Sublayers,
  *,
  norm: Callable[[str], Function],
  dropout: Function,
) -> jax.Array:
  """Adds dropout(sublayer(x)) to x, times a number that begins at 0.

  ReZero (Bachlechner et al. 2021, section 3) without a norm: each layer begins
  as the identity.
  """
  del norm
  for name, sublayer in sublayers.items():
    scale = _SCALE_FROM_ZERO.copy(name=f"{name}_scale")
    x = x + scale(dropout(sublayer(x)))
  return x


@gin.register(module="connections")
def rezero_pre_norm(
  x: jax.Array,
  sublayers: Sublayers,
  *,
  norm: Callable[[str], Function],
  dropout: Function,
) -> jax.Array:
  """Adds dropout(sublayer(norm(x))) to x, times a number that begins at 0.

  ReZero with a norm (Narang et al. 2021, table 1).
  """
  for name, sublayer in sublayers.items():
    scale = _SCALE_FROM_ZERO.copy(name=f"{name}_scale")
    y = sublayer(norm(f"pre_{name}_layer_norm")(x))
    x = x + scale(dropout(y))
  return x


@gin.register(module="connections")
def fixup(
  x: jax.Array,
  sublayers: Sublayers,
  *,
  norm: Callable[[str], Function],
  dropout: Function,
) -> jax.Array:
  """Adds scale * dropout(sublayer(x + shift)) to x, both of them numbers.

  Fixup (Zhang et al. 2019, section 3; `fixup_layers.py` of Mesh TensorFlow)
  without a norm; the scale begins at 1 and the shift at 0.
  """
  del norm
  for name, sublayer in sublayers.items():
    y = sublayer(_SHIFT.copy(name=f"pre_{name}_shift")(x))
    x = x + _SCALE.copy(name=f"{name}_scale")(dropout(y))
  return x
