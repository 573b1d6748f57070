"""Examples made in Python: all of them, in order, whatever their size."""

import pytest
import tensorflow as tf

from tasks.sources import python_examples

SIGNATURE = {
  "text": tf.TensorSpec((), tf.string),
  "answers": tf.TensorSpec((None,), tf.string),
  "number": tf.TensorSpec((), tf.int32),
  "right": tf.TensorSpec((), tf.bool),
}


@pytest.mark.parametrize(
  "number, length", [(0, 1), (1, 1), (700, 3), (5, 3 << 20)]
)
def test_examples_come_as_they_were_made(number, length):
  made = [
    {
      "text": f"{i} \u00fc" + "x" * length,
      "answers": [f"{i} {k}" for k in range(i % 3)],
      "number": i,
      "right": i % 2 == 0,
    }
    for i in range(number)
  ]
  dataset = python_examples.to_dataset(lambda: iter(made), SIGNATURE)
  for _ in range(2):  # anew each time
    read = [
      {
        "text": example["text"].decode(),
        "answers": [answer.decode() for answer in example["answers"]],
        "number": int(example["number"]),
        "right": bool(example["right"]),
      }
      for example in dataset.as_numpy_iterator()
    ]
    assert read == made
