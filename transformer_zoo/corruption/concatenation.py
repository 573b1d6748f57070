"""Documents joined into one stream and cut in rows."""

from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption.corruption import Corruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masked_lm import check_encoder_lengths
from transformer_zoo.corruption.masked_lm import Masking
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class ConcatenatedDocuments(Corruption):
  """Every row is full: it goes on where the row before ended.

  EOS stands behind each document. In packed batches every document of a row has
  its segment id and positions, which begin with the row anew where a document
  goes on; in others a model sees the whole row (GPT-2).

  Attributes:
    masking: makes rows of an encoder, `[CLS]` before the stream, with hidden
      tokens (RoBERTa's rows without sentences); None makes the targets of a
      language model.
  """

  masking: Masking | None = None
  unit = "document"

  def __post_init__(self):
    if self.masking is not None and not isinstance(self.masking, Masking):
      raise UserError(
        f"ConcatenatedDocuments.masking is {self.masking!r}; it must be "
        "@Masking() or None."
      )

  @property
  def layout(self) -> str:
    """'encoder' with masking, 'encoder_decoder' without."""
    return "encoder" if self.masking else "encoder_decoder"

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """Refuses lengths and vocabularies that do not suit.

    Returns:
      the share of examples whose targets will be cut: none.

    Raises:
      UserError: as `MaskedLanguageModel.check`, with masking; the vocabulary
        has nothing to end a document with.
    """
    if self.masking is not None:
      check_encoder_lengths(lengths, 3)
      self.masking.check(vocabulary)
    if end_id(vocabulary) is None:
      raise UserError(
        "ConcatenatedDocuments puts EOS behind each document, and the "
        "vocabulary has neither EOS nor [SEP]; use one that has."
      )
    return 0.0

  def row_length(self, lengths: Mapping[str, int], vocabulary: Any) -> int:
    """Returns the tokens of the stream in a row."""
    if self.masking is None:
      return lengths["targets"]
    return lengths["inputs"] - (vocabulary.cls_id is not None)

  def __call__(
    self,
    tokens: np.ndarray,
    segment_lengths: Ragged,
    draws: Draws,
    vocabulary: Any,
  ) -> dict[str, Ragged]:
    """Makes the examples of some rows of the stream.

    Args:
      tokens: int32 [B, row length].
      segment_lengths: tokens of each document in a row.
      draws: source of randomness, one key per row.
      vocabulary: The vocabulary of the tokens.

    Returns:
      `targets` and `segment_lengths`; with masking `inputs` and `weights` too.
    """
    if self.masking is None:
      return {
        "targets": Ragged.full(tokens),
        "segment_lengths": segment_lengths,
      }
    if vocabulary.cls_id is not None:
      tokens = np.insert(tokens, 0, vocabulary.cls_id, axis=1)
      sizes = segment_lengths.values.copy()
      sizes[segment_lengths.starts] += 1
      segment_lengths = Ragged(sizes, segment_lengths.lengths)
    inputs, hidden = self.masking(tokens, draws, vocabulary)
    return {
      "inputs": Ragged.full(inputs),
      "targets": Ragged.full(tokens),
      "weights": Ragged.full(hidden.astype(np.int32)),
      "segment_lengths": segment_lengths,
    }


def end_id(vocabulary: Any) -> int | None:
  """Returns the id behind a document: [SEP] where there is no EOS."""
  return vocabulary.sep_id if vocabulary.eos_id is None else vocabulary.eos_id
