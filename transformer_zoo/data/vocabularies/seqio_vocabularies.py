"""The same vocabularies for SeqIO tasks; imported where SeqIO is wanted."""

from collections.abc import Sequence
import functools
import typing

import numpy as np
import seqio
import tensorflow as tf

from transformer_zoo.data.vocabularies import files

if typing.TYPE_CHECKING:
  from transformer_zoo.data.vocabularies.vocabulary import Vocabulary


def to_seqio(
  vocabulary: "Vocabulary", of_targets: bool = False
) -> seqio.Vocabulary:
  """Returns SeqIO's own vocabulary of that kind, or an adapter.

  SeqIO's SentencePiece vocabulary has padding 0 and takes EOS from the model
  file; its WordPiece vocabulary gives a scalar for a text of one piece.

  Args:
    vocabulary: The vocabulary of a task.
    of_targets: whether it reads what a model is to write (Marian).
  """
  if vocabulary.kind == "bytes":
    return seqio.ByteVocabulary(vocabulary.extra_ids)
  read_by_class = vocabulary.lower_case or vocabulary.rules
  if vocabulary.kind == "sentencepiece" and not read_by_class:
    (path,) = files.recognise(vocabulary.path).paths
    theirs = seqio.SentencePieceVocabulary(path, vocabulary.extra_ids)
    if (theirs.pad_id, theirs.eos_id) == (vocabulary.pad_id, vocabulary.eos_id):
      return theirs
  return AdaptedVocabulary(vocabulary, of_targets)


class LazyVocabulary(seqio.Vocabulary):
  """A vocabulary of SeqIO's whose files are looked for at first use.

  A subclass has a property `zoo_vocabulary` that finds them.
  """

  zoo_vocabulary: "Vocabulary"
  of_targets = False

  @functools.cached_property
  def _found(self) -> seqio.Vocabulary:
    return to_seqio(self.zoo_vocabulary, self.of_targets)

  @property
  def extra_ids(self) -> int:
    return self._found.extra_ids

  @property
  def vocab_size(self) -> int:
    return self._found.vocab_size

  @property
  def _base_vocab_size(self) -> int:
    return self._found._base_vocab_size

  @property
  def pad_id(self) -> int:
    return self._found.pad_id

  @property
  def eos_id(self) -> int | None:
    return self._found.eos_id

  @property
  def unk_id(self) -> int | None:
    return self._found.unk_id

  @property
  def bos_id(self) -> int | None:
    return self._found.bos_id

  def _encode(self, s: str) -> Sequence[int]:
    return self._found._encode(s)

  def _decode(self, ids: Sequence[int]) -> str:
    return self._found._decode(ids)

  def _encode_tf(self, s: tf.Tensor) -> tf.Tensor | tf.RaggedTensor:
    return self._found._encode_tf(s)

  def _decode_tf(self, ids: tf.Tensor) -> tf.Tensor:
    return self._found._decode_tf(ids)


class AdaptedVocabulary(seqio.Vocabulary):
  """A `Vocabulary` as one of SeqIO's, in Python within TensorFlow's graph.

  Attributes:
    zoo_vocabulary: the adapted one.
    of_targets: True for the vocabulary of targets, as in `to_seqio`.
  """

  def __init__(self, vocabulary: "Vocabulary", of_targets: bool = False):
    """Adapts `vocabulary`, whose files are still read at first use."""
    super().__init__()
    self.zoo_vocabulary = vocabulary
    self.of_targets = of_targets

  @property
  def extra_ids(self) -> int:
    return self.zoo_vocabulary.extra_ids

  @property
  def vocab_size(self) -> int:
    return self.zoo_vocabulary.size

  @property
  def _base_vocab_size(self) -> int:
    # SeqIO reads ids from here on as unknown: sentinels are none.
    return self.zoo_vocabulary.size

  @property
  def pad_id(self) -> int:
    return self.zoo_vocabulary.pad_id

  @property
  def eos_id(self) -> int | None:
    return self.zoo_vocabulary.eos_id

  @property
  def unk_id(self) -> int | None:
    return self.zoo_vocabulary.unk_id

  @property
  def bos_id(self) -> int | None:
    return self.zoo_vocabulary.bos_id

  def _encode(self, s: str | bytes) -> Sequence[int]:
    return self._encode_batch([tf.compat.as_text(s)])[0]

  def _encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
    if self.of_targets:
      return [self.zoo_vocabulary.encode_targets(text) for text in texts]
    return self.zoo_vocabulary.encode_batch(texts)

  def _decode(self, ids: Sequence[int]) -> str:
    return self.zoo_vocabulary.decode(ids)

  def _encode_tf(self, s: tf.Tensor) -> tf.Tensor | tf.RaggedTensor:
    """Texts [] or [n] to int32 ids [length], or [n, (lengths)]."""

    def encode(texts):
      rows = self._encode_batch([text.decode("utf-8") for text in texts])
      ids = np.array([i for row in rows for i in row], np.int32)
      return ids, np.array([len(row) for row in rows], np.int64)

    s = tf.convert_to_tensor(s)
    ids, lengths = tf.numpy_function(
      encode, [tf.reshape(s, [-1])], (tf.int32, tf.int64), stateful=False
    )
    ids = tf.ensure_shape(ids, [None])
    if s.shape.rank == 0:
      return ids
    return tf.RaggedTensor.from_row_lengths(
      ids, tf.ensure_shape(lengths, [None])
    )

  def _decode_tf(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    """Ids [length] or [n, length] to texts [] or [n]."""
    if isinstance(ids, tf.RaggedTensor):
      ids = ids.to_tensor(default_value=self.pad_id)
    rows = ids[tf.newaxis] if ids.shape.rank == 1 else ids

    def decode(rows):
      texts = [self.zoo_vocabulary.decode(row) for row in rows.tolist()]
      return np.array([text.encode("utf-8") for text in texts], object)

    texts = tf.numpy_function(decode, [rows], tf.string, stateful=False)
    texts = tf.ensure_shape(texts, [None])
    return texts[0] if ids.shape.rank == 1 else texts

  def __eq__(self, other: object) -> bool:
    return (
      isinstance(other, AdaptedVocabulary)
      and self.zoo_vocabulary == other.zoo_vocabulary
      and self.of_targets == other.of_targets
    )

  def __hash__(self) -> int:
    return hash(self.zoo_vocabulary)

  def __str__(self) -> str:
    return f"AdaptedVocabulary({self.zoo_vocabulary!r})"
