"""Offers of a model: its inputs, sides and heads, in one record."""

from collections.abc import Mapping
import dataclasses

from flax import linen as nn

# How far from a masked token the token stands that predicts it, by the
# direction in which a model sees.
_MASK_OFFSETS = {
  "both": 0,
  "left_to_right": -1,
  "right_to_left": 1,
  "permuted": 0,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Offers:
  """What a model reads and computes: each architecture returns its own.

  Data, training, evaluation, conversion and editing ask this record, and not
  the class or the fields of a model.

  Attributes:
    reads: The features that a batch must have.
    transformers: The Transformers (transformer.py) by side, "encoder" and
      "decoder". A decoder whose layers encode too is there once.
    embedders: The embedder of the tokens of each side that is read; the
      embedder of the last side has a row for each token that the model
      predicts.
    pad_id: The id of padding.
    mask_id: The id of [MASK] that the model itself puts into a text; None if it
      puts none.
    writes: How the model writes text: "answer", a decoder that is fed a start
      token after an encoder has read the text; "continuation" of the text that
      it has read; "masks", one [MASK] after another; None if it writes none.
    direction: The tokens that each token sees: "both" sides, "left_to_right",
      "right_to_left", or "permuted", those before it in a drawn order. That of
      the decoder if there is one; None if members differ.
    heads: The heads by name; empty if the model has one softmax alone.
    num_token_types: The number of token types that are embedded; None if none
      are.
    fine_tuned: The model that is left after pre-training; None for itself.
    members: The models whose logits are averaged; empty if it is one model.
    student: The model that is left when its teacher has gone; None for itself.
  """

  reads: tuple[str, ...]
  transformers: Mapping[str, nn.Module]
  embedders: Mapping[str, nn.Module]
  pad_id: int
  mask_id: int | None = None
  writes: str | None = None
  direction: str | None = "both"
  heads: Mapping[str, nn.Module] = dataclasses.field(default_factory=dict)
  num_token_types: int | None = None
  fine_tuned: nn.Module | None = None
  members: tuple[nn.Module, ...] = ()
  student: nn.Module | None = None

  @property
  def sides(self) -> tuple[str, ...]:
    """The sides of a batch that are read, "encoder" and "decoder"."""
    return tuple(dict.fromkeys(name.partition("_")[0] for name in self.reads))

  def num_positions(self, side: str) -> int | None:
    """The largest number of tokens of a side; None for any number.

    Args:
      side: "encoder" or "decoder". An ensemble has as many as the member with
        the fewest.
    """
    models = [member.offers for member in self.members] or [self]
    every = [each.transformers for each in models]
    numbers = [positions_of(of.get(side, of.get("decoder"))) for of in every]
    return min((n for n in numbers if n is not None), default=None)

  @property
  def num_outputs(self) -> int:
    """The number of tokens that the model predicts."""
    return self.embedders[self.sides[-1]].num_embeddings

  @property
  def has_one_vocabulary(self) -> bool:
    """Whether inputs and outputs are tokens of one table."""
    first, last = (self.embedders[self.sides[place]] for place in (0, -1))
    return first is last

  @property
  def prompt_length(self) -> int:
    """The number of trained vectors that precede each text."""
    return getattr(self.embedders[self.sides[0]], "prompt_length", 0)

  @property
  def has_decoder(self) -> bool:
    """Whether the model predicts the next token, by a decoder."""
    return "decoder" in self.sides

  @property
  def has_encoder(self) -> bool:
    """Whether an encoder reads the inputs."""
    return "encoder" in self.sides

  @property
  def continues(self) -> bool:
    """Whether inputs and outputs are one sequence of a decoder."""
    return self.writes == "continuation"

  @property
  def writes_in_rows(self) -> bool:
    """Whether an encoder writes targets behind inputs in one row."""
    return not self.members and (
      self.writes == "masks" or self.direction == "permuted"
    )

  @property
  def mask_offset(self) -> int:
    """The distance from a masked token to the token that predicts it."""
    return _MASK_OFFSETS[self.direction]


def positions_of(transformer: nn.Module) -> int | None:
  """The number of positions that are embedded; None for any number."""
  return getattr(transformer.position_embedder, "num_positions", None)
