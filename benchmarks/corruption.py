"""Measures every objective: raw tokens/s of its corruption alone.

    python benchmarks/corruption.py --data_dir DATA --json

Corrupts the same batch of random text again and again, 128 rows by default, at
the lengths of each file in `gin_configs/objectives/`, on one thread and in
processor time. Objectives of an encoder are measured in BERT's vocabulary, the
others in T5's; those on sentences (which read the text themselves) are not.
"""

import argparse
import json
import pathlib
import time

import numpy as np

import transformer_zoo
from transformer_zoo import config
from transformer_zoo.corruption import special_tokens
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.data.vocabularies import Vocabulary

GIN = pathlib.Path(transformer_zoo.__file__).parent.parent / "gin_configs"


def vocabularies(data_dir):
  folder = pathlib.Path(data_dir) / "vocab"
  t5 = str(folder / "t5_cc_all_32000" / "sentencepiece.model")
  return {
    # 50 % i.i.d. noise has more spans than T5's 100 sentinels.
    "encoder_decoder": Vocabulary(t5, 400),
    "encoder": Vocabulary(str(folder / "bert_uncased_30522" / "vocab.txt")),
  }


def measure(corrupt, lengths, vocabulary, arguments):
  rows = np.arange(arguments.batch_size)
  generator = np.random.default_rng(0)
  ids = special_tokens.ordinary_ids(vocabulary)
  tokens = generator.choice(ids, (len(rows), corrupt.raw_length(lengths)))
  corrupt(tokens, Draws(0, rows), vocabulary)
  start = time.process_time()
  for step in range(arguments.steps):
    corrupt(tokens, Draws(0, rows + step * len(rows)), vocabulary)
  return arguments.steps * tokens.size / (time.process_time() - start)


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--data_dir", required=True)
  parser.add_argument("--batch_size", type=int, default=128)
  parser.add_argument("--steps", type=int, default=50)
  parser.add_argument("--json", action="store_true", help="one JSON object")
  arguments = parser.parse_args()
  known = vocabularies(arguments.data_dir)
  result = {}
  for path in sorted((GIN / "objectives").glob("*.gin")):
    config.load([f"objectives/{path.name}"], root="CORRUPTION")
    corrupt = config.value("CORRUPTION")
    lengths = config.value("TASK_FEATURE_LENGTHS")
    if hasattr(corrupt, "raw_length"):
      layout = getattr(corrupt, "layout", "encoder_decoder")
      result[path.stem] = measure(corrupt, lengths, known[layout], arguments)
  if arguments.json:
    print(json.dumps(result))
    return
  for name, speed in result.items():
    print(f"{name:44} {speed / 1e6:6.1f} M tokens/s")


if __name__ == "__main__":
  main()
