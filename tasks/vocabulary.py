"""T5's own vocabulary as a SeqIO vocabulary that finds its file at first use.

32,000 SentencePiece pieces trained on English, German, French and Romanian
web text (`cc_all.32000` of the t5 package) and 100 sentinels.
"""

import os

import seqio

from tasks import data_folders
from transformer_zoo.errors import UserError

_FILE = "vocab/t5_cc_all_32000/sentencepiece.model"


def t5_vocabulary_file() -> str:
  """Returns the path of T5's SentencePiece model.

  Raises:
    UserError: it is neither where the environment variable `ZOO_VOCABULARY`
      says nor in a data folder.
  """
  path = os.environ.get("ZOO_VOCABULARY")
  if path:
    if not os.path.isfile(path):
      raise UserError(f"ZOO_VOCABULARY names {path!r}, which is not a file.")
    return path
  path = data_folders.find(_FILE)
  if path is None:
    raise UserError(
      f"T5's vocabulary {_FILE!r} is missing; {data_folders.where_searched()}, "
      "or set ZOO_VOCABULARY to the sentencepiece.model file."
    )
  return path


class T5Vocabulary(seqio.SentencePieceVocabulary):
  """SeqIO's SentencePiece vocabulary, looking for T5's file at first use.

  All instances are equal, whether their file has been found yet or not.
  """

  def __init__(self):
    super().__init__("", extra_ids=100)

  @property
  def sentencepiece_model_file(self) -> str:
    """The path of the model file; raises UserError where there is none."""
    return t5_vocabulary_file()

  def _model_context(self):
    if self._model is None:
      self._model = seqio.SentencePieceVocabulary(
        self.sentencepiece_model_file, self.extra_ids
      )._model_context()
    return self._model


def t5_features() -> dict[str, seqio.Feature]:
  """Returns the features of a text-to-text task in T5's vocabulary."""
  return {
    "inputs": seqio.Feature(T5Vocabulary(), required=False),
    "targets": seqio.Feature(T5Vocabulary()),
  }
