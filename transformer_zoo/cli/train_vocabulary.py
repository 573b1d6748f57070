"""Learns a vocabulary from text files and measures it on held-out lines.

The folder that is written is a vocabulary by its path, for tasks and for
`zoo infer --vocabulary`.
"""

import argparse
import json

SUMMARY = "learn a vocabulary from text"
EXAMPLE = (
  "zoo train-vocabulary 'DATA/text/wikipedia/train*' --kind unigram "
  "--size 8000 --output vocabularies/wikipedia_8k"
)


OPTIONS = (
  "kind size special_tokens extra_ids character_coverage byte_fallback "
  "lower_case field max_lines seed"
).split()


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the text, the folder, and what the vocabulary is to be."""
  add = parser.add_argument
  add(
    "input",
    nargs="+",
    metavar="FILE",
    help="text or JSON Lines (.jsonl), plain or gzip; glob patterns in quotes",
  )
  add("--output", required=True, metavar="DIR", help="does not exist yet")
  add(
    "--kind",
    required=True,
    help="unigram or bpe (SentencePiece), wordpiece, byte_bpe",
  )
  add("--size", required=True, type=int, help="pieces, without sentinels")
  add(
    "--special_tokens",
    metavar="MODEL",
    help="like: t5, albert (SentencePiece), bert, roberta, gpt2 (byte_bpe)",
  )
  add("--extra_ids", type=int, help="sentinels that a task adds, to report")
  add(
    "--character_coverage",
    type=float,
    default=0.9995,
    metavar="SHARE",
    help="of the text's characters; default 0.9995",
  )
  add(
    "--byte_fallback",
    action="store_true",
    help="SentencePiece: unknown characters are spelt in bytes",
  )
  add("--lower_case", action="store_true", help="read text without case")
  add("--field", default="text", help="of JSON Lines; default text")
  add(
    "--max_lines",
    type=int,
    default=200_000,
    help="more lines are sampled; default 200,000",
  )
  add("--seed", type=int, default=0, help="of the sample")


def run(arguments: argparse.Namespace) -> None:
  """Prints the report as JSON."""
  from transformer_zoo.data.vocabularies import training

  found = training.train_vocabulary(
    arguments.input,
    arguments.output,
    **{name: getattr(arguments, name) for name in OPTIONS},
  )
  print(json.dumps(found, indent=2, ensure_ascii=False))
