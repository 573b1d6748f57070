"""Targets that are written from right to left, the last word first."""

from collections.abc import Callable
from typing import Any

import seqio
import tensorflow as tf


@seqio.map_over_dataset
def right_to_left(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Turns the words of the targets round: 'a red fox' becomes 'fox red a'.

  A model of such targets generates from right to left, as in Sennrich et al.
  2016, "Edinburgh Neural Machine Translation Systems for WMT 16".

  Args:
    example: The texts of an example, `targets` among them.
  """
  words = tf.strings.split(example["targets"])
  turned = tf.strings.reduce_join(tf.reverse(words, [0]), separator=" ")
  return example | {"targets": turned}


def add_right_to_left(name: str, postprocess_fn: Callable[..., Any]) -> None:
  """Registers `NAME_right_to_left`, a task with its targets turned round.

  Args:
    name: The name of a registered task that tokenizes its texts.
    postprocess_fn: The function that reads an answer from its last word on,
      as `post_processors.right_to_left` does.
  """
  task = seqio.TaskRegistry.get(name)
  texts = task.preprocessors.index(seqio.preprocessors.tokenize)
  seqio.TaskRegistry.add(
    f"{name}_right_to_left",
    source=task.source,
    preprocessors=[
      *task.preprocessors[:texts],
      right_to_left,
      *task.preprocessors[texts:],
    ],
    output_features=task.output_features,
    postprocess_fn=postprocess_fn,
    metric_fns=task.metric_fns,
  )
