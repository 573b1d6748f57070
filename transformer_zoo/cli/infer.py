"""Answers texts: given as words, line by line in files, or on standard input.

A line of a file that ends in .jsonl is a JSON object with `inputs`; its other
fields are handed through. Any other line is a text. Without --gin_file the
configuration is the config.gin of the checkpoint's own run, with
runs/infer.gin; how to search say --gin.DecodingOptions.num_beams=4 and others.
"""

import argparse
import json
import os
import pathlib

from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "answer texts"
EXAMPLE = (
  "zoo infer --checkpoint runs/first \\\n"
  "    --vocabulary tasks/miniature/vocabulary.model \\\n"
  "    'mini_sst2 sentence: a fine day.'"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the checkpoint, inputs and output, and the gin arguments."""
  parser.add_argument("--checkpoint", required=True, metavar="DIR")
  parser.add_argument(
    "inputs",
    nargs="*",
    metavar="TEXT_OR_FILE",
    help="what names a file is read, anything else is a text; standard input "
    "if left out",
  )
  parser.add_argument(
    "--output",
    metavar="FILE",
    help="JSON Lines, with scores; killed and started again, it is continued",
  )
  parser.add_argument(
    "--json", action="store_true", help="print JSON Lines, with scores"
  )
  parser.add_argument(
    "--interactive", action="store_true", help="ask for one text after another"
  )
  parser.add_argument(
    "--score",
    action="store_true",
    help="log-likelihoods of given `targets`; a text line has them after a tab",
  )
  parser.add_argument(
    "--vocabulary",
    metavar="FILE",
    help="a vocabulary's file or folder, if not that of the task trained on or "
    "the one that a converted checkpoint came with",
  )
  common.add_gin_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Loads, reads the examples, writes an answer for each."""
  if arguments.interactive and (arguments.inputs or arguments.output):
    raise UserError("--interactive takes neither texts nor files nor --output")
  folder = os.path.dirname(arguments.output or "")
  if folder and not os.path.isdir(folder):
    raise UserError(f"there is no folder {folder!r} for the output")
  gin_files, extra = common.configuration_of_checkpoint(arguments, "infer")
  extra = [*extra, f"CHECKPOINT_PATH={arguments.checkpoint!r}"]
  vocabulary = arguments.vocabulary or common.vocabulary_of_checkpoint(
    arguments.checkpoint
  )
  if vocabulary:
    extra.append(f"VOCABULARY_PATH={vocabulary!r}")
  common.load_gin(
    arguments,
    "infer",
    gin_files=gin_files,
    extra=extra,
    given=["examples"],
  )
  from transformer_zoo import config
  from transformer_zoo.experiment import example_files
  from transformer_zoo.experiment import run_folder

  if arguments.interactive:
    examples = example_files.asked(scored=arguments.score)
  else:
    examples = example_files.read(arguments.inputs, scored=arguments.score)
  journal = f"{arguments.output}.journal" if arguments.output else None
  answers = config.call(
    "infer",
    examples=examples,
    scored=arguments.score,
    one_by_one=arguments.interactive,
    journal_path=journal,
  )
  as_json = arguments.json or arguments.score
  if arguments.output:
    lines = [f"{_line(answer)}\n" for answer in answers]
    run_folder.replace(pathlib.Path(arguments.output), "".join(lines))
    os.remove(journal)
    return
  for answer in answers:
    print(_line(answer) if as_json else answer["prediction"], flush=True)


def _line(answer: dict) -> str:
  return json.dumps(answer, ensure_ascii=False)
