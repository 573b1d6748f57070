"""The contract of a corruption."""

from typing import ClassVar


class Corruption:
  """The base class of corruptions, which are frozen dataclasses.

  Each has `__call__` and `check(lengths, vocabulary)`, which raises UserError
  for lengths or a vocabulary that do not fit and returns the share of examples
  that will lose their end. One that reads chunks has `raw_length(lengths)`, the
  number of tokens of text that an example is made of.

  Attributes:
    layout: The kind of examples that are made: "encoder_decoder", or "encoder",
      whole rows of an encoder.
    unit: The text that is read at a time: a "chunk" of fixed length, a
      "sentence" or a "document".
  """

  layout: ClassVar[str] = "encoder_decoder"
  unit: ClassVar[str] = "chunk"

  def fitting_lengths(self, inputs: int) -> dict[str, int]:
    """Returns the lengths of features that hold nearly all examples.

    Args:
      inputs: The number of tokens of the inputs, EOS included.
    """
    return {"inputs": inputs, "targets": inputs}
