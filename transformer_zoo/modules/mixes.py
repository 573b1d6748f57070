"""Mixes of the states of a stack's layers.

For encoders that are not trained (Devlin et al. 2019, section 5.3: a tagger
over the concatenation of the last four layers comes near to fine-tuning), and
for decoders whose layers read all layers of an encoder.
"""

from collections.abc import Sequence

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.parts import part

KINDS = ("sum", "mean", "concatenation", "learned")


@gin.register
class LayerMix(nn.Module):
  """One vector of each token from its vectors in several layers.

  Attributes:
    layers: The numbers of the layers: 0 is what enters the first layer, -1 the
      last layer's output.
    kind: 'sum', 'mean', 'concatenation' [B, L, layers * D], or 'learned': a
      softmax of a weight for each layer, times a scale (Peters et al. 2018,
      equation 1), at first their mean.
  """

  layers: Sequence[int] = (-1,)
  kind: str = "sum"

  def __post_init__(self):
    if self.kind not in KINDS:
      raise UserError(
        f"unknown LayerMix.kind {self.kind!r}; allowed: {', '.join(KINDS)}"
      )
    super().__post_init__()

  @nn.compact
  def __call__(
    self, states: Sequence[jax.Array], *, deterministic: bool = True
  ) -> jax.Array:
    """Mixes states [B, L, D].

    Args:
      states: What enters the first layer, and the output of each.
      deterministic: Not used: there is no dropout.

    Raises:
      UserError: there is no such layer.
    """
    del deterministic
    for layer in self.layers:
      if not -len(states) <= layer < len(states):
        raise UserError(
          f"LayerMix.layers has {layer}, but the stack has {len(states) - 1} "
          f"layers; choose from 0, what enters them, to {len(states) - 1}"
        )
    chosen = [states[layer] for layer in self.layers]
    if self.kind == "concatenation":
      return jnp.concatenate(chosen, axis=-1)
    weights_N = jnp.ones(len(chosen), chosen[0].dtype)
    if self.kind == "mean":
      weights_N /= len(chosen)
    elif self.kind == "learned":
      scores_N = self._parameter("weights", nn.initializers.zeros, len(chosen))
      scale_1 = self._parameter("scale", nn.initializers.ones, 1)
      weights_N = (jax.nn.softmax(scores_N) * scale_1).astype(chosen[0].dtype)
    return sum(weights_N[i] * state_BLD for i, state_BLD in enumerate(chosen))

  def _parameter(self, name: str, init, size: int) -> jax.Array:
    return self.param(name, axes.partitioned(init, None), (size,), jnp.float32)


@gin.register
class MixOfEachLayer(nn.Module):
  """A mix of all states of an encoder for each layer of a decoder.

  Transparent attention (Bapna et al. 2018, section 4.1): a softmax over what
  enters the encoder and what each of its layers gives, of which the last is
  normalized, with weights for each layer of the decoder. As in Mesh
  TensorFlow, weights begin with deviation 1 / sqrt(states) and dropout is
  applied to them before the softmax.

  Attributes:
    num_layers: The number of layers of the decoder.
    dropout: Applied to the weights; axis 0 must be shared, so that all rows of
      a batch have one draw.
  """

  num_layers: int
  dropout: nn.Module = part(Dropout, broadcast_dims=(0,))

  @nn.compact
  def __call__(
    self, states: Sequence[jax.Array], *, deterministic: bool = True
  ) -> jax.Array:
    """Returns [B, N, L, D], what each of N layers reads.

    Args:
      states: What enters the first layer, and the output of each, [B, L, D].
      deterministic: no dropout.
    """
    number = len(states)
    weights_SN = self.param(
      "weights",
      axes.partitioned(nn.initializers.normal(number**-0.5), None, None),
      (number, self.num_layers),
      jnp.float32,
    )
    weights_SN = self.dropout(weights_SN[None], deterministic=deterministic)[0]
    weights_SN = jax.nn.softmax(weights_SN, axis=0).astype(states[0].dtype)
    return jnp.einsum("sbld,sn->bnld", jnp.stack(list(states)), weights_SN)
