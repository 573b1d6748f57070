"""The text that a model reads before it makes targets: inputs, or a prompt.

An encoder-decoder and a prefix language model read inputs in training, with the
EOS that the task gives them. A language model of targets alone reads one text:
asked about inputs, it takes them as the beginning of a text that the targets
continue, and so without their EOS.
"""

from collections.abc import Mapping

import numpy as np

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters


def continues(converter: converters.Converter) -> bool:
  """Whether targets continue inputs that the converter leaves out."""
  return "inputs" not in converter.features


def with_inputs(converter: converters.Converter) -> converters.Converter:
  """The converter, or one that lays out what a language model continues."""
  if continues(converter):
    return converters.PrefixLanguageModel(bos_id=converter.bos_id)
  return converter


def with_room(
  converter: converters.Converter, lengths: Mapping[str, int]
) -> Mapping[str, int]:
  """The lengths, in which a text to continue may be as long as targets.

  Language modelling sets the length of its empty inputs to 1.
  """
  if not continues(converter):
    return lengths
  longest = max(lengths.get("inputs", 1), lengths["targets"])
  return {**lengths, "inputs": longest}


def without_end(sequences: Ragged, eos_id: int) -> Ragged:
  """The sequences without the EOS that they end in."""
  kept = np.ones(len(sequences.values), bool)
  filled = sequences.lengths > 0
  ends = (sequences.starts + sequences.lengths - 1)[filled]
  kept[ends] = sequences.values[ends] != eos_id
  return sequences.where(kept)
