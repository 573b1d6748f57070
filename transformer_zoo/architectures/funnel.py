"""The Funnel Transformer as the encoder of an encoder-decoder.

Dai et al. 2020, appendix A.3, and Narang et al. 2021: an encoder whose states
are pooled (modules/stacks/funnel.py), and a decoder that attends to what is
left.
"""

import gin
import jax

from transformer_zoo.architectures.encoder_decoder import EncoderDecoder
from transformer_zoo.errors import UserError
from transformer_zoo.modules import parts
from transformer_zoo.modules.stacks.funnel import FunnelStack


class FunnelEncoderDecoder(EncoderDecoder):
  """An `EncoderDecoder` whose encoder gives fewer states than it reads tokens.

  Rows hold one text each: a mean would mix neighbouring texts.
  """

  def __post_init__(self):
    stack = self.encoder and self.encoder.layer_stack
    if not isinstance(stack, FunnelStack):
      raise UserError(
        "funnel_encoder_decoder.model has no encoder that pools; bind "
        "encoder/Transformer.layer_stack = @funnel_stack() "
        "(parts/stacks/funnel.gin), and another encoder than the decoder"
      )
    super().__post_init__()

  def encode(
    self,
    encoder_input_tokens: jax.Array,
    *,
    encoder_segment_ids: jax.Array | None = None,
    **keywords,
  ) -> jax.Array:
    """Encodes [B, M] ids into [B, M / stride, D], rounded up."""
    if encoder_segment_ids is not None:
      raise UserError(
        "a Funnel Transformer takes means of neighbouring tokens, so that rows "
        "hold one text each; set train.packing = False"
      )
    return super().encode(encoder_input_tokens, **keywords)

  def decode_hidden(
    self,
    encoded_BMD: jax.Array,
    encoder_input_tokens: jax.Array,
    *arguments,
    **keywords,
  ) -> jax.Array:
    """As `EncoderDecoder.decode_hidden`, of all ids that were encoded."""
    left_BM = self._left(encoder_input_tokens)
    return super().decode_hidden(encoded_BMD, left_BM, *arguments, **keywords)

  def decode_step(
    self,
    decoder_input_tokens: jax.Array,
    encoded_BMD: jax.Array,
    encoder_input_tokens: jax.Array,
    *arguments,
    **keywords,
  ) -> jax.Array:
    """As `EncoderDecoder.decode_step`, of all ids that were encoded."""
    left_BM = self._left(encoder_input_tokens)
    return super().decode_step(
      decoder_input_tokens, encoded_BMD, left_BM, *arguments, **keywords
    )

  def _left(self, tokens_BM: jax.Array) -> jax.Array:
    """The first token of each state: a state of padding begins with padding."""
    return tokens_BM[:, :: self.encoder.layer_stack.stride]


@gin.register
def funnel_encoder_decoder(model: EncoderDecoder) -> FunnelEncoderDecoder:
  """An encoder-decoder whose encoder pools its states.

  Args:
    model: The model, whose encoder has a `funnel_stack`.
  """
  return parts.replaced(model, FunnelEncoderDecoder)
