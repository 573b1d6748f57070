"""Writes a model as StableHLO programs that need JAX alone.

FOLDER gets the programs, `generate` and `score` or, of an encoder, `logits`;
the weights, the files of the vocabulary, and a manifest.json that says what the
programs read and give. The configuration is found as `zoo infer` finds it:
--gin.DecodingOptions.num_beams=4 and others say how `generate` searches, and
--gin.TASK_FEATURE_LENGTHS how long texts may be.
"""

import argparse

from transformer_zoo.cli import checkpoint_arguments
from transformer_zoo.cli import common

SUMMARY = "write a model as programs that need JAX alone"
EXAMPLE = (
  "zoo export runs/first exports/first \\\n"
  "    --vocabulary tasks/miniature/vocabulary.model"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the checkpoint, the folder, the platforms and the gin arguments."""
  parser.add_argument("checkpoint", nargs=1, metavar="CHECKPOINT")
  parser.add_argument(
    "folder", metavar="FOLDER", help="folder to write; it must not exist"
  )
  parser.add_argument(
    "--platforms",
    metavar="A,B",
    help="of cpu, cuda, rocm and tpu; default: cpu,cuda,tpu",
  )
  checkpoint_arguments.add_vocabulary_argument(parser)
  common.add_gin_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Loads the checkpoint and writes the folder."""
  checkpoint_arguments.load_for_inference(arguments)
  from transformer_zoo import config
  from transformer_zoo.runs import exported_programs

  named = arguments.platforms
  exported_programs.write_checkpoint(
    arguments.folder,
    config.call("infer"),
    platforms=named.split(",") if named else exported_programs.PLATFORMS,
  )
