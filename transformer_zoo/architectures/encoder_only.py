"""Encoder-only Transformers: one Transformer that reads, heads that answer.

BERT (Devlin et al. 2019): token, segment and position embeddings, their norm
and dropout, post-norm layers, a pooler over the first token and a head for
every kind of answer. `gin_configs/architectures/{bert,roberta}.gin` over the
modules below.
"""

from collections.abc import Callable, Mapping
import dataclasses

from flax import linen as nn
from flax.core import FrozenDict
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo.architectures.offers import Offers
from transformer_zoo.architectures.transformer import Transformer
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.heads import Averaged
from transformer_zoo.modules.mask_decoder import MaskDecoded
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.word_vectors import NoLayers


@gin.register
class Heads(nn.Module):
  """Heads by name; the parameters of each lie under its name.

  Attributes:
    parts: The heads (modules/heads.py), like {"tokens": TransformedLogits()}.
    auxiliary: Further heads, of auxiliary losses.
  """

  parts: Mapping[str, nn.Module]
  auxiliary: Mapping[str, nn.Module] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    # Frozen, so that a model is a key of caches.
    parts = FrozenDict({**self.parts, **self.auxiliary})
    object.__setattr__(self, "parts", parts)
    object.__setattr__(self, "auxiliary", FrozenDict(self.auxiliary))
    super().__post_init__()

  @nn.compact
  def __call__(self, name: str, x_BPD: jax.Array, **keywords) -> jax.Array:
    """Returns the float32 logits [B, P, K] of the head of this name."""
    return self.parts[name].copy(name=name)(x_BPD, **keywords)


