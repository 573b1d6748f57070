"""Encoder-decoders whose heads read what the decoder makes of the same text.

BART's fine-tuning for classes and spans (Lewis et al. 2020, sections 3.1 and
3.2): the whole text goes to the encoder and, shifted by one, to the decoder,
whose last output stands for the text. `gin_configs/parts/reading_decoder.gin`
after an architecture with both sides.
"""

from collections.abc import Mapping

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.architectures.encoder_only import EncoderOnly
from transformer_zoo.architectures.transformer import Transformer
from transformer_zoo.modules.attention import masks


@gin.register
class EncoderDecoderWithHeads(EncoderOnly):
  """An encoder and a decoder over the same text, and heads on the decoder.

  The converter `Encoder` makes the batch, with `answering` 'last': a place of
  the decoder has seen the places of the decoder before it alone.

  Attributes:
    reader: The Transformer of decoder layers, which attend to the encoder; its
      parameters lie under `decoder`.
    start_id: The id that the decoder reads before each text, which loses its
      last token there; None for that last token, as fairseq rotates a text.
  """

  reader: Transformer | None = None
  start_id: int | None = None

  @nn.compact
  def encoded(
    self,
    x_BLD: jax.Array,
    batch: Mapping[str, jax.Array],
    *,
    deterministic: bool = True,
  ) -> jax.Array:
    """The output of the decoder over what the encoder makes of a text.

    Args:
      x_BLD: embeddings of the tokens of the batch.
      batch: as `hidden` reads it.
      deterministic: no dropout.

    Returns:
      [B, L, D], 0 at padding.
    """
    encoded_BLD = super().encoded(x_BLD, batch, deterministic=deterministic)
    tokens_BL = batch["encoder_input_tokens"]
    valid_BL = tokens_BL != self.pad_id
    segments_BL = batch.get("encoder_segment_ids")
    if segments_BL is None:
      segments_BL = valid_BL.astype(jnp.int32)
    mask_B1LL = masks.combine(
      masks.padding_mask(valid_BL, valid_BL),
      masks.segment_mask(segments_BL, segments_BL),
    )
    sees = masks.Mask(
      mask_B1LL,
      masks.ids_of_tokens(valid_BL, segments_BL, masks.NO_QUERY),
      masks.ids_of_tokens(valid_BL, segments_BL, masks.NO_KEY),
    )
    length = tokens_BL.shape[1]
    y_BLD = self.reader.copy(name="decoder")(
      self.token_embedder(_shifted(tokens_BL, segments_BL, self.start_id)),
      encoded_BLD,
      mask_B1LM=sees.replace(
        array_B1LM=masks.combine(masks.causal_mask(length), mask_B1LL),
        last_BL=jnp.arange(length)[None],
      ),
      encoder_mask_B1LM=sees,
      token_positions_1L=batch.get("encoder_positions"),
      deterministic=deterministic,
    )
    return jnp.where(valid_BL[..., None], y_BLD, 0)

  def all_logits(self, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """The logits of every head by name, of the last token if it is pooled."""
    hidden_BLD = self.hidden(batch)
    real_BL = batch["encoder_input_tokens"] != self.pad_id
    last_B1 = jnp.maximum(jnp.sum(real_BL, axis=1, keepdims=True) - 1, 0)
    return {
      name: self.logits(
        hidden_BLD, name, places_BP=last_B1 if part.reads_pooled else None
      )
      for name, part in self.heads.parts.items()
    }


def _shifted(
  tokens_BL: jax.Array, segments_BL: jax.Array, start_id: int | None
) -> jax.Array:
  """Tokens one place later in each segment, behind its start token."""
  before_BL = jnp.pad(segments_BL[:, :-1], ((0, 0), (1, 0)))
  begins_BL = segments_BL != before_BL
  shifted_BL = jnp.pad(tokens_BL[:, :-1], ((0, 0), (1, 0)))
  if start_id is not None:
    return jnp.where(begins_BL, start_id, shifted_BL)
  length = tokens_BL.shape[1]
  behind_BL = jnp.pad(segments_BL[:, 1:], ((0, 0), (0, 1)))
  ends_BL = jnp.where(segments_BL != behind_BL, jnp.arange(length), length - 1)
  last_BL = jax.lax.cummin(ends_BL, axis=1, reverse=True)
  last_BL = jnp.take_along_axis(tokens_BL, last_BL, axis=1)
  return jnp.where(begins_BL, last_BL, shifted_BL)
