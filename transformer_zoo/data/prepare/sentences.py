"""Documents as sentences: a step of SeqIO tasks that tokenises them apart."""

from collections.abc import Mapping, Sequence
from typing import Any, TYPE_CHECKING

import numpy as np

from transformer_zoo.data import vocabularies
from transformer_zoo.data.prepare.shards import SENTENCE_LENGTHS
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import tensorflow as tf


class TokenizeSentences:
  """SeqIO preprocessor: tokenises the `targets` of documents by sentence.

  In a task it stands in the place of `seqio.preprocessors.tokenize`, and
  `prepare` notes where each sentence ends (`TokenStream.sentence_ends`).
  The package sentencex finds the sentences; those without tokens are left out.

  Not a dataclass: SeqIO would pass features to one as fields.

  Attributes:
    language: code of the text's language, as in 'en'.
  """

  def __init__(self, language: str = "en"):
    if not language or not isinstance(language, str):
      raise UserError(
        f"The language of sentences is {language!r}; give its code, as in 'en'."
      )
    self.language = language

  @property
  def __name__(self) -> str:
    """The name of this step in SeqIO's messages."""
    return f"tokenize_sentences_{self.language}"

  def __call__(
    self, dataset: "tf.data.Dataset", output_features: Mapping[str, Any]
  ) -> "tf.data.Dataset":
    """Returns `targets` as ids, int32, and the tokens of each sentence."""
    import tensorflow as tf  # pylint: disable=g-import-not-at-top

    vocabulary = vocabularies.from_seqio(output_features["targets"].vocabulary)

    def tokenize(text):
      return encode([text.decode("utf-8")], vocabulary, self.language)[::2]

    def to_ids(example):
      ids, lengths = tf.numpy_function(
        tokenize, [example["targets"]], (tf.int32, tf.int32), stateful=False
      )
      return example | {
        "targets": tf.ensure_shape(ids, [None]),
        SENTENCE_LENGTHS: tf.ensure_shape(lengths, [None]),
      }

    return dataset.map(to_ids, num_parallel_calls=tf.data.AUTOTUNE)


def split(text: str, language: str) -> list[str]:
  """Returns the sentences of a document, in order."""
  import sentencex  # pylint: disable=g-import-not-at-top

  return [part for part in sentencex.segment(language, text) if part.strip()]


def encode(
  texts: Sequence[str], vocabulary: vocabularies.Vocabulary, language: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Tokenises documents by sentence.

  Args:
    texts: documents.
    vocabulary: theirs.
    language: code of theirs.

  Returns:
    the joined ids, int32 [tokens]; the tokens of each document, int32
    [documents]; the tokens of each sentence, int32 [sentences].
  """
  parts = [split(text, language) for text in texts]
  ids = vocabulary.encode_arrays([part for some in parts for part in some])
  sentences = np.array([len(some) for some in ids], np.int32)
  ends = np.cumsum([0, *(len(some) for some in parts)])
  before = np.concatenate([[0], np.cumsum(sentences)])
  documents = np.diff(before[ends]).astype(np.int32)
  joined = np.concatenate(ids) if ids else np.zeros(0, np.int32)
  return joined, documents, sentences[sentences > 0]
