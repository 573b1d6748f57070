"""Runs the t5 package's corruption functions: a process of its own.

Reads a JSON object from standard input and writes one to standard output:

    {"rewrites": [name, ...], "tokens": [[...], ...], "masks": [[...], ...],
     "vocab_size": n, "lengths": [[inputs, density, mean], ...],
     "noise": [[name, length, {keyword: value}], ...],
     "documents": [[...], ...], "row_length": n}
    -> {"rewrites": {name: [[...], ...]}, "places": {name: [[...], ...]},
        "lengths": [[raw, targets], ...], "noise": [[...], ...],
        "full_lm": [[...], ...]}

`full_lm` are the rows of the documents. `places` is what a rewrite makes of the
places 0, 1, ... in place of the tokens, with the same draws.
"""

import json
import sys
import types

from t5.data import preprocessors
import tensorflow as tf


def _seeds(number: int, row: int) -> tf.Tensor:
  return tf.constant([[row, i] for i in range(number)], tf.int32)


def _rewritten(name, tokens, masks, vocabulary):
  return [
    getattr(preprocessors, name)(
      tf.constant(row, tf.int32),
      tf.constant(mask, tf.bool),
      vocabulary,
      seeds=_seeds(2, i),
    )
    .numpy()
    .tolist()
    for i, (row, mask) in enumerate(zip(tokens, masks, strict=True))
  ]


def _full_lm(documents, length):
  dataset = tf.data.Dataset.from_generator(
    lambda: ({"targets": document} for document in documents),
    output_signature={"targets": tf.TensorSpec([None], tf.int32)},
  )
  vocabulary = types.SimpleNamespace(eos_id=1)
  feature = types.SimpleNamespace(vocabulary=vocabulary, add_eos=True)
  rows = preprocessors.full_lm(
    dataset, {"targets": length}, {"targets": feature}
  )
  return [row["targets"].tolist() for row in rows.as_numpy_iterator()]


def main():
  """Answers one request."""
  asked = json.load(sys.stdin)
  vocabulary = types.SimpleNamespace(vocab_size=asked["vocab_size"])
  tokens, masks = asked["tokens"], asked["masks"]
  places = [list(range(len(row))) for row in tokens]
  lengths = [
    preprocessors.random_spans_helper(
      inputs_length=inputs,
      noise_density=density,
      mean_noise_span_length=mean,
      extra_tokens_per_span_inputs=1,
      extra_tokens_per_span_targets=1,
    )
    for inputs, density, mean in asked["lengths"]
  ]
  noise = [
    getattr(preprocessors, name)(length, seeds=_seeds(2, i), **keywords)
    .numpy()
    .tolist()
    for i, (name, length, keywords) in enumerate(asked["noise"])
  ]
  answer = {
    "rewrites": {
      name: _rewritten(name, tokens, masks, vocabulary)
      for name in asked["rewrites"]
    },
    "places": {
      name: _rewritten(name, places, masks, vocabulary)
      for name in asked["rewrites"]
    },
    "lengths": lengths,
    "noise": noise,
    "full_lm": _full_lm(asked["documents"], asked["row_length"]),
  }
  json.dump(answer, sys.stdout)


if __name__ == "__main__":
  main()
