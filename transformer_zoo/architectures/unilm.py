"""UniLM that writes: an encoder that fills one mask after another.

Dong et al. 2019, section 2.4: the text to write is the second segment of a
sequence to sequence row. Each token is predicted at a [MASK] behind the tokens
that are written; the mask is then replaced by the token. Keys and values of the
text are kept (`modules/attention/cache.py`); for a mask, until its token is
known. `gin_configs/architectures/unilm.gin` over the modules below.
"""

from collections.abc import Mapping
import dataclasses

import gin
import jax
import jax.numpy as jnp

from transformer_zoo.architectures.encoder_only import EncoderOnly
from transformer_zoo.architectures.offers import Offers
from transformer_zoo.architectures.offers import positions_of
from transformer_zoo.modules.attention import cache
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.positions import Positions


@gin.register
class UniLM(EncoderOnly):
  """`EncoderOnly` that also writes, by its head of masked tokens.

  Attributes:
    mask_id: The id of [MASK], the vocabulary's.
    written_types: The token types of the first segment and of the second one
      in a row of sequence to sequence attention, as in
      `transformer_zoo.corruption.unified_lm.TOKEN_TYPES`.
  """

  mask_id: int = 103
  written_types: tuple[int, int] = (4, 5)

  @property
  def offers(self) -> Offers:
    """What the model reads and computes."""
    return dataclasses.replace(
      super().offers, writes="masks", mask_id=self.mask_id
    )

  def prefill(
    self,
    prompt_BP: jax.Array,
    lengths_B: jax.Array | None = None,
    *,
    start_id: int | None,
    decoding: cache.Decoding,
  ) -> tuple[jax.Array, tuple[jax.Array]]:
    """Reads the first segments before the first `decode_step`.

    Args:
      prompt_BP: ids `[CLS] text [SEP]`, padded at their end.
      lengths_B: The number of ids of each; those up to the last that is no
        padding if None.
      start_id: The id that goes before each prompt, [CLS] where they are
        without it; None and padding are nothing.
      decoding: the room that the cache will have.

    Returns:
      What is read, padded at its beginning by -1, [B, P]; and what every step
      is given: which slots of the prompt hold a token.

    Raises:
      UserError: there are no positions for so many tokens.
    """
    if start_id not in (None, self.pad_id):
      prompt_BP = jnp.pad(prompt_BP, ((0, 0), (1, 0)), constant_values=start_id)
      lengths_B = None if lengths_B is None else lengths_B + 1
    places_1P = jnp.arange(1, prompt_BP.shape[1] + 1)[None]
    if lengths_B is None:
      real_BP = prompt_BP != self.pad_id
      lengths_B = jnp.max(jnp.where(real_BP, places_1P, 0), axis=1)
    # All end in the last place, so that what is written has one place in all.
    from_start_BP = places_1P - 1 - (prompt_BP.shape[1] - lengths_B[:, None])
    real_BP = (from_start_BP >= 0).at[:, -1].set(True)
    tokens_BP = jnp.take_along_axis(
      prompt_BP, jnp.maximum(from_start_BP, 0), axis=1
    )
    decoding = self._with_room(decoding, real_BP[:, :-1])
    decoding = dataclasses.replace(decoding, position=None)
    cache.check_room(positions_of(self.encoder), decoding)
    self.encoder(
      self._embedded(
        tokens_BP, jnp.full_like(tokens_BP, self.written_types[0])
      ),
      mask_B1LM=(real_BP[:, :, None] & real_BP[:, None, :])[:, None],
      positions=Positions.of_length(prompt_BP.shape[1], bidirectional=True),
      token_positions_1L=jnp.maximum(from_start_BP, 0),
      decoding=decoding,
      deterministic=True,
    )
    return jnp.where(real_BP, tokens_BP, -1), (real_BP[:, :-1],)

  def decode_step(
    self,
    tokens_BW: jax.Array,
    real_BP: jax.Array,
    decoding: cache.Decoding,
  ) -> jax.Array:
    """Logits of the next token; reads and writes the `cache` collection.

    Args:
      tokens_BW: ids, one for each of the W outputs of a row that are in the
        making, all at `decoding.position`; each is read with a [MASK] behind.
      real_BP: True for the slots of the prompt that hold a token.
      decoding: position of the tokens and room in the cache.

    Returns:
      float32 logits [B, W, V].
    """
    decoding = self._with_room(decoding, real_BP)
    next_ = self._at_next_position(decoding, tokens_BW.shape)
    masks_BW = jnp.full_like(tokens_BW, self.mask_id)
    first, second = self.written_types
    # The first token that is read is the last of the prompt.
    types_BW = jnp.full_like(
      tokens_BW, jnp.where(decoding.position == 0, first, second)
    )
    read_B1 = jnp.sum(real_BP, axis=1, keepdims=True) + decoding.position
    places_BX = jnp.concatenate(
      [jnp.broadcast_to(read_B1 + i, tokens_BW.shape) for i in (0, 1)], axis=1
    )
    queries_1X = jnp.repeat(
      jnp.concatenate(
        [each.positions.query_1L for each in (decoding, next_)], axis=1
      ),
      decoding.width,
      axis=1,
    )
    hidden_BXD = self.encoder(
      self._embedded(
        jnp.concatenate([tokens_BW, masks_BW], axis=1),
        jnp.concatenate([types_BW, jnp.full_like(types_BW, second)], axis=1),
      ),
      mask_B1LM=_rows(decoding, next_, len(tokens_BW)),
      positions=Positions(queries_1X, decoding.positions.key_1M, True),
      token_positions_1L=places_BX,
      decoding=decoding,
      deterministic=True,
    )
    return self.logits(hidden_BXD[:, decoding.width :])

  def written(self, batch: Mapping[str, jax.Array]) -> jax.Array:
    """The output of the layers at masks, one in the place of each target.

    A mask sees the first segment, the tokens of the second one before its
    place, and itself: what `decode_step` computes, for all places at once.

    Args:
      batch: what the converter `Unified` lays out.

    Returns:
      [B, P, D], for each of `encoder_predicted_places`.
    """
    tokens_BL = batch["encoder_input_tokens"]
    types_BL = batch["encoder_token_types"]
    places_BP = batch["encoder_predicted_places"]
    real_BL = tokens_BL != self.pad_id
    second_BL = types_BL == self.written_types[1]
    row_BLL = masks.padding_mask(real_BL, real_BL)[:, 0]
    row_BLL &= masks.attention_kind_mask(batch["attention_kind"], second_BL)[
      :, 0
    ]
    length, number = tokens_BL.shape[1], places_BP.shape[1]
    before_BPL = jnp.arange(length)[None, None] < places_BP[..., None]
    before_BPL = (before_BPL | ~second_BL[:, None]) & real_BL[:, None]
    itself_BPP = jnp.broadcast_to(
      jnp.eye(number, dtype=bool), (len(tokens_BL), number, number)
    )
    sees_BXX = jnp.concatenate(
      [
        jnp.pad(row_BLL, ((0, 0), (0, 0), (0, number))),
        jnp.concatenate([before_BPL, itself_BPP], axis=2),
      ],
      axis=1,
    )
    positions_BL = jnp.broadcast_to(jnp.arange(length)[None], tokens_BL.shape)
    hidden_BXD = self.encoder(
      self._embedded(
        jnp.concatenate(
          [tokens_BL, jnp.full_like(places_BP, self.mask_id)], axis=1
        ),
        jnp.concatenate(
          [types_BL, jnp.full_like(places_BP, self.written_types[1])], axis=1
        ),
      ),
      mask_B1LM=sees_BXX[:, None],
      positions=Positions.of_length(length + number, bidirectional=True),
      token_positions_1L=jnp.concatenate([positions_BL, places_BP], axis=1),
      deterministic=True,
    )
    return hidden_BXD[:, length:]

  def _with_room(self, decoding, real_BP) -> cache.Decoding:
    """With the prompt, and one more position for the last [MASK]."""
    ancestors_BWL = decoding.ancestors_BWL
    if ancestors_BWL is not None:
      ancestors_BWL = jnp.pad(ancestors_BWL, ((0, 0), (0, 0), (0, 1)))
    return dataclasses.replace(
      decoding,
      prompt_BP=real_BP,
      ancestors_BWL=ancestors_BWL,
      length=decoding.length + 1,
    )

  def _at_next_position(self, decoding, shape) -> cache.Decoding:
    """Of the masks, each of which reads itself behind what its output reads."""
    ancestors_BWL = decoding.ancestors_BWL
    if ancestors_BWL is not None:
      own_BW1 = jnp.broadcast_to(jnp.arange(shape[1]), shape)[..., None]
      ancestors_BWL = jax.lax.dynamic_update_slice_in_dim(
        ancestors_BWL, own_BW1, decoding.position + 1, axis=2
      )
    return dataclasses.replace(
      decoding, position=decoding.position + 1, ancestors_BWL=ancestors_BWL
    )


def _rows(decoding, next_, rows: int) -> jax.Array:
  """Returns the mask of slots that tokens and masks read, [B, 1, 2 W, M]."""
  parts = [each.mask_B1WM for each in (decoding, next_)]
  return jnp.concatenate(
    [jnp.broadcast_to(part, (rows, *part.shape[1:])) for part in parts], axis=2
  )
