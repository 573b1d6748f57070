"""Decoder-only Transformers: language models and prefix language models.

A causal language model reads one sequence; a prefix language model reads
inputs and targets as one sequence whose first part sees itself both ways
(Raffel et al. 2020, section 3.2.1; T5X `DecoderOnlyModel`). Generation
continues a prompt, which is read as the first part was in training. Over T5's
parts they are `gin_configs/architectures/{lm,prefix_lm}.gin`; GPT-1, GPT-2,
GPT-3 and a Llama-like baseline are other parts in the same wiring.
"""

from collections.abc import Mapping
import dataclasses

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.architectures.offers import Offers
from transformer_zoo.modules.attention import cache
from transformer_zoo.modules.attention import masks


@gin.register
class DecoderOnly(nn.Module):
  """A decoder without an encoder.

  Attributes:
    token_embedder: embeds the tokens.
    decoder: a `Decoder` whose layers attend to no encoder.
    pad_id: the token that is padding, the vocabulary's; padding is no token of
      a throughput.
    inputs_bidirectional_attention: whether inputs, and a prompt, see each other
      both ways: a prefix language model. T5X's name.
  """

  token_embedder: nn.Module
  decoder: nn.Module
  pad_id: int = 0
  inputs_bidirectional_attention: bool = False

  @property
  def offers(self) -> Offers:
    """What the model reads and computes."""
    return Offers(
      reads=("decoder_input_tokens", "decoder_target_tokens"),
      transformers={"decoder": self.decoder.transformer},
      embedders={"decoder": self.token_embedder},
      pad_id=self.pad_id,
      writes="continuation",
      direction="left_to_right",
    )

  def __call__(self, *arguments, **keywords) -> jax.Array:
    """Teacher-forced logits [B, L, V]; arguments as for `decode_hidden`."""
    return self.logits(self.decode_hidden(*arguments, **keywords))

  def decode_hidden(
    self,
    decoder_input_tokens: jax.Array,
    *,
    decoder_target_tokens: jax.Array | None = None,
    decoder_causal_attention: jax.Array | None = None,
    decoder_segment_ids: jax.Array | None = None,
    decoder_positions: jax.Array | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """The output of the layers, that logits are made of.

    Padding stands after the tokens, where causality hides it from them; what
    comes out at padding means nothing.

    Args:
      decoder_input_tokens: [B, L] ids: the targets shifted right.
      decoder_target_tokens: [B, L] ids, whose padding parts like experts leave
        out; None if they count all.
      decoder_causal_attention: [B, L], SeqIO's prefix feature: 1 where a token
        belongs to the prefix, whose tokens all see each other.
      decoder_segment_ids: [B, L], 1, 2, ... for packed examples, 0 padding.
      decoder_positions: [B, L], of each token in its example; 0 to L-1 if None.
      deterministic: no dropout.

    Returns:
      [B, L, D].
    """
    mask_B1LL = masks.causal_mask(decoder_input_tokens.shape[1])
    last_BL = jnp.arange(decoder_input_tokens.shape[1])[None]
    if decoder_causal_attention is not None:
      prefix_BL = decoder_causal_attention > 0
      mask_B1LL |= masks.prefix_mask(prefix_BL)
      last_BL = masks.ends_of_runs(prefix_BL, decoder_segment_ids)
    if decoder_segment_ids is not None:
      mask_B1LL &= masks.segment_mask(decoder_segment_ids, decoder_segment_ids)
    valid_BL = None
    if decoder_target_tokens is not None:
      valid_BL = decoder_target_tokens != self.pad_id
    return self.decoder.hidden(
      self.token_embedder(decoder_input_tokens),
      mask_B1LM=masks.Mask(
        mask_B1LL,
        decoder_segment_ids,
        decoder_segment_ids,
        last_BL=last_BL,
        valid_BL=valid_BL,
      ),
      token_positions_1L=decoder_positions,
      deterministic=deterministic,
    )

  def hidden(
    self, batch: Mapping[str, jax.Array], *, deterministic: bool = True
  ) -> jax.Array:
    """The output of the layers [B, L, D] of SeqIO's decoder-only features."""
    prefix_BL = None
    if self.inputs_bidirectional_attention:
      prefix_BL = batch.get("decoder_causal_attention")
    return self.decode_hidden(
      batch["decoder_input_tokens"],
      decoder_target_tokens=batch.get("decoder_target_tokens"),
      decoder_causal_attention=prefix_BL,
      decoder_segment_ids=batch.get("decoder_segment_ids"),
      decoder_positions=batch.get("decoder_positions"),
      deterministic=deterministic,
    )

  def logits(self, hidden_BLD: jax.Array) -> jax.Array:
    """Float32 logits [B, L, V] of the output of the layers."""
    return self.decoder.logits(hidden_BLD, self.token_embedder)

  def all_logits(self, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """The teacher-forced logits of every head, here of `tokens` alone."""
    return {"tokens": self.logits(self.hidden(batch))}

  def prefill(
    self,
    prompt_BP: jax.Array,
    lengths_B: jax.Array | None = None,
    *,
    start_id: int | None,
    decoding: cache.Decoding,
  ) -> tuple[jax.Array, tuple[jax.Array]]:
    """Reads the prompts before the first `decode_step`.

    Args:
      prompt_BP: ids, padded at their end.
      lengths_B: how many of them are the prompt; those up to the last that is
        no padding if None.
      start_id: precedes every prompt, as in training; None if nothing does. A
        row that has nothing at all begins with padding.
      decoding: the room that the cache will have.

    Returns:
      What is read, padded at its beginning by -1; the last of each row is fed
      first, [B, P + 1] (P without a start). And what every step is given: which
      slots of the prompt hold a token.

    Raises:
      UserError: there are no positions for so many tokens.
    """
    tokens_BT, real_BT = self._ending_together(prompt_BP, lengths_B, start_id)
    decoding = dataclasses.replace(
      decoding, position=None, prompt_BP=real_BT[:, :-1]
    )
    cache.check_room(self.decoder.num_positions, decoding)
    mask_B1TT = masks.causal_mask(tokens_BT.shape[1])
    if self.inputs_bidirectional_attention:
      mask_B1TT = jnp.ones_like(mask_B1TT)
    self.decoder.hidden(
      self.token_embedder(tokens_BT),
      mask_B1LM=mask_B1TT & real_BT[:, None, None],
      token_positions_1L=jnp.maximum(jnp.cumsum(real_BT, axis=1) - 1, 0),
      decoding=decoding,
      deterministic=True,
    )
    return jnp.where(real_BT, tokens_BT, -1), (real_BT[:, :-1],)

  def decode_step(
    self,
    tokens_BW: jax.Array,
    real_BP: jax.Array,
    decoding: cache.Decoding,
  ) -> jax.Array:
    """Logits of the next token; reads and writes the `cache` collection.

    Args:
      tokens_BW: ids, one for each of the W outputs of a row that are in the
        making, all at `decoding.position`.
      real_BP: True for the slots of the prompt that hold a token.
      decoding: position of the tokens and room in the cache.

    Returns:
      float32 logits [B, W, V].
    """
    decoding = dataclasses.replace(decoding, prompt_BP=real_BP)
    read_B1 = jnp.sum(real_BP, axis=1, keepdims=True)
    return self.decoder(
      self.token_embedder(tokens_BW),
      embedder=self.token_embedder,
      positions=decoding.positions,
      mask_B1LM=decoding.mask_B1WM,
      token_positions_1L=read_B1 + decoding.position,
      decoding=decoding,
      deterministic=True,
    )

  def _ending_together(self, prompt_BP, lengths_B, start_id):
    """Prompts that all end in the last place, [B, T], and where they are."""
    if lengths_B is None:
      places_1P = jnp.arange(1, prompt_BP.shape[1] + 1)[None]
      lengths_B = jnp.max(
        jnp.where(prompt_BP != self.pad_id, places_1P, 0), axis=1, initial=0
      )
    if start_id is not None:
      prompt_BP = jnp.pad(prompt_BP, ((0, 0), (1, 0)), constant_values=start_id)
      lengths_B = lengths_B + 1
    width = prompt_BP.shape[1]
    from_end_1T = jnp.arange(-width, 0)[None]
    from_start_BT = from_end_1T + lengths_B[:, None]
    tokens_BT = jnp.take_along_axis(
      prompt_BP, jnp.maximum(from_start_BT, 0), axis=1
    )
    # Something has to be fed, even where a row has nothing.
    real_BT = (from_start_BT >= 0).at[:, -1].set(True)
    return tokens_BT, real_BT
