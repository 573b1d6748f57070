"""A corruption as the step of a SeqIO task."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TYPE_CHECKING

import numpy as np

from transformer_zoo.corruption.concatenation import ConcatenatedDocuments
from transformer_zoo.corruption.concatenation import end_id
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.sentences import cutting
from transformer_zoo.corruption.sentences.documents import Sentences
from transformer_zoo.data import vocabularies
from transformer_zoo.data.prepare.shards import SENTENCE_LENGTHS
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import tensorflow as tf


class CorruptionStep:
  """SeqIO preprocessor: joins, cuts and corrupts an unlabelled token stream.

  The `targets` of all documents are joined into one stream, which is cut into
  chunks of `corruption.raw_length(sequence_length)` tokens (the incomplete
  last one is dropped); chunk `index` is corrupted with draws of the key
  `(seed, index)` alone. The loader does the same with the same functions,
  from prepared files, so a task read with SeqIO gives the examples of
  `loader.evaluation_batches`.

  In a task it stands after tokenisation and before `append_eos_after_trim`;
  `prepare` runs the steps before it and leaves the corruption to the loader.
  Objectives on sentences read the whole dataset first (`py`).
  An encoder's rows have no EOS added: the features of a task whose corruption
  makes them say `add_eos=False`.

  Not a dataclass: SeqIO would pass lengths and features to one as fields
  (seqio/utils.py, `add_kwargs_to_transform`).

  Attributes:
    corruption: an object of `transformer_zoo.corruption`.
    seed: first word of the key of every chunk's draws.
  """

  def __init__(
    self, corruption: Callable[..., dict[str, Ragged]], seed: int = 0
  ):
    self.corruption = corruption
    self.seed = seed

  @property
  def __name__(self) -> str:
    """The name of this step in SeqIO's messages."""
    return f"corrupt_{type(self.corruption).__name__}"

  def __call__(
    self,
    dataset: "tf.data.Dataset",
    sequence_length: Mapping[str, int] | None,
    output_features: Mapping[str, Any],
  ) -> "tf.data.Dataset":
    """Returns a dataset of what the corruption makes, int32, without EOS.

    Args:
      dataset: examples with int32 `targets` of any length.
      sequence_length: length of `inputs` and `targets`, EOS included.
      output_features: the task's features; `targets` has the vocabulary.

    Returns:
      examples with `inputs` and `targets`, and what else the layout of the
      corruption has (`weights`, `token_types`, ...).

    Raises:
      UserError: no lengths are given, the corruption does not fit them, or EOS
        would be added to rows that are whole.
    """
    import tensorflow as tf  # pylint: disable=g-import-not-at-top

    if sequence_length is None:
      raise UserError(
        "A corruption needs the lengths of inputs and targets; pass "
        "sequence_length={'inputs': ..., 'targets': ...}."
      )
    self._check_eos(output_features)
    vocabulary = vocabularies.from_seqio(output_features["targets"].vocabulary)
    self.corruption.check(sequence_length, vocabulary)
    if isinstance(self.corruption, cutting.Objective):
      return sentence_examples(
        dataset,
        self.corruption,
        sequence_length["inputs"],
        vocabulary,
        self.seed,
      )
    if isinstance(self.corruption, ConcatenatedDocuments):
      return concatenated_examples(
        dataset, self.corruption, sequence_length, vocabulary, self.seed
      )
    raw_length = self.corruption.raw_length(sequence_length)

    def corrupt(index, tokens):
      draws = Draws(self.seed, np.array([index]))
      return self.corruption(tokens[None], draws, vocabulary)

    # What the features are called, from a text of unknown tokens.
    blank = np.full(raw_length, vocabulary.unk_id or 0, np.int32)
    names = tuple(corrupt(0, blank))

    def values_of(index, tokens):
      example = corrupt(index, tokens)
      return [example[name].values for name in names]

    def to_example(index, tokens):
      values = tf.numpy_function(
        values_of, [index, tokens], [tf.int32] * len(names), stateful=False
      )
      return {
        name: tf.ensure_shape(value, [None])
        for name, value in zip(names, values, strict=True)
      }

    stream = dataset.map(lambda example: example["targets"])
    chunks = stream.rebatch(raw_length, drop_remainder=True).enumerate()
    return chunks.map(to_example, num_parallel_calls=tf.data.AUTOTUNE)

  def _check_eos(self, output_features: Mapping[str, Any]) -> None:
    layout = self.corruption.layout
    whole = isinstance(self.corruption, ConcatenatedDocuments)
    ended = [key for key, value in output_features.items() if value.add_eos]
    if ended and (whole or layout == "encoder"):
      raise UserError(
        f"{type(self.corruption).__name__} makes whole rows, but the task "
        f"would add EOS to {', '.join(map(repr, ended))}; give its features "
        "add_eos=False."
      )


