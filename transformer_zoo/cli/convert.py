"""Converts a checkpoint between Hugging Face, T5X and runs of this package.

The format of the source is recognised. Tensors are read and written one by one;
the target appears when it is whole. A converted run is a checkpoint for `zoo
infer`, `zoo evaluate` and INITIAL_CHECKPOINT_PATH.
"""

import argparse

from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "convert a checkpoint from or to Hugging Face or T5X"
EXAMPLE = "zoo convert downloads/flan-t5-small runs/flan_t5_small"
_ROWS = {
  "vocabulary_size": "embeddings and logits",
  "positions": "learned positions",
}
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds source and target, what is written, and the gin arguments."""
  parser.add_argument("source", metavar="SOURCE")
  parser.add_argument(
    "target", metavar="TARGET", help="folder to write; it must not exist"
  )
  parser.add_argument(
    "--to",
    choices=("adapters", "huggingface", "peft", "t5x", "zoo"),
    help="format of the target; default: zoo, or huggingface for a zoo run",
  )
  parser.add_argument(
    "--vocabulary",
    metavar="FILE",
    help="vocabulary to write beside the weights; not with --to t5x",
  )
  parser.add_argument(
    "--extra_ids",
    type=int,
    metavar="N",
    help="number of sentinels of --vocabulary; T5X's umT5 has 300",
  )
  for name, rows in _ROWS.items():
    parser.add_argument(
      f"--{name}",
      type=int,
      metavar="N",
      help=f"rows of {rows}: the last are cut, new ones are the mean",
    )
  parser.add_argument(
    "--average",
    type=int,
    metavar="N",
    help="write the mean of the last N checkpoints of a zoo run",
  )
  parser.add_argument(
    "--dtype",
    choices=("float32", "bfloat16", "float16"),
    help="type of the numbers, to huggingface; default: float32",
  )
  parser.add_argument(
    "--max_shard_size",
    metavar="SIZE",
    help="largest size of a file, to huggingface; default: 5GB",
  )
  parser.add_argument(
    "--scanned",
    action="store_true",
    help="stack the layers, to t5x, as its scalable_t5 does",
  )
  parser.add_argument(
    "--base",
    metavar="DIR",
    help="directory or run that a directory of `peft` or `adapters` goes over",
  )
  parser.add_argument(
    "--merge",
    action="store_true",
    help="merge LoRA, IA3 or biases of a run into its base",
  )
  common.add_gin_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Converts the checkpoint and prints a summary."""
  from transformer_zoo.conversion import convert

  convert.convert(
    arguments.source,
    arguments.target,
    to=arguments.to,
    gin_files=arguments.gin_file,
    bindings=arguments.overrides,
    search_paths=common.search_paths(arguments),
    vocabulary_path=arguments.vocabulary,
    extra_ids=arguments.extra_ids,
    vocabulary_size=arguments.vocabulary_size,
    positions=arguments.positions,
    average=arguments.average,
    dtype=arguments.dtype,
    max_shard_bytes=_bytes(arguments.max_shard_size),
    scanned=arguments.scanned,
    base=arguments.base,
    merge=arguments.merge,
  )


def _bytes(text: str | None) -> int | None:
  if text is None:
    return None
  number, unit = text[:-2], text[-2:].upper()
  if unit not in _UNITS or not number.isdigit() or int(number) < 1:
    raise UserError(
      f"--max_shard_size is {text!r}; write a number and KB, MB or GB, as in "
      "5GB"
    )
  return int(number) * _UNITS[unit]
