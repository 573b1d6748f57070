"""T5's own vocabulary, and others, which find their files at first use.

32,000 SentencePiece pieces trained on English, German, French and Romanian
web text (`cc_all.32000` of the t5 package) and 100 sentinels.
"""

from collections.abc import Mapping
import dataclasses
import os

import seqio

from tasks.sources import data_folders
from transformer_zoo.data import vocabularies
from transformer_zoo.data.features import forms
from transformer_zoo.data.vocabularies import tokenizer_classes
from transformer_zoo.data.vocabularies.seqio_vocabularies import LazyVocabulary
from transformer_zoo.errors import UserError

_FILE = "vocab/t5_cc_all_32000/sentencepiece.model"


def t5_vocabulary_file() -> str:
  """Returns the path of T5's SentencePiece model.

  Raises:
    UserError: it is neither where the environment variable `ZOO_VOCABULARY`
      says nor in a data folder, or a class with rules of its own reads it.
  """
  path = os.environ.get("ZOO_VOCABULARY")
  if path:
    if not os.path.isfile(path):
      raise UserError(f"ZOO_VOCABULARY names {path!r}, which is not a file.")
    tokenizer_classes.check_plain(path)
    return path
  path = data_folders.find(_FILE)
  if path is None:
    raise UserError(
      f"T5's vocabulary {_FILE!r} is missing; {data_folders.where_searched()}, "
      "or set ZOO_VOCABULARY to the sentencepiece.model file."
    )
  return path


class T5Vocabulary(seqio.SentencePieceVocabulary):
  """T5's vocabulary.

  All instances with as many sentinels are equal, whether their file has been
  found yet or not.
  """

  def __init__(self, extra_ids: int = 100):
    """Names no file yet.

    Args:
      extra_ids: sentinels behind the pieces; T5 has 100.
    """
    super().__init__("", extra_ids=extra_ids)

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


class FileVocabulary(LazyVocabulary):
  """A vocabulary of any kind, which looks for its files at first use.

  Instances of the same file as it was named, and of as many sentinels and the
  same case, are equal, if both are of targets or neither.
  """

  def __init__(
    self,
    path: str,
    extra_ids: int | None = None,
    lower_case: bool | None = None,
    of_targets: bool = False,
  ):
    """Names the files.

    Args:
      path: The path of the vocabulary, as in `Vocabulary`; absolute, or
        relative to a data folder or to the current one.
      extra_ids: sentinels beside the pieces; see `Vocabulary`.
      lower_case: text is read without case; see `Vocabulary`.
      of_targets: whether targets are read; see `Vocabulary.to_seqio`.
    """
    super().__init__()
    self.of_targets = of_targets
    self._named = (os.fspath(path), extra_ids, lower_case)

  @property
  def zoo_vocabulary(self) -> vocabularies.Vocabulary:
    """The vocabulary; raises UserError where its files are absent or none."""
    path, *settings = self._named
    found = path if path == vocabularies.BYTES else data_folders.find(path)
    if found is None:
      raise UserError(
        f"The vocabulary file {path!r} is missing; "
        f"{data_folders.where_searched()}."
      )
    vocabulary = vocabularies.Vocabulary(found, *settings)
    vocabulary.check()
    return vocabulary

  def __eq__(self, other: object) -> bool:
    return (
      isinstance(other, FileVocabulary)
      and self._named == other._named
      and self.of_targets == other.of_targets
    )

  def __hash__(self) -> int:
    return hash(self._named)


class EncoderVocabulary(FileVocabulary):
  """The vocabulary of benchmarks in the forms of an encoder.

  It is what the environment variable `ZOO_VOCABULARY` names, of any kind, and
  otherwise BERT's without case, in a data folder.
  """

  def __init__(self):
    super().__init__("vocab/bert_uncased_30522/vocab.txt")

  @property
  def zoo_vocabulary(self) -> vocabularies.Vocabulary:
    """The vocabulary; raises UserError where its files are absent or none."""
    path = os.environ.get("ZOO_VOCABULARY")
    if not path:
      return super().zoo_vocabulary
    vocabulary = vocabularies.Vocabulary(path)
    vocabulary.check()
    return vocabulary


def form_features(
  path: str | None = None,
  extra_ids: int | None = None,
  lower_case: bool | None = None,
) -> dict[str, seqio.Feature]:
  """Returns the features of a task in a form of an encoder.

  Args:
    path: The path of the vocabulary, as in `FileVocabulary`; None for the one
      of `EncoderVocabulary`.
    extra_ids: The number of sentinels, as in `FileVocabulary`.
    lower_case: True to lower the case, as in `FileVocabulary`.
  """
  if path is None:
    vocabulary = EncoderVocabulary()
  else:
    vocabulary = FileVocabulary(path, extra_ids, lower_case)
  # Special tokens are put around the texts when an example is read.
  return {
    name: seqio.Feature(vocabulary, add_eos=False) for name in forms.FEATURES
  }


def features(
  path: str | None = None,
  extra_ids: int | None = None,
  lower_case: bool | None = None,
) -> dict[str, seqio.Feature]:
  """Returns the features of a text-to-text task.

  Args:
    path: The path of the vocabulary, as in `FileVocabulary`; None for T5's.
    extra_ids: The number of sentinels, as in `FileVocabulary`.
    lower_case: True to lower the case, as in `FileVocabulary`.
  """
  if path is None:
    return t5_features()
  named = (path, extra_ids, lower_case)
  return {
    "inputs": seqio.Feature(FileVocabulary(*named), required=False),
    "targets": seqio.Feature(FileVocabulary(*named, of_targets=True)),
  }


def without_end(
  features: Mapping[str, seqio.Feature],
) -> dict[str, seqio.Feature]:
  """Returns features whose texts do not end in EOS, for language models."""
  return {
    name: dataclasses.replace(feature, add_eos=False)
    for name, feature in features.items()
  }


def t5_features(extra_ids: int = 100) -> dict[str, seqio.Feature]:
  """Returns the features of a text-to-text task in T5's vocabulary.

  Args:
    extra_ids: The number of sentinels, as in `T5Vocabulary`.
  """
  return {
    "inputs": seqio.Feature(T5Vocabulary(extra_ids), required=False),
    "targets": seqio.Feature(T5Vocabulary(extra_ids)),
  }