def concatenated_examples(
  dataset: "tf.data.Dataset",
  objective: ConcatenatedDocuments,
  lengths: Mapping[str, int],
  vocabulary: vocabularies.Vocabulary,
  seed: int,
) -> "tf.data.Dataset":
  """Returns the rows of an epoch, those that the loader evaluates on.

  Args:
    dataset: documents as int32 `targets`, without EOS.
    objective: The objective that makes examples of the rows.
    lengths: tokens of `inputs` and `targets`.
    vocabulary: The vocabulary of the tokens.
    seed: The seed of the draws; with the number of a row it is their key.
  """
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  names = ["targets", "segment_lengths"]
  if objective.masking is not None:
    names += ["inputs", "weights"]

  def ended(number, document):
    ids = tf.concat([document["targets"], [end_id(vocabulary)]], axis=0)
    return ids, tf.fill(tf.shape(ids), number)

  def to_values(index, tokens, owners):
    _, counts = np.unique(owners, return_counts=True)
    segments = Ragged(counts.astype(np.int32), np.array([len(counts)]))
    draws = Draws(seed, np.array([index]))
    made = objective(tokens[None], segments, draws, vocabulary)
    return [made[name].values for name in names]

  def to_example(index, row):
    values = tf.numpy_function(
      to_values, [index, *row], [tf.int32] * len(names), stateful=False
    )
    return {
      name: tf.ensure_shape(value, [None])
      for name, value in zip(names, values, strict=True)
    }

  length = objective.row_length(lengths, vocabulary)
  stream = dataset.enumerate().map(ended)
  rows = stream.rebatch(length, drop_remainder=True).enumerate()
  return rows.map(to_example, num_parallel_calls=tf.data.AUTOTUNE)


# Examples that are made together; changes speed and nothing else.
_BLOCK = 64


def sentence_examples(
  dataset: "tf.data.Dataset",
  objective: cutting.Objective,
  length: int,
  vocabulary: vocabularies.Vocabulary,
  seed: int,
) -> "tf.data.Dataset":
  """Returns the examples of an epoch, those that the loader evaluates on.

  A segment may be of any document, so the tokens of the whole dataset are held
  in memory once reading begins; a large corpus is prepared instead.

  Args:
    dataset: documents, tokenised by `TokenizeSentences`.
    objective: pairs or packed sentences.
    length: tokens of a row.
    vocabulary: The vocabulary of the tokens.
    seed: The seed of the draws; with the number of an example it is their key.

  Raises:
    UserError: The sentences of the documents are unknown; while reading, if
      there is too little text.
  """
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  if SENTENCE_LENGTHS not in dataset.element_spec:
    raise UserError(
      f"{type(objective).__name__} needs the sentences of its documents; let "
      "TokenizeSentences stand in the place of the task's tokenize."
    )

  def generate() -> Iterator[dict[str, np.ndarray]]:
    text = _read_documents(dataset)
    starts, ends = cutting.cut(objective, text, length, "The dataset")
    for first in range(0, len(starts), _BLOCK):
      chunks = np.arange(first, min(first + _BLOCK, len(starts)))
      features = objective(
        text,
        starts[chunks],
        ends[chunks],
        length,
        Draws(seed, chunks),
        vocabulary,
      )
      rows = {name: feature.rows() for name, feature in features.items()}
      for row in range(len(chunks)):
        yield {name: some[row] for name, some in rows.items()}

  names = ["inputs", "targets", "weights"]
  if isinstance(objective, cutting.Pairs):
    names += ["token_types", objective.label]
  return tf.data.Dataset.from_generator(
    generate,
    output_signature={name: tf.TensorSpec([None], tf.int32) for name in names},
  )


def _read_documents(dataset: "tf.data.Dataset") -> Sentences:
  """Reads all documents into memory."""
  ids, lengths = [], []
  for document in dataset.as_numpy_iterator():
    ids.append(document["targets"])
    lengths.append(document[SENTENCE_LENGTHS])
  tokens = Ragged.of(ids)

  def read(starts: np.ndarray, sizes: np.ndarray) -> Ragged:
    before = np.cumsum(sizes) - sizes
    places = np.arange(sizes.sum()) + np.repeat(starts - before, sizes)
    return Ragged(tokens.values[places], sizes)

  return Sentences.without_empty(
    np.cumsum(Ragged.of(lengths).values, dtype=np.int64),
    np.cumsum(tokens.lengths),
    read,
  )
