"""Encoder-decoder Transformers.

T5 v1.0 (Raffel et al. 2020): pre-norm with RMSNorm, no biases, a relative
position bias shared by the layers of a stack, unscaled attention, ReLU, tied
and scaled softmax. T5 v1.1 (`released_checkpoints.md` of the T5 repository):
gated GELU, untied softmax. Both are `gin_configs/architectures/t5_1_*.gin`
over the modules below.
"""

from collections.abc import Mapping

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.architectures.offers import Offers
from transformer_zoo.architectures.offers import positions_of
from transformer_zoo.architectures.transformer import Transformer
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import cache
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.positions import Positions


@gin.register
class Decoder(nn.Module):
  """A Transformer of decoder layers and the head that makes its logits.

  The parameters of both lie directly under the decoder, as in T5X.

  Attributes:
    transformer: the layers, with what stands around them.
    head: The head, from the output of the Transformer to logits.
  """

  transformer: Transformer
  head: nn.Module

  def setup(self):
    # Its name is in the keys of its dropout.
    self.stack = self.transformer.copy()
    nn.share_scope(self, self.stack)
    nn.share_scope(self, self.head)

  def __call__(
    self,
    y_BLD: jax.Array,
    encoded_BMD: jax.Array | None = None,
    *,
    embedder: nn.Module,
    **keywords,
  ) -> jax.Array:
    """Returns float32 logits [B, L, V]; keywords are the Transformer's."""
    return self.logits(self.hidden(y_BLD, encoded_BMD, **keywords), embedder)

  def hidden(
    self, y_BLD: jax.Array, encoded_BMD: jax.Array | None = None, **keywords
  ) -> jax.Array:
    """Returns [B, L, D], the output of the layers.

    Without `encoded_BMD` they attend to no encoder, and can be one.
    """
    return self.stack(y_BLD, encoded_BMD, **keywords)

  def logits(self, y_BLD: jax.Array, embedder: nn.Module) -> jax.Array:
    """Returns float32 logits [B, L, V] of hidden states [B, L, D]."""
    return self.head(y_BLD, embedder)

  @property
  def num_positions(self) -> int | None:
    """The longest sequence there are positions for; None if any."""
    return positions_of(self.transformer)


