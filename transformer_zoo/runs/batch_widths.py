"""Widths of batches of texts: few, so that few shapes are compiled.

Where a model has learned positions, no batch is so wide for its padding alone
that they do not suffice.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import math

from flax import linen as nn

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.decoding.options import DecodingOptions

# Widths are at least this, and powers of two up to the length.
_NARROWEST = 16


@dataclasses.dataclass(frozen=True)
class Widths:
  """Widths of what a model reads.

  Attributes:
    lengths: feature -> the most tokens.
    decoding: with its `max_length`.
    positions: feature -> how many there are, infinite where any.
    one_sequence: whether inputs and targets share them: there is no encoder.
  """

  lengths: Mapping[str, int]
  decoding: DecodingOptions
  positions: Mapping[str, float]
  one_sequence: bool

  @classmethod
  def of(
    cls,
    model: nn.Module,
    lengths: Mapping[str, int],
    decoding: DecodingOptions,
  ) -> "Widths":
    """Those of an architecture, or of an ensemble of several."""
    members = getattr(model, "members", (model,))
    positions = {
      "inputs": _fewest(map(_encoder_positions, members)),
      "targets": _fewest(member.decoder.num_positions for member in members),
    }
    one_sequence = not hasattr(members[0], "encoder")
    return cls(lengths, decoding, positions, one_sequence)

  def of_prompts(self, inputs: Ragged) -> int:
    """The width of inputs that outputs are made for."""
    room = self.positions["inputs"]
    if self.one_sequence:
      room += self._unread - self.decoding.max_length
    return width(inputs, min(self.lengths["inputs"], room))

  def of_pairs(self, sides: Mapping[str, Ragged]) -> dict[str, int]:
    """The widths of `inputs` and `targets`, by these names.

    Where both are one sequence, it is their sum that has room for every row.
    """
    widths = {
      name: width(side, min(self.lengths[name], self.positions[name]))
      for name, side in sides.items()
    }
    if self.one_sequence:
      longest = sum(side.lengths for side in sides.values()).max()
      room = max(self.positions["targets"] + self._unread, int(longest))
      widths["targets"] = min(widths["targets"], room)
      widths["inputs"] = min(widths["inputs"], room - widths["targets"])
    return widths

  @property
  def _unread(self) -> int:
    """Places of a row that are laid out and not read: that of the start."""
    return int(not self.decoding.start_before_prompt)


def width(rows: Ragged, longest: float) -> int:
  """The next of the widths; at most `longest`, unless a row is longer."""
  needed = int(rows.lengths.max())
  found = _NARROWEST
  while found < needed:
    found *= 2
  return max(min(found, longest), needed)


def _encoder_positions(member: nn.Module) -> int | None:
  """Those that inputs are read with, None if any."""
  encoder = getattr(member, "encoder", None)
  if encoder is None:
    return member.decoder.num_positions
  return getattr(encoder.position_embedder, "num_positions", None)


def _fewest(numbers: Iterable[int | None]) -> float:
  return min((n for n in numbers if n is not None), default=math.inf)
