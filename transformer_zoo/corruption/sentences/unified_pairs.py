"""UniLM over sentences: four kinds of attention, and next sentence."""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption import unified_lm
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masked_lm import Masking
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.sentences.documents import Chunking
from transformer_zoo.corruption.sentences.documents import masked
from transformer_zoo.corruption.sentences.documents import Sentences
from transformer_zoo.corruption.sentences.segment_pairs import draw_aims
from transformer_zoo.corruption.sentences.segment_pairs import split
from transformer_zoo.corruption.sentences.segment_pairs import with_random_next
from transformer_zoo.corruption.sentences.sentence_pairs import NextSentence


@dataclasses.dataclass(frozen=True)
class UnifiedSentences(NextSentence):
  """UniLM's examples, with next sentence where attention is bidirectional.

  Dong et al. 2019, sections 2.2 and 2.3. Chunks are cut as in `NextSentence`,
  but have two sentences or more. Where attention is of another kind the second
  segment always follows the first, and `next_sentence` is -1.

  Attributes:
    masking: The choice of masked tokens and their replacement: by default the
      paper's cloze.
    random_probability: The probability of a second segment from elsewhere,
      where attention is bidirectional.
    weights: The weights of `ATTENTION_KINDS`, in that order; they need not add
      up to 1.
  """

  masking: Masking = dataclasses.field(default_factory=unified_lm.cloze)
  weights: Sequence[float] = (2, 2, 1, 1)

  def __post_init__(self):
    super().__post_init__()
    weights = unified_lm.checked_weights(type(self).__name__, self.weights)
    object.__setattr__(self, "weights", weights)

  def chunking(self, length: int) -> Chunking:
    """As `NextSentence.chunking`."""
    return Chunking(
      self._room(length), reaching=True, fewest=2, incomplete=False
    )

  def __call__(
    self,
    text: Sentences,
    starts: np.ndarray,
    ends: np.ndarray,
    length: int,
    draws: Draws,
    vocabulary: Any,
  ) -> Mapping[str, Ragged]:
    """As `NextSentence.__call__`, with `attention_kind`."""
    kinds = unified_lm.draw_kinds(self.weights, draws)
    both_ways = kinds == 0
    room = self._room(length)
    aims = draw_aims(room, self.short_probability, draws)
    pair = split(text, starts, ends, aims, draws)
    wanted = np.maximum(aims - pair.lengths[0], 1)
    chances = np.where(both_ways, self.random_probability, 0.0)
    pair = with_random_next(text, pair, wanted, chances, draws)
    rows, sides = self._assemble(text, pair, room, draws, vocabulary)
    types = unified_lm.TOKEN_TYPES[
      np.repeat(kinds, sides.lengths), sides.values
    ]
    labels = np.where(both_ways, pair.labels, -1).astype(np.int32)
    return masked(rows, length, self.masking, draws, vocabulary) | {
      "token_types": Ragged(types, sides.lengths),
      "attention_kind": Ragged.full(kinds[:, None]),
      self.label: Ragged.full(labels[:, None]),
    }
