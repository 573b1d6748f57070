"""Examples of whole sentences: pairs of segments and packed sentences."""

from collections.abc import Mapping

import numpy as np

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.sentences import cutting
from transformer_zoo.corruption.sentences import documents
from transformer_zoo.corruption.sentences.sentence_packing import DocSentences
from transformer_zoo.data.loader.examples import Examples
from transformer_zoo.data.loader.examples import used_tokens
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage.token_stream import TokenStream
from transformer_zoo.errors import UserError


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
    objective: cutting.Objective,
    max_tokens: int | None = None,
  ):
    """Opens the text and cuts it.

    Args:
      task: A task of unlabelled text with split sentences.
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
    ends = np.asarray(stream.sentence_ends)
    used = np.searchsorted(
      ends, used_tokens(task, split, max_tokens), side="right"
    )
    self._text = documents.Sentences.without_empty(
      ends[:used], stream.document_ends, stream.read_pieces
    )
    self._starts, self._ends = cutting.cut(
      objective,
      self._text,
      self._length,
      f"Split {split!r} of task {task.name!r}",
    )
    self.num_examples = len(self._starts)

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
