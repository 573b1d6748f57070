"""Rank classification by the t5 package, in a process of its own.

`python -m tests.oracles.t5.t5_rank_classification` reads {'rows', 'inputs',
'choices', 'mode', 'weight'} from its standard input and writes the examples,
with what its postprocessor makes of their targets.
"""

import json
import sys

from t5.data import postprocessors
from t5.data import preprocessors
import tensorflow as tf


def main() -> None:
  """Answers one request."""
  request = json.load(sys.stdin)
  rows = request["rows"]
  dataset = preprocessors.rank_classification_formatter(
    tf.data.Dataset.from_tensor_slices(
      {field: [row[field] for row in rows] for field in rows[0]}
    ),
    inputs_formats=request["inputs"],
    targets_formats=request["choices"],
    mode=request["mode"],
    weight_key=request["weight"],
  )
  print(json.dumps([_plain(e) for e in dataset.as_numpy_iterator()]))


def _plain(example):
  target = postprocessors.rank_classification(
    "", example={**example, "targets": [1, 2]}, is_target=True
  )
  return {
    "inputs": example["inputs"].decode(),
    "targets": example["targets"].decode(),
    "idx": example["idx"].tolist(),
    "is_correct": bool(example["is_correct"]),
    "weight": float(example["weight"]),
    "target": [
      [int(i) for i in target[0]],
      bool(target[1]),
      float(target[2]),
      target[3],
    ],
  }


if __name__ == "__main__":
  main()
