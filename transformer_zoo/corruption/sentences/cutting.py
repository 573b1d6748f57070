"""Chunks of sentences: a text cut for an objective on whole sentences."""

import numpy as np

from transformer_zoo.corruption.sentences import documents
from transformer_zoo.corruption.sentences.sentence_packing import DocSentences
from transformer_zoo.corruption.sentences.sentence_packing import FullSentences
from transformer_zoo.corruption.sentences.sentence_pairs import NextSentence
from transformer_zoo.corruption.sentences.sentence_pairs import SentenceOrder
from transformer_zoo.corruption.sentences.sentence_pairs import SentencePair
from transformer_zoo.errors import UserError

Pairs = NextSentence | SentenceOrder | SentencePair
Objective = Pairs | DocSentences | FullSentences


def cut(
  objective: Objective, text: documents.Sentences, length: int, where: str
) -> tuple[np.ndarray, np.ndarray]:
  """Cuts a text for an objective.

  Args:
    objective: pairs or packed sentences.
    text: The sentences of the text.
    length: tokens of a row.
    where: The name of the text in messages.

  Returns:
    starts and ends of the chunks, as `sentences.cut`.

  Raises:
    UserError: there is too little text.
  """
  name = type(objective).__name__
  if text.num_documents < objective.fewest_documents:
    raise UserError(
      f"{where} has {text.num_documents} documents with text; {name} needs at "
      f"least {objective.fewest_documents}."
    )
  starts, ends = documents.cut(text, objective.chunking(length))
  if not len(starts):
    raise UserError(
      f"{where} has no document with as many sentences as {name} needs."
    )
  return starts, ends
