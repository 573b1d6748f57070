"""Permutation language model: an encoder of two streams.

XLNet (Yang et al. 2019): relative positions with segments, post-norm layers
without biases in attention, orders of prediction, two streams, and memory of
the text before (Dai et al. 2019). `gin_configs/architectures/xlnet.gin` over
the modules below.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.architectures.encoder_only import EncoderOnly
from transformer_zoo.architectures.offers import Offers
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.mask_decoder import MaskDecoded
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.two_streams import Streams


@gin.register
class XLNet(EncoderOnly):
  """An encoder that predicts tokens in a drawn order.

  Where the batch has `encoder_order` [B, L], the head of masked tokens reads
  the query stream of `encoder_predicted_places`; else it reads the contents, of
  which every token sees every other. Token types say which tokens are of one
  segment.

  Attributes:
    query_embedder: gives the vector that the query stream begins with.
    num_stretches: The number of stretches that a row is read in, one after
      another, of equal length but for the last; 1 is no recurrence. Each reads
      what entered the layers for tokens before it as memory, through which no
      gradient goes (Dai et al. 2019, section 3.2).
    memory_length: The most tokens of memory, the last ones before a stretch;
      None for as many as a stretch has.
  """

  query_embedder: nn.Module | None = None
  num_stretches: int = 1
  memory_length: int | None = None

  def __post_init__(self):
    if self.num_stretches < 1:
      raise UserError(
        f"XLNet.num_stretches is {self.num_stretches}; it must be at least 1"
      )
    if self.memory_length is not None and self.memory_length < 1:
      raise UserError(
        f"XLNet.memory_length is {self.memory_length}; it must be at "
        "least 1 token, or None; without memory bind "
        "XLNet.num_stretches = 1"
      )
    if self.averages:
      raise UserError(
        "XLNet.averages is True; its heads of texts read one token: "
        "bind EncoderOnly.averages = False"
      )
    super().__post_init__()

  @property
  def offers(self) -> Offers:
    """What the model reads and computes."""
    return dataclasses.replace(super().offers, direction="permuted")

  def hidden(
    self,
    batch: Mapping[str, jax.Array],
    *,
    deterministic: bool = True,
    embedder: nn.Module | None = None,
  ) -> jax.Array | MaskDecoded:
    """The output of the layers.

    Args:
      batch: as `EncoderOnly.hidden`'s, with `encoder_order` [B, L], the number
        of each predicted token in the order of prediction and -1 for the
        others, and `encoder_predicted_places` [B, P]; or without an order.
      deterministic: no dropout.
      embedder: as in `EncoderOnly.hidden`.

    Returns:
      [B, L, D], 0 at padding; with an order `MaskDecoded`, whose second part is
      the query stream, 0 at places that are not predicted.
    """
    tokens_BL = batch["encoder_input_tokens"]
    length = tokens_BL.shape[1]
    embed = self.token_embedder if embedder is None else embedder
    x_BLD = embed(tokens_BL)
    vector_D = self.query_embedder().astype(x_BLD.dtype)
    sees = _sees(batch, tokens_BL != self.pad_id)
    places_BP = batch["encoder_predicted_places"] if "query" in sees else None
    size = -(-length // self.num_stretches)
    memory_length = self.memory_length or size
    contents, queries_BPD, memories = [], 0.0, {}
    for first in range(0, length, size):
      from_ = max(0, first - memory_length)
      last = min(first + size, length)
      read = slice(first, last), slice(from_, last)
      x, keywords = x_BLD[:, read[0]], {}
      if places_BP is not None:
        shape = (*places_BP.shape, x.shape[-1])
        x = Streams(x, jnp.broadcast_to(vector_D, shape))
        keywords["of_queries"] = _of_queries(sees, places_BP, *read)
      output, states_NBLD = self.encoder(
        x,
        mask_B1LM=_with_earlier(sees, sees["content"], *read)[:, None],
        differs_BLM=sees["differs"][:, *read],
        positions=_positions(first - from_, last - first),
        by_layer=memories,
        with_states=True,
        deterministic=deterministic,
        **keywords,
      )
      states_NBMD = jax.lax.stop_gradient(states_NBLD)
      if memories:
        earlier_NBMD = memories["earlier_BMD"]
        states_NBMD = jnp.concatenate([earlier_NBMD, states_NBMD], axis=2)
      memories = {"earlier_BMD": states_NBMD[:, :, -memory_length:]}
      if places_BP is not None:
        here_BP1 = _within(places_BP, read[0])[..., None]
        queries_BPD += jnp.where(here_BP1, output.query_BPD, 0)
        output = output.content_BLD
      contents.append(output)
    valid_BL1 = (tokens_BL != self.pad_id)[..., None]
    hidden_BLD = jnp.where(valid_BL1, jnp.concatenate(contents, axis=1), 0)
    if places_BP is None:
      return hidden_BLD
    rows_B1 = jnp.arange(len(tokens_BL))[:, None]
    masked_BLD = jnp.zeros_like(hidden_BLD)
    masked_BLD = masked_BLD.at[rows_B1, places_BP].set(queries_BPD)
    predicted_BL1 = (batch["encoder_order"] >= 0)[..., None]
    return MaskDecoded(hidden_BLD, jnp.where(predicted_BL1, masked_BLD, 0))


def _sees(batch, valid_BL) -> dict[str, Any]:
  """Returns masks [B, L, L]: of contents, of queries, of pairs of two segments.

  A predicted token is seen by those after it in the order of prediction; the
  others, whose number is -1, are seen by all and see no predicted one.
  """
  seen_BLL = masks.padding_mask(valid_BL, valid_BL)[:, 0]
  if (segments_BL := batch.get("encoder_segment_ids")) is not None:
    seen_BLL &= masks.segment_mask(segments_BL, segments_BL)[:, 0]
  types_BL = batch.get("encoder_token_types")
  if types_BL is None:
    types_BL = jnp.zeros_like(valid_BL, jnp.int32)
  found = {
    "read": seen_BLL,
    "content": seen_BLL,
    "differs": types_BL[:, :, None] != types_BL[:, None, :],
  }
  if (order_BL := batch.get("encoder_order")) is not None:
    query_BL1, key_B1L = order_BL[:, :, None], order_BL[:, None, :]
    found["query"] = seen_BLL & ((key_B1L < 0) | (query_BL1 > key_B1L))
    itself_1LL = jnp.eye(valid_BL.shape[1], dtype=bool)[None]
    found["content"] = found["query"] | (seen_BLL & itself_1LL)
  return found


def _with_earlier(sees, mask_BLM, queries: slice, keys: slice) -> jax.Array:
  """Whom a stretch sees, [B, L, M]: its memory as a whole."""
  before_M = jnp.arange(keys.start, keys.stop) < queries.start
  return jnp.where(
    before_M[None, None],
    sees["read"][:, queries, keys],
    mask_BLM[:, queries, keys],
  )


def _of_queries(sees, places_BP, queries: slice, keys: slice):
  """The arguments of attention for the query stream of one stretch.

  What places of other stretches see does not matter: their output is not used.
  """

  def at_places(array_BLL):
    return jnp.take_along_axis(array_BLL, places_BP[..., None], axis=1)

  picked = {
    name: at_places(sees[name]) for name in ("read", "query", "differs")
  }
  keys_11M = jnp.arange(keys.start, keys.stop)[None, None]
  mask_BPM = jnp.where(
    keys_11M < queries.start,
    picked["read"][:, :, keys],
    picked["query"][:, :, keys],
  )
  farthest = keys.stop - keys.start - 1
  distance_BPM = keys_11M - places_BP[..., None]
  return {
    "mask_B1LM": mask_BPM[:, None],
    "differs_BLM": picked["differs"][:, :, keys],
    "row_1LM": jnp.clip(farthest - distance_BPM, 0, 2 * farthest),
  }


def _within(places_BP, stretch: slice) -> jax.Array:
  return (places_BP >= stretch.start) & (places_BP < stretch.stop)


def _positions(earlier: int, size: int) -> Positions:
  """Those of a stretch of `size` tokens, behind `earlier` ones of memory."""
  return Positions(
    jnp.arange(earlier, earlier + size)[None],
    jnp.arange(earlier + size)[None],
    bidirectional=True,
  )
