"""Objectives on sentences for readers with SeqIO."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.sentences.documents import Sentences
from transformer_zoo.data import vocabularies
from transformer_zoo.data.loader import sentence_source
from transformer_zoo.data.prepare.shards import SENTENCE_LENGTHS
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import tensorflow as tf

# Examples that are made together; changes speed and nothing else.
_BLOCK = 64


def examples_of(
  dataset: "tf.data.Dataset",
  objective: sentence_source.Objective,
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
    vocabulary: of the tokens.
    seed: with the number of an example the key of what it draws.

  Raises:
    UserError: the documents do not tell their sentences; while reading, if
      there is too little text.
  """
  import tensorflow as tf  # pylint: disable=g-import-not-at-top

  if SENTENCE_LENGTHS not in dataset.element_spec:
    raise UserError(
      f"{type(objective).__name__} needs the sentences of its documents; let "
      "TokenizeSentences stand in the place of the task's tokenize."
    )

  def generate() -> Iterator[dict[str, np.ndarray]]:
    text = _read(dataset)
    starts, ends = sentence_source.cut(objective, text, length, "The dataset")
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
  if isinstance(objective, sentence_source.Pairs):
    names += ["token_types", objective.label]
  return tf.data.Dataset.from_generator(
    generate,
    output_signature={name: tf.TensorSpec([None], tf.int32) for name in names},
  )


def _read(dataset: "tf.data.Dataset") -> Sentences:
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
