"""Recurrent layers over vectors that an encoder has made."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes


@gin.register
class BiLstm(nn.Module):
  """Layers of LSTMs in both directions, whose states are concatenated.

  The tagger over a frozen BERT has two layers of 768 (Devlin et al. 2019,
  section 5.3). Places whose vector is 0 are padding behind the text; packed
  texts are not told apart.

  Attributes:
    features: The width of each direction.
    num_layers: The number of layers.
  """

  features: int = 768
  num_layers: int = 2

  @nn.compact
  def __call__(self, x_BLD: jax.Array) -> jax.Array:
    """Maps [B, L, D] to [B, L, 2 * features]."""
    lengths_B = jnp.sum(jnp.any(x_BLD != 0, axis=-1), axis=1)
    for i in range(self.num_layers):
      forward, backward = (
        nn.RNN(
          nn.OptimizedLSTMCell(
            self.features,
            # Flax's distributions, on every device whole.
            kernel_init=axes.partitioned(
              nn.initializers.lecun_normal(), None, None
            ),
            recurrent_kernel_init=axes.partitioned(
              nn.initializers.orthogonal(), None, None
            ),
            bias_init=axes.partitioned(nn.initializers.zeros, None),
            name=f"{direction}_{i}",
          ),
          reverse=direction == "backward",
          keep_order=True,
        )(x_BLD, seq_lengths=lengths_B)
        for direction in ("forward", "backward")
      )
      x_BLD = jnp.concatenate([forward, backward], axis=-1)
    return x_BLD
