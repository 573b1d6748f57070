"""Targets that are written from right to left, the last word first."""

import seqio
import tensorflow as tf


@seqio.map_over_dataset
def right_to_left(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Turns the words of the targets round: 'a red fox' becomes 'fox red a'.

  A model of such targets generates from right to left, as that of Sennrich et
  al. 2016, "Edinburgh Neural Machine Translation Systems for WMT 16", section
  5.1. Answers are read by `post_processors.right_to_left`.

  Args:
    example: The texts of an example, `targets` among them.
  """
  words = tf.strings.split(example["targets"])
  turned = tf.strings.reduce_join(tf.reverse(words, [0]), separator=" ")
  return example | {"targets": turned}
