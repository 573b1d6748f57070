"""Answers each line of a text file, or of standard input.

Without --gin_file the configuration is the config.gin of the checkpoint's own
run, with runs/infer.gin.
"""

import argparse
import contextlib
import sys

from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "answer the lines of a text file"
EXAMPLE = (
  "echo 'mini_sst2 sentence: a fine day.' | zoo infer "
  "--checkpoint runs/first --vocabulary tasks/miniature/vocabulary.model"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the checkpoint, input and output, and the gin arguments."""
  parser.add_argument("--checkpoint", required=True, metavar="DIR")
  parser.add_argument(
    "input", nargs="?", metavar="FILE", help="standard input if left out"
  )
  parser.add_argument(
    "--output", metavar="FILE", help="standard output if left out"
  )
  parser.add_argument(
    "--vocabulary",
    metavar="FILE",
    help="of any kind, if not that of the task trained on",
  )
  common.add_gin_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Loads, reads the lines, writes an answer for each."""
  extra = [f"CHECKPOINT_PATH={arguments.checkpoint!r}"]
  if arguments.vocabulary:
    extra.append(f"VOCABULARY_PATH={arguments.vocabulary!r}")
  common.load_gin(
    arguments,
    "infer",
    gin_files=common.files_of_checkpoint(arguments, "infer"),
    extra=extra,
    given=["texts"],
  )
  from transformer_zoo import config

  texts = _read(arguments.input)
  with contextlib.ExitStack() as stack:
    output = sys.stdout
    if arguments.output:
      output = stack.enter_context(
        open(arguments.output, "w", encoding="utf-8")
      )
    for answer in config.call("infer", texts=texts):
      print(answer, file=output, flush=True)


def _read(path: str | None) -> list[str]:
  if path is None:
    return sys.stdin.read().splitlines()
  try:
    with open(path, encoding="utf-8") as lines:
      return lines.read().splitlines()
  except (OSError, UnicodeDecodeError) as error:
    raise UserError(f"cannot read the input {path!r}: {error}") from error
