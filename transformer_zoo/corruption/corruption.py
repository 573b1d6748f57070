"""The contract of a corruption."""

from collections.abc import Mapping
from typing import Any, ClassVar


class Corruption:
  """The base class of corruptions, which are frozen dataclasses.

  Attributes:
    layout: The kind of examples that are made: "encoder_decoder", or "encoder",
      whole rows of an encoder.
    unit: The text that is read at a time: a "chunk" of fixed length, a
      "sentence" or a "document".
  """

  layout: ClassVar[str] = "encoder_decoder"
  unit: ClassVar[str] = "chunk"

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """Checks that the corruption can make examples.

    Args:
      lengths: The tokens of each feature, at most.
      vocabulary: The vocabulary, for its special ids.

    Returns:
      The share of examples that will lose their end, about.

    Raises:
      UserError: They do not fit the corruption.
    """
    raise NotImplementedError

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """Returns the number of tokens of text that an example is made of."""
    raise NotImplementedError

  def fitting_lengths(self, inputs: int) -> dict[str, int]:
    """Returns the lengths of features that hold nearly all examples.

    Args:
      inputs: The number of tokens of the inputs, EOS included.
    """
    return {"inputs": inputs, "targets": inputs}
