"""Documents joined by EOS and cut in rows, for readers with SeqIO."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from transformer_zoo.corruption.concatenation import ConcatenatedDocuments
from transformer_zoo.corruption.concatenation import end_id
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data import vocabularies

if TYPE_CHECKING:
  import tensorflow as tf


def examples_of(
  dataset: "tf.data.Dataset",
  objective: ConcatenatedDocuments,
  lengths: Mapping[str, int],
  vocabulary: vocabularies.Vocabulary,
  seed: int,
) -> "tf.data.Dataset":
  """Returns the rows of an epoch, those that the loader evaluates on.

  Args:
    dataset: documents as int32 `targets`, without EOS.
    objective: what is made of a row.
    lengths: tokens of `inputs` and `targets`.
    vocabulary: of the tokens.
    seed: with the number of a row the key of what it draws.
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
