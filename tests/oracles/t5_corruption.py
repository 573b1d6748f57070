"""Runs the t5 package's corruption functions: a process of its own.

Reads a JSON object from standard input and writes one to standard output:

    {"rewrites": [name, ...], "tokens": [[...], ...], "masks": [[...], ...],
     "vocab_size": n, "lengths": [[inputs, density, mean], ...]}
    -> {"rewrites": {name: [[...], ...]}, "lengths": [[raw, targets], ...]}
"""

import json
import sys
import types

from t5.data import preprocessors
import tensorflow as tf


def main():
  """Answers one request."""
  asked = json.load(sys.stdin)
  vocabulary = types.SimpleNamespace(vocab_size=asked["vocab_size"])
  rewritten = {
    name: [
      getattr(preprocessors, name)(
        tf.constant(tokens, tf.int32),
        tf.constant(mask, tf.bool),
        vocabulary,
        seeds=tf.zeros((2, 2), tf.int32),
      )
      .numpy()
      .tolist()
      for tokens, mask in zip(asked["tokens"], asked["masks"], strict=True)
    ]
    for name in asked["rewrites"]
  }
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
  json.dump({"rewrites": rewritten, "lengths": lengths}, sys.stdout)


if __name__ == "__main__":
  main()
