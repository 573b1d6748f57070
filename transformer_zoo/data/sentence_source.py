"""Examples of whole sentences: pairs of segments and packed sentences."""

from collections.abc import Mapping

import numpy as np

from transformer_zoo.corruption import sentences
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.sentence_packing import DocSentences
from transformer_zoo.corruption.sentence_packing import FullSentences
from transformer_zoo.corruption.sentence_pairs import NextSentence
from transformer_zoo.corruption.sentence_pairs import SentenceOrder
from transformer_zoo.corruption.sentence_pairs import SentencePair
from transformer_zoo.data import manifest
from transformer_zoo.data.examples import Examples
from transformer_zoo.data.examples import used_tokens
from transformer_zoo.data.token_stream import TokenStream
from transformer_zoo.errors import UserError

Objective = (
  DocSentences | FullSentences | NextSentence | SentenceOrder | SentencePair
)
# Sentences that are looked at together.
_BLOCK = 1 << 20


class SentenceSource:
  """Chunks of sentences as an objective makes examples of them.

  The text is cut once, when the source is opened: 16 bytes of memory per chunk
  and 8 per document. Example i is a pure function of chunk i and of the key.
  """

  cached_bytes = 0
  layout = "encoder"

  def __init__(
    self,
    task: manifest.PreparedTask,
    split: str,
    lengths: Mapping[str, int],
    objective: Objective,
    max_tokens: int | None = None,
  ):
    """Opens the text and cuts it.

    Args:
      task: of unlabelled text whose sentences are split.
      split: one of its splits.
      lengths: tokens of 'inputs' and 'targets', special tokens counted.
      objective: pairs or packed sentences.
      max_tokens: only so many of the first tokens, as far as they are whole
        sentences.

    Raises:
      UserError: the task does not split sentences, or has too few; the lengths
        or the vocabulary do not fit the objective.
    """
    objective.check(lengths, task.vocabulary)
    self.shares_rows = isinstance(objective, DocSentences)
    self._objective = objective
    self._vocabulary = task.vocabulary
    self._length = lengths["inputs"]
    stream = TokenStream(task, split)
    if stream.sentence_ends is None:
      raise UserError(
        f"Task {task.name!r} does not split its documents into sentences, "
        f"which {type(objective).__name__} needs; prepare it with the step "
        "that does."
      )
    num_tokens = used_tokens(task, split, max_tokens)
    self._text = _sentences_of(stream, num_tokens)
    if self._text.num_documents < objective.fewest_documents:
      raise UserError(
        f"Split {split!r} of task {task.name!r} has {self._text.num_documents} "
        f"documents with text; {type(objective).__name__} needs at least "
        f"{objective.fewest_documents}."
      )
    self._starts, self._ends = sentences.cut(
      self._text, objective.chunking(self._length)
    )
    self.num_examples = len(self._starts)
    if not self.num_examples:
      raise UserError(
        f"Split {split!r} of task {task.name!r} has no document with as many "
        f"sentences as {type(objective).__name__} needs."
      )

  def lengths(self, indices: np.ndarray | slice) -> np.ndarray:
    """As `Source.lengths`."""
    starts, ends = self._starts[indices], self._ends[indices]
    lengths = self._objective.lengths(self._text, starts, ends, self._length)
    return lengths.astype(np.int32)[:, None]

  def read(self, indices: np.ndarray, seed: int, keys: np.ndarray) -> Examples:
    """As `Source.read`."""
    features = self._objective(
      self._text,
      self._starts[indices],
      self._ends[indices],
      self._length,
      Draws(seed, keys),
      self._vocabulary,
    )
    return Examples(features, [{} for _ in keys])


def _sentences_of(stream: TokenStream, num_tokens: int) -> sentences.Sentences:
  """Returns the whole sentences among the first tokens of a stream."""
  ends = np.asarray(stream.sentence_ends)
  ends = ends[: np.searchsorted(ends, num_tokens, side="right")]
  if _has_empty(ends):
    ends = np.unique(ends[ends > 0])
  followed = np.searchsorted(ends, stream.document_ends, side="right")
  return sentences.Sentences(
    ends, np.unique(np.append(followed, 0)), stream.read_pieces
  )


def _has_empty(ends: np.ndarray) -> bool:
  """Returns whether a sentence has no token, block by block."""
  return any(
    (np.diff(ends[start : start + _BLOCK + 1]) == 0).any()
    for start in range(0, len(ends), _BLOCK)
  ) or bool(len(ends) and ends[0] == 0)
