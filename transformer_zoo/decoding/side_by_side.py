"""A decoder whose sublayers are two halves, for processors.

A step of decoding is a chain of small products, and XLA on a processor computes
most of them on one core. Attention adds a sum over its heads, a feed-forward
network one over its hidden features: so half of each can be computed beside the
other half, as tensor parallelism does it on two devices (Shoeybi et al. 2019,
section 3).
"""

from collections.abc import Mapping
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp

from transformer_zoo.modules import target
from transformer_zoo.modules.attention import Attention
from transformer_zoo.modules.feed_forward import GatedMlp
from transformer_zoo.modules.feed_forward import Mlp

_HALVES = range(2)
# Projections out of a sublayer; the others lead into its heads or features.
_OUT = ("out", "wo")
# Of the largest kernel of a half, those of T5.1.1-small's attention. Products
# of much smaller ones XLA computes one after the other, independent or not.
_FEWEST_NUMBERS = 512 * 192


class SideBySide(nn.Module):
  """The sum of two halves of a sublayer.

  Attributes:
    half: either of them; their parameters are `half_0` and `half_1`.
  """

  half: nn.Module

  @nn.compact
  def __call__(
    self, *arguments, bias_1HLM: jax.Array | None = None, **keywords
  ) -> jax.Array:
    """Arguments are those of the sublayer; a bias is that of all heads."""
    outputs = []
    for i in _HALVES:
      if bias_1HLM is not None:
        keywords["bias_1HLM"] = _half_of(bias_1HLM, i, axis=1)
      half = self.half.copy(name=f"half_{i}")
      outputs.append(half(*arguments, **keywords))
    return sum(outputs[1:], outputs[0])


def halved(
  model: nn.Module, params: Mapping[str, Any]
) -> tuple[nn.Module, Mapping[str, Any]]:
  """A model that decodes as another does, side by side, and its parameters.

  Sublayers that cannot be halved stay whole, and so does all of a model that
  scans its layers, that is on several devices, or not on a processor.

  Args:
    model: an architecture.
    params: its parameters.
  """
  stack = model.decoder.stack
  if stack.scan or target.platform() != "cpu" or _num_devices() > 1:
    return model, params
  of_decoder = dict(params["decoder"])
  layers = [name for name in of_decoder if name.startswith("layers_")]
  halves = {
    name: SideBySide(half)
    for name, parameters in of_decoder[layers[0]].items()
    if (half := _half(getattr(stack.layer, name, None), parameters))
  }
  for name in layers:
    of_halves = {
      sublayer: _half_parameters(of_decoder[name][sublayer])
      for sublayer in halves
    }
    of_decoder[name] = {**of_decoder[name], **of_halves}
  stack = stack.clone(layer=stack.layer.clone(**halves))
  return (
    model.clone(decoder=model.decoder.clone(stack=stack)),
    {**params, "decoder": of_decoder},
  )


def _num_devices() -> int:
  mesh = jax.sharding.get_abstract_mesh()
  return 1 if mesh.empty else mesh.size


def _half(
  sublayer: nn.Module | None, parameters: Mapping[str, Any]
) -> nn.Module | None:
  """A sublayer of half the width; None where it stays whole."""
  if not isinstance(sublayer, Attention | Mlp | GatedMlp):
    return None
  # Biases and vectors by distance are no projections, and not divided here.
  if any("kernel" not in linear for linear in parameters.values()):
    return None
  largest = max(linear["kernel"].size for linear in parameters.values())
  if largest < len(_HALVES) * _FEWEST_NUMBERS:
    return None
  if isinstance(sublayer, Attention):
    shared = sublayer.num_kv_heads or sublayer.num_heads
    half = {"num_heads": sublayer.num_heads // 2, "num_kv_heads": shared // 2}
  else:
    shared = sublayer.d_ff
    half = {"d_ff": sublayer.d_ff // 2}
  return None if shared % 2 else sublayer.clone(**half)


def _half_parameters(whole: Mapping[str, Any]) -> dict[str, Any]:
  return {
    f"half_{i}": {
      name: _half_projection(name, linear, i) for name, linear in whole.items()
    }
    for i in _HALVES
  }


def _half_projection(name: str, linear: Mapping[str, jax.Array], i: int):
  if name not in _OUT:
    return {key: _half_of(array, i, axis=-1) for key, array in linear.items()}
  half = {"kernel": _half_of(linear["kernel"], i, axis=0)}
  if "bias" in linear:  # Once in the sum.
    half["bias"] = linear["bias"] if i == 0 else jnp.zeros_like(linear["bias"])
  return half


def _half_of(array: jax.Array, i: int, axis: int) -> jax.Array:
  return jnp.split(array, len(_HALVES), axis)[i]
