"""Recurrent layers: over vectors that an encoder has made, and in a stack."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import cache
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part


@gin.register
class BiLstm(nn.Module):
  """Layers of LSTMs in both directions, whose states are concatenated.

  The tagger over a frozen BERT has two layers of 768 (Devlin et al. 2019,
  section 5.3). Places whose vector is 0 are padding behind the text; packed
  texts are not distinguished.

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


@gin.register
class LstmLayer(nn.Module):
  """An LSTM in the place of a layer of a `Stack`, read from left to right.

  out(h), where h is the state of an LSTM (Hochreiter and Schmidhuber 1997 with
  forget gates; the gates stand in PyTorch's order: input, forget, cell,
  output). A text begins where a token does not see the one before it, so that
  the mask of attention separates packed texts, and padding from a prompt. While
  decoding, the state after a token is what the cache keeps.

  ELMo's layers (Peters et al. 2018, section 3.4; `ElmoLstm` of AllenNLP) have
  all of what `projected`, `clip`, `forget_bias` and `residual` are.

  Attributes:
    features: The number of units.
    input: From what enters to the gates; its bias is theirs.
    recurrent: From the state before to the gates.
    out: From the state to the width of the stack.
    dropout: applied to the output.
    projected: Whether what `out` makes is the state that the next token reads
      (Sak et al. 2014), and not made of the states afterwards.
    clip: The largest absolute value of a cell, and of a projected state; None
      for any.
    forget_bias: Added to the forget gates.
    residual: Whether what enters is added to the output.
  """

  features: int
  input: nn.Module = part(Linear, use_bias=True)
  recurrent: nn.Module = part(Linear, kernel_axes=(None, "mlp"))
  out: nn.Module = part(Linear, kernel_axes=("mlp", "embed"))
  dropout: nn.Module = part(Dropout)
  projected: bool = False
  clip: float | None = None
  forget_bias: float = 0.0
  residual: bool = False

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    encoded_BMD: jax.Array | None = None,
    *,
    mask_B1LM: jax.Array | masks.Mask,
    deterministic: bool,
    decoding: cache.Decoding | None = None,
    **of_attention,
  ) -> jax.Array:
    """Returns [B, L, D].

    Args:
      x_BLD: what enters; while decoding, the tokens of L outputs.
      encoded_BMD: None: there is no attention to an encoder.
      mask_B1LM: True where a token sees another, causal.
      deterministic: no dropout.
      decoding: Where decoding stands, if it does.
      **of_attention: what layers with attention read besides.

    Raises:
      UserError: There is an encoder.
    """
    del of_attention
    if encoded_BMD is not None:
      raise UserError(
        "LstmLayer attends to no encoder; use parts/lstm.gin after a "
        "decoder-only architecture, as architectures/lm.gin"
      )
    gates_BLX = self.input(x_BLD, 4 * self.features)
    if decoding is not None and decoding.position is not None:
      cell_BLF, state_BLF = self._step(gates_BLX, *self._kept(decoding))
      self._keep(cell_BLF, state_BLF)
    else:
      starts_BL = _starts(masks.whole(mask_B1LM), x_BLD.shape)
      width = x_BLD.shape[-1] if self.projected else self.features
      cell_BLF, state_BLF = self._read(gates_BLX, starts_BL, width)
      if decoding is not None:
        self._keep_prompt(cell_BLF, state_BLF, decoding)
    y_BLD = state_BLF.astype(x_BLD.dtype)
    if not self.projected:
      y_BLD = self.out(y_BLD, x_BLD.shape[-1])
    y_BLD = self.dropout(y_BLD, deterministic=deterministic)
    return x_BLD + y_BLD if self.residual else y_BLD

  def _step(self, gates_X, cell_F, state_F) -> tuple[jax.Array, jax.Array]:
    """The state after a token, float32, with any leading axes."""
    dtype = gates_X.dtype
    of_state_X = self.recurrent(state_F.astype(dtype), gates_X.shape[-1])
    gates_X = (gates_X + of_state_X).astype(jnp.float32)
    enter_F, forget_F, new_F, leave_F = jnp.split(gates_X, 4, axis=-1)
    cell_F = nn.sigmoid(forget_F + self.forget_bias) * cell_F
    cell_F += nn.sigmoid(enter_F) * jnp.tanh(new_F)
    cell_F = self._clipped(cell_F)
    output_F = nn.sigmoid(leave_F) * jnp.tanh(cell_F)
    if not self.projected:
      return cell_F, output_F
    projected_D = self.out(output_F.astype(dtype), state_F.shape[-1])
    return cell_F, self._clipped(projected_D.astype(jnp.float32))

  def _clipped(self, x: jax.Array) -> jax.Array:
    return x if self.clip is None else jnp.clip(x, -self.clip, self.clip)

  def _read(
    self, gates_BLX, starts_BL, width: int
  ) -> tuple[jax.Array, jax.Array]:
    """The cells [B, L, F] and states [B, L, width] after each token."""

    def step(layer, carry, token):
      gates_BX, starts_B = token
      cell_BF, state_BF = (
        jnp.where(starts_B[:, None], 0.0, each_BF) for each_BF in carry
      )
      carry = layer._step(gates_BX, cell_BF, state_BF)
      return carry, carry

    zeros = tuple(
      jnp.zeros((gates_BLX.shape[0], size), jnp.float32)
      for size in (self.features, width)
    )
    _, states = nn.scan(
      step,
      variable_broadcast="params",
      split_rngs={"params": False},
      in_axes=1,
      out_axes=1,
    )(self, zeros, (gates_BLX, starts_BL))
    return states

  def _keep_prompt(self, cell_BLF, state_BLF, decoding) -> None:
    """Keeps the state before the prompt's last token, which is fed again.

    There is none where padding stands before that token.
    """
    for name, each_BLF in (("cell", cell_BLF), ("state", state_BLF)):
      before_B1F = each_BLF[:, decoding.prompt_slots - 1][:, None]
      if not decoding.prompt_slots:
        before_B1F = jnp.zeros_like(before_B1F)
      else:
        is_text_B11 = decoding.prompt_BP[:, -1][:, None, None]
        before_B1F = jnp.where(is_text_B11, before_B1F, 0.0)
      shape = (each_BLF.shape[0], decoding.width, each_BLF.shape[-1])
      self.put_variable("cache", name, jnp.broadcast_to(before_B1F, shape))

  def _kept(self, decoding) -> list[jax.Array]:
    """The states that the outputs continue, [B, W, F]."""
    kept = [self.get_variable("cache", name) for name in ("cell", "state")]
    return [cache.continued(each_BWF, decoding) for each_BWF in kept]

  def _keep(self, cell_BWF, state_BWF) -> None:
    self.put_variable("cache", "cell", cell_BWF)
    self.put_variable("cache", "state", state_BWF)


def _starts(mask_B1LM: jax.Array, shape: tuple[int, ...]) -> jax.Array:
  """True where a token does not see the one before it, [B, L]."""
  rows, length = shape[:2]
  sees_BL = jnp.diagonal(mask_B1LM[:, 0], -1, axis1=1, axis2=2)
  starts_BL = jnp.pad(~sees_BL, ((0, 0), (1, 0)), constant_values=True)
  return jnp.broadcast_to(starts_BL, (rows, length))