@gin.register
class EncoderOnly(nn.Module):
  """An encoder and its heads.

  The converter `Encoder` makes the batch; segment ids separate packed texts.

  Attributes:
    token_embedder: embeds the tokens; None in a generator that reads the
      embeddings of its discriminator (generator_discriminator.py), and in a
      discriminator an `EmbedDifference` from its generator's.
    encoder: a Transformer of encoder layers, or what stands in its place.
    heads: the heads.
    token_type_embedder: embeds the segment that each token is of, or None.
    pooler: goes before those heads that read one token of a text and have no
      pooler of their own, or None.
    visible: The mask [1, 1, L, L] of the places that each place of a row of L
      tokens attends to, such as `masks.causal_mask` for a text that is read
      from left to right; None for all of them.
    recurrent: goes over the output of the layers, like `BiLstm`, whose output
      the pooler and the heads read; or None.
    pad_id: the token that is padding, the vocabulary's.
    averages: Whether those heads that read one token of a text read the mean
      over all of its tokens in its place (ModernBERT's `classifier_pooling`).
  """

  token_embedder: nn.Module | None
  encoder: Transformer | NoLayers
  heads: Heads
  token_type_embedder: nn.Module | None = None
  pooler: nn.Module | None = None
  visible: Callable[[int], jax.Array] | None = None
  recurrent: nn.Module | None = None
  pad_id: int = 0
  averages: bool = False

  @property
  def offers(self) -> Offers:
    """What the model reads and computes."""
    types = self.token_type_embedder
    return Offers(
      reads=("encoder_input_tokens",),
      transformers={"encoder": self.encoder},
      embedders={"encoder": self.token_embedder},
      pad_id=self.pad_id,
      direction=_direction(self.visible),
      heads=self.heads.parts,
      num_token_types=None if types is None else types.num_types,
    )

  def hidden(
    self,
    batch: Mapping[str, jax.Array],
    *,
    deterministic: bool = True,
    embedder: nn.Module | None = None,
  ) -> jax.Array:
    """The output of the layers.

    Args:
      batch: `encoder_input_tokens` [B, L], ids; and where there are such,
        `encoder_token_types`, `encoder_segment_ids` and `encoder_positions` of
        packed texts [B, L], and `attention_kind` [B], who sees whom as in
        UniLM, and `encoder_other_order` [B], the place of the vector that is
        added to the vector of the last token of a row, -1 for none (GPT's pairs
        in both orders).
      deterministic: no dropout.
      embedder: What embeds the tokens; the model's own embedder if None.

    Returns:
      [B, L, D], 0 at padding, or `MaskDecoded` if the encoder has a mask
      decoder, whose output is of `encoder_predicted_places` [B, P] alone, and 0
      elsewhere, where the batch has them; or `Averaged`.
    """
    x_BLD = self._embedded(
      batch["encoder_input_tokens"],
      batch.get("encoder_token_types"),
      embedder,
    )
    return self.encoded(x_BLD, batch, deterministic=deterministic)

  def embedded(self, batch: Mapping[str, jax.Array]) -> jax.Array:
    """Returns the input of the layers before dropout, [B, L, E]."""
    tokens_BL = batch["encoder_input_tokens"]
    positions_1L = batch.get("encoder_positions")
    if positions_1L is None:
      positions_1L = jnp.arange(tokens_BL.shape[1])[None]
    x_BLD = self._embedded(tokens_BL, batch.get("encoder_token_types"))
    return self.encoder.embedded(x_BLD, positions_1L)

  def encoded(
    self,
    x_BLD: jax.Array,
    batch: Mapping[str, jax.Array],
    *,
    deterministic: bool = True,
  ) -> jax.Array:
    """As `hidden`, of given embeddings.

    Args:
      x_BLD: embeddings of the tokens of the batch.
      batch: as `hidden` reads it.
      deterministic: no dropout.
    """
    tokens_BL = batch["encoder_input_tokens"]
    valid_BL = tokens_BL != self.pad_id
    mask_B1LL = masks.padding_mask(valid_BL, valid_BL)
    first_BL = last_BL = None
    if self.visible is not None:
      mask_B1LL &= self.visible(tokens_BL.shape[1])
    if (segments_BL := batch.get("encoder_segment_ids")) is not None:
      mask_B1LL &= masks.segment_mask(segments_BL, segments_BL)
    if (kinds_B := batch.get("attention_kind")) is not None:
      second_BL = batch["encoder_token_types"] % 2 == 1
      mask_B1LL &= masks.attention_kind_mask(kinds_B, second_BL)
      first_BL, last_BL = masks.attention_kind_interval(
        kinds_B, second_BL, segments_BL
      )
    if self.visible is None:
      mask_B1LL = masks.Mask(
        mask_B1LL,
        masks.ids_of_tokens(valid_BL, segments_BL, masks.NO_QUERY),
        masks.ids_of_tokens(valid_BL, segments_BL, masks.NO_KEY),
        first_BL,
        last_BL,
      )
    decoded = {}
    if getattr(self.encoder, "mask_decoder", None) is not None:
      decoded["masked_places_BP"] = batch.get("encoder_predicted_places")
    x_BLD = self.encoder(
      x_BLD,
      mask_B1LM=mask_B1LL,
      positions=Positions.of_length(tokens_BL.shape[1], bidirectional=True),
      token_positions_1L=batch.get("encoder_positions"),
      deterministic=deterministic,
      **decoded,
    )
    x_BLD = jax.tree.map(
      lambda x_BLD: jnp.where(valid_BL[..., None], x_BLD, 0), x_BLD
    )
    if self.recurrent is not None:
      x_BLD = jnp.where(valid_BL[..., None], self.recurrent(x_BLD), 0)
    if (others_B := batch.get("encoder_other_order")) is not None:
      x_BLD = _with_other_order(x_BLD, others_B, valid_BL)
    if self.averages:
      texts_BL = valid_BL if segments_BL is None else segments_BL * valid_BL
      return Averaged.of_texts(x_BLD, texts_BL)
    return x_BLD

  def logits(
    self,
    hidden_BLD: jax.Array,
    head: str = "tokens",
    *,
    places_BP: jax.Array | None = None,
    embedder: nn.Module | None = None,
    deterministic: bool = True,
    **head_inputs: jax.Array,
  ) -> jax.Array:
    """The logits of a head.

    Args:
      hidden_BLD: the output of `hidden`.
      head: The name of the head.
      places_BP: The places of which there are logits; all if None.
      embedder: The embedder whose table a tied softmax reads; the model's own
        if None.
      deterministic: no dropout.
      **head_inputs: further keyword arguments of the head.

    Returns:
      float32 [B, P, K], or [B, L, K] of all places.

    Raises:
      UserError: there is no such head.
    """
    self.check_head(head)
    if isinstance(hidden_BLD, MaskDecoded | Averaged):
      hidden_BLD = hidden_BLD.read_by(self.heads.parts[head])
    x_BPD = hidden_BLD
    if places_BP is not None:
      x_BPD = jnp.take_along_axis(hidden_BLD, places_BP[..., None], axis=1)
    if self.pooler is not None and self.heads.parts[head].reads_pooled:
      x_BPD = self.pooler(x_BPD)
    return self.heads(
      head,
      x_BPD,
      embedder=self.token_embedder if embedder is None else embedder,
      deterministic=deterministic,
      **head_inputs,
    )

  def check_head(self, head: str) -> None:
    """Raises UserError if there is no head of this name."""
    if head not in self.heads.parts:
      has = ", ".join(map(repr, self.heads.parts)) or "none"
      raise UserError(
        f"the model has no head {head!r}; it has {has}: choose heads and "
        "objective by one file of gin_configs/heads/, after the file of the run"
      )

  def all_logits(
    self,
    batch: Mapping[str, jax.Array],
    embedder: nn.Module | None = None,
  ) -> dict[str, jax.Array]:
    """The logits of every head by name, of the first place if it is pooled.

    A model without heads keeps the parameters of its pooler.

    Args:
      batch: as `hidden` reads it.
      embedder: as in `hidden` and `logits`.
    """
    hidden_BLD = self.hidden(batch, embedder=embedder)
    rows = batch["encoder_input_tokens"].shape[0]
    first_B1 = jnp.zeros((rows, 1), jnp.int32)
    if self.pooler is not None and not self.heads.parts:
      self.pooler(hidden_BLD[:, :1])
    return {
      name: self.logits(
        hidden_BLD,
        name,
        places_BP=first_B1 if part.reads_pooled else None,
        embedder=embedder,
      )
      for name, part in self.heads.parts.items()
    }

  def _embedded(self, tokens_BL, types_BL, embedder=None) -> jax.Array:
    """Token and segment embeddings; the Transformer adds positions."""
    embed = self.token_embedder if embedder is None else embedder
    x_BLD = embed(tokens_BL)
    if self.token_type_embedder is None:
      return x_BLD
    if types_BL is None:
      types_BL = jnp.zeros_like(tokens_BL)
    return x_BLD + self.token_type_embedder(types_BL).astype(x_BLD.dtype)


def _direction(visible: Callable[[int], jax.Array] | None) -> str:
  """The direction in which a token sees, as `Offers` names it."""
  if visible is None:
    return "both"
  with jax.ensure_compile_time_eval():
    sees_22 = np.asarray(visible(2))[0, 0]
  if sees_22[0, 1] == sees_22[1, 0]:
    return "both"
  return "right_to_left" if sees_22[0, 1] else "left_to_right"


def _with_other_order(x_BLD, others_B, valid_BL) -> jax.Array:
  """Adds the vector of the other order to each row's last token."""
  rows_B = jnp.arange(x_BLD.shape[0])
  other_BD = x_BLD[rows_B, jnp.maximum(others_B, 0)]
  other_BD = jnp.where(others_B[:, None] >= 0, other_BD, 0)
  last_B = jnp.maximum(jnp.sum(valid_BL, axis=1) - 1, 0)
  return x_BLD.at[rows_B, last_B].add(other_BD)