@gin.register
class EncoderDecoder(nn.Module):
  """An encoder reads the inputs, a decoder predicts the targets.

  The batch follows SeqIO's encoder-decoder converter; segment ids separate
  packed examples.

  Attributes:
    token_embedder: embeds the tokens of both sides.
    decoder: a decoder.
    encoder: a Transformer of encoder layers. None where the layers of the
      decoder encode too, without their attention to an encoder (Raffel et al.
      2020, section 3.2.2, "shared").
    target_embedder: embeds the tokens of the decoder, and is its softmax's
      where that is tied; None where both sides have `token_embedder`.
    tied_side: The side whose embeddings a tied softmax has, 'decoder' or
      'encoder'.
    pad_id: the token that is padding, the vocabulary's.
  """

  token_embedder: nn.Module
  decoder: nn.Module
  encoder: Transformer | None = None
  target_embedder: nn.Module | None = None
  tied_side: str = "decoder"
  pad_id: int = 0

  def __post_init__(self):
    if self.tied_side not in ("decoder", "encoder"):
      raise UserError(
        f"unknown EncoderDecoder.tied_side {self.tied_side!r}; allowed: "
        "decoder, encoder"
      )
    super().__post_init__()

  @property
  def offers(self) -> Offers:
    """What the model reads and computes."""
    encoder = {} if self.encoder is None else {"encoder": self.encoder}
    return Offers(
      reads=(
        "encoder_input_tokens",
        "decoder_input_tokens",
        "decoder_target_tokens",
      ),
      transformers=encoder | {"decoder": self.decoder.transformer},
      embedders={
        "encoder": self.token_embedder,
        "decoder": self._target_embedder,
      },
      pad_id=self.pad_id,
      writes="answer",
      direction="left_to_right",
    )

  def __call__(
    self,
    encoder_input_tokens: jax.Array,
    decoder_input_tokens: jax.Array,
    decoder_target_tokens: jax.Array,
    *,
    encoder_segment_ids: jax.Array | None = None,
    decoder_segment_ids: jax.Array | None = None,
    encoder_positions: jax.Array | None = None,
    decoder_positions: jax.Array | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """Teacher-forced logits.

    Args:
      encoder_input_tokens: [B, M] ids.
      decoder_input_tokens: [B, L] ids, the targets shifted right.
      decoder_target_tokens: [B, L] ids, whose padding is masked.
      encoder_segment_ids: [B, M], 1, 2, ... for packed examples, 0 padding.
      decoder_segment_ids: [B, L], 1, 2, ... for packed examples, 0 padding.
      encoder_positions: [B, M], of each token in its example; 0 to M-1 if None.
      decoder_positions: [B, L], of each token in its example; 0 to L-1 if None.
      deterministic: no dropout.

    Returns:
      float32 logits [B, L, V].
    """
    encoded_BMD = self.encode(
      encoder_input_tokens,
      encoder_segment_ids=encoder_segment_ids,
      encoder_positions=encoder_positions,
      deterministic=deterministic,
    )
    return self.decode(
      encoded_BMD,
      encoder_input_tokens,
      decoder_input_tokens,
      decoder_target_tokens,
      encoder_segment_ids=encoder_segment_ids,
      decoder_segment_ids=decoder_segment_ids,
      decoder_positions=decoder_positions,
      deterministic=deterministic,
    )

  def decode(self, *arguments, **keywords) -> jax.Array:
    """Teacher-forced logits [B, L, V]; arguments as for `decode_hidden`."""
    return self.logits(self.decode_hidden(*arguments, **keywords))

  def decode_hidden(
    self,
    encoded_BMD: jax.Array,
    encoder_input_tokens: jax.Array,
    decoder_input_tokens: jax.Array,
    decoder_target_tokens: jax.Array,
    *,
    encoder_segment_ids: jax.Array | None = None,
    decoder_segment_ids: jax.Array | None = None,
    decoder_positions: jax.Array | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """The decoder's output [B, L, D] over inputs that are encoded already.

    Args:
      encoded_BMD: output of `encode`.
      encoder_input_tokens: [B, M] ids; tell which of them are padding.
      decoder_input_tokens: as in a call, with all that follows.
      decoder_target_tokens: [B, L].
      encoder_segment_ids: [B, M].
      decoder_segment_ids: [B, L].
      decoder_positions: [B, L].
      deterministic: no dropout.
    """
    target_valid_BL = decoder_target_tokens != self.pad_id
    # Tokens of a row have an id; in packed rows it is the id of their example.
    ids_BL, key_ids_BL = (
      masks.ids_of_tokens(target_valid_BL, decoder_segment_ids, nothing)
      for nothing in (masks.NO_QUERY, masks.NO_KEY)
    )
    encoder_ids_BM = masks.ids_of_tokens(
      encoder_input_tokens != self.pad_id,
      None if decoder_segment_ids is None else encoder_segment_ids,
      masks.NO_KEY,
    )
    mask_B1LL = masks.combine(
      masks.causal_mask(decoder_input_tokens.shape[1]),
      masks.padding_mask(target_valid_BL, target_valid_BL),
    )
    encoder_mask_B1LM = masks.padding_mask(
      target_valid_BL, encoder_input_tokens != self.pad_id
    )
    if decoder_segment_ids is not None:
      mask_B1LL &= masks.segment_mask(decoder_segment_ids, decoder_segment_ids)
      encoder_mask_B1LM &= masks.segment_mask(
        decoder_segment_ids, encoder_segment_ids
      )
    return self.decoder.hidden(
      self._target_embedder(decoder_input_tokens),
      encoded_BMD,
      mask_B1LM=masks.Mask(
        mask_B1LL,
        ids_BL,
        key_ids_BL,
        last_BL=jnp.arange(ids_BL.shape[1])[None],
      ),
      encoder_mask_B1LM=masks.Mask(encoder_mask_B1LM, ids_BL, encoder_ids_BM),
      token_positions_1L=decoder_positions,
      deterministic=deterministic,
    )

  def hidden(
    self, batch: Mapping[str, jax.Array], *, deterministic: bool = True
  ) -> jax.Array:
    """The decoder's output [B, L, D] of SeqIO's encoder-decoder features."""
    encoded_BMD = self.encode(
      batch["encoder_input_tokens"],
      encoder_segment_ids=batch.get("encoder_segment_ids"),
      encoder_positions=batch.get("encoder_positions"),
      deterministic=deterministic,
    )
    return self.decode_hidden(
      encoded_BMD,
      batch["encoder_input_tokens"],
      batch["decoder_input_tokens"],
      batch["decoder_target_tokens"],
      encoder_segment_ids=batch.get("encoder_segment_ids"),
      decoder_segment_ids=batch.get("decoder_segment_ids"),
      decoder_positions=batch.get("decoder_positions"),
      deterministic=deterministic,
    )

  def logits(self, hidden_BLD: jax.Array) -> jax.Array:
    """Float32 logits [B, L, V] of the decoder's output."""
    return self.decoder.logits(hidden_BLD, self._softmax_embedder)

  def all_logits(self, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """The teacher-forced logits of every head, here of `tokens` alone."""
    return {"tokens": self.logits(self.hidden(batch))}

  def encode(
    self,
    encoder_input_tokens: jax.Array,
    *,
    encoder_segment_ids: jax.Array | None = None,
    encoder_positions: jax.Array | None = None,
    deterministic: bool = True,
  ) -> jax.Array:
    """Encodes [B, M] ids into [B, M, D]."""
    valid_BM = encoder_input_tokens != self.pad_id
    mask_B1MM = masks.padding_mask(valid_BM, valid_BM)
    if encoder_segment_ids is not None:
      mask_B1MM &= masks.segment_mask(encoder_segment_ids, encoder_segment_ids)
    encoder = self.decoder.hidden if self.encoder is None else self.encoder
    return encoder(
      self.token_embedder(encoder_input_tokens),
      mask_B1LM=masks.Mask(
        mask_B1MM,
        masks.ids_of_tokens(valid_BM, encoder_segment_ids, masks.NO_QUERY),
        masks.ids_of_tokens(valid_BM, encoder_segment_ids, masks.NO_KEY),
      ),
      positions=Positions.of_length(valid_BM.shape[1], bidirectional=True),
      token_positions_1L=encoder_positions,
      deterministic=deterministic,
    )

  def prefill(
    self,
    encoder_input_tokens: jax.Array,
    lengths_B: jax.Array | None = None,
    *,
    start_id: int | None,
    decoding: cache.Decoding,
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Reads the inputs before the first `decode_step`.

    Args:
      encoder_input_tokens: [B, M] ids.
      lengths_B: Not used; padding shows where inputs end, as in training.
      start_id: The id that the decoder reads first.
      decoding: the room that its cache will have.

    Returns:
      What to feed first, [B, 1], and what every step is given: the encoded
      inputs and the inputs.

    Raises:
      UserError: there is no start token, or no room for as many positions.
    """
    del lengths_B
    if start_id is None:
      raise UserError(
        "start_before_prompt=False: the decoder of an encoder-decoder has to "
        "be fed a start token; leave the option out"
      )
    cache.check_room(self.decoder.num_positions, decoding)
    first_B1 = jnp.full((encoder_input_tokens.shape[0], 1), start_id, jnp.int32)
    return first_B1, (self.encode(encoder_input_tokens), encoder_input_tokens)

  def decode_step(
    self,
    decoder_input_tokens: jax.Array,
    encoded_BMD: jax.Array,
    encoder_input_tokens: jax.Array,
    decoding: cache.Decoding,
  ) -> jax.Array:
    """Logits of the next token; reads and writes the `cache` collection.

    Args:
      decoder_input_tokens: [B, W] ids, one for each of the W outputs of a row
        that are in the making, all at `decoding.position`.
      encoded_BMD: output of `encode`.
      encoder_input_tokens: [B, M] ids; tell which of them are padding.
      decoding: position of the tokens and room in the cache.

    Returns:
      float32 logits [B, W, V].
    """
    return self.decoder(
      self._target_embedder(decoder_input_tokens),
      encoded_BMD,
      embedder=self._softmax_embedder,
      positions=decoding.positions,
      mask_B1LM=decoding.mask_B1WM,
      encoder_mask_B1LM=(encoder_input_tokens != self.pad_id)[:, None, None, :],
      decoding=decoding,
      deterministic=True,
    )

  @property
  def _softmax_embedder(self) -> nn.Module:
    if self.tied_side == "encoder":
      return self.token_embedder
    return self._target_embedder

  @property
  def _target_embedder(self) -> nn.Module:
    if self.target_embedder is None:
      return self.token_embedder
    return self.target_embedder
