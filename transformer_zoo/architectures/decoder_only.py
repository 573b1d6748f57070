"""Decoder-only Transformers: language models and prefix language models.

A causal language model reads one sequence; a prefix language model reads
inputs and targets as one sequence whose first part sees itself both ways
(Raffel et al. 2020, section 3.2.1; T5X `DecoderOnlyModel`). Over T5's parts
they are `gin_configs/architectures/{lm,prefix_lm}.gin`; GPT-1, GPT-2, GPT-3 and
a Llama-like baseline are other parts in the same wiring.
"""

from collections.abc import Mapping

from flax import linen as nn
import gin
import jax

from transformer_zoo.modules import masks


@gin.register
class DecoderOnly(nn.Module):
  """A decoder without an encoder.

  Attributes:
    token_embedder: embeds the tokens.
    decoder: a `Decoder` over a stack whose layers attend to no encoder.
    pad_id: the token that is padding, the vocabulary's; padding is no token of
      a throughput.
  """

  token_embedder: nn.Module
  decoder: nn.Module
  pad_id: int = 0

  def __call__(
    self,
    decoder_input_tokens: jax.Array,
    *,
    decoder_causal_attention: jax.Array | None = None,
    decoder_segment_ids: jax.Array | None = None,
    decoder_positions: jax.Array | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """Teacher-forced logits.

    Padding stands after the tokens, where causality hides it from them; what
    comes out at padding means nothing.

    Args:
      decoder_input_tokens: [B, L] ids: the targets shifted right.
      decoder_causal_attention: [B, L], SeqIO's prefix feature: 1 where a token
        belongs to the prefix, whose tokens all see each other.
      decoder_segment_ids: [B, L], 1, 2, ... for packed examples, 0 padding.
      decoder_positions: [B, L], of each token in its example; 0 to L-1 if None.
      deterministic: no dropout.

    Returns:
      float32 logits [B, L, V].
    """
    mask_B1LL = masks.causal_mask(decoder_input_tokens.shape[1])
    if decoder_causal_attention is not None:
      mask_B1LL |= masks.prefix_mask(decoder_causal_attention > 0)
    if decoder_segment_ids is not None:
      mask_B1LL &= masks.segment_mask(decoder_segment_ids, decoder_segment_ids)
    return self.decoder(
      self.token_embedder(decoder_input_tokens),
      embedder=self.token_embedder,
      mask_B1LM=mask_B1LL,
      token_positions_1L=decoder_positions,
      deterministic=deterministic,
    )

  def logits_of_batch(
    self, batch: Mapping[str, jax.Array], *, deterministic: bool = True
  ) -> jax.Array:
    """Teacher-forced logits [B, L, V] of SeqIO's decoder-only features."""
    return self(
      batch["decoder_input_tokens"],
      decoder_causal_attention=batch.get("decoder_causal_attention"),
      decoder_segment_ids=batch.get("decoder_segment_ids"),
      decoder_positions=batch.get("decoder_positions"),
      deterministic=deterministic,
    )
