"""Asks checkpoints what they know: questions with a gap and two fillings.

Every model answers by its own means: a language model by what it continues
with, an encoder-decoder by the span of a sentinel, an encoder by its mask. The
table has a row for each checkpoint and the percentage of questions whose right
filling is likelier for each language and kind; of bias, the percentage of pairs
whose stereotype is likelier. Minimal pairs of sentences come from files.
"""

import argparse

from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "ask checkpoints questions by kind of knowledge"
EXAMPLE = "zoo probe runs/first runs/second --kinds syntax,lexical"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the checkpoints and what is asked."""
  parser.add_argument(
    "checkpoints",
    nargs="+",
    metavar="CHECKPOINT",
    help="run folders, steps of runs or Hugging Face directories",
  )
  parser.add_argument(
    "--all_steps", action="store_true", help="every saved step of each run"
  )
  parser.add_argument(
    "--languages", default="en,ko", metavar="A,B", help="en, ko or both"
  )
  parser.add_argument(
    "--kinds", metavar="A,B", help="kinds of questions; all by default"
  )
  parser.add_argument(
    "--pairs",
    action="append",
    metavar="FILE",
    help="minimal pairs as of BLiMP, CrowS-Pairs and WinoBias, or a suite of "
    "SyntaxGym (.json), instead of the questions; repeatable",
  )
  parser.add_argument(
    "--facts",
    action="append",
    metavar="PATH",
    help="facts as LAMA or mLAMA has them, a .jsonl file or a folder of them, "
    "instead of the questions; repeatable",
  )
  parser.add_argument(
    "--words",
    metavar="FILE",
    help="the words, one on each line, among which an object of --facts is to "
    "be the first; all tokens by default",
  )
  parser.add_argument(
    "--vocabulary", metavar="FILE", help="if none lies beside a checkpoint"
  )
  parser.add_argument(
    "--batch_size", type=int, default=32, metavar="N", help="rows of a batch"
  )
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> None:
  """Asks every checkpoint and prints the table."""
  from transformer_zoo.evaluation.probes import pairs
  from transformer_zoo.evaluation.probes import questions
  from transformer_zoo.evaluation.probes import suites
  from transformer_zoo.runs import inputs
  from transformer_zoo.runs.analysis import probing

  inputs.check_at_least(1, batch_size=arguments.batch_size)
  if arguments.facts:
    _recall(arguments)
    return
  if arguments.words:
    raise UserError("--words are those of --facts; give both, or neither")
  kinds = arguments.kinds.split(",") if arguments.kinds else questions.KINDS
  asked_suites = []
  if arguments.pairs:
    is_suite = {path: path.endswith(".json") for path in arguments.pairs}
    asked_suites = [suites.read(path) for path in is_suite if is_suite[path]]
    files = [path for path in is_suite if not is_suite[path]]
    asked = [pair for path in files for pair in pairs.read(path)]
  else:
    asked = questions.questions(arguments.languages.split(","), kinds)
  found = [
    probing.probe(
      path,
      asked,
      suites=asked_suites,
      vocabulary_path=arguments.vocabulary,
      batch_size=arguments.batch_size,
      whole=bool(arguments.pairs),
    )
    for path in _paths(arguments)
  ]
  if arguments.json:
    common.print_json(found)
  elif arguments.pairs:
    print(probing.table_of_pairs(found))
  else:
    print(probing.table(found))


def _paths(arguments) -> list[str]:
  """The checkpoints that are asked."""
  from transformer_zoo.runs.analysis import probing

  paths = arguments.checkpoints
  if arguments.all_steps:
    paths = [step for path in paths for step in probing.steps_of(path)]
  return paths


def _recall(arguments) -> None:
  """Asks for the objects of facts and prints the table."""
  from transformer_zoo.evaluation.probes import relations
  from transformer_zoo.runs.analysis import recall

  if arguments.pairs:
    raise UserError(
      "--pairs and --facts are asked one at a time; leave one out"
    )
  facts = [each for path in arguments.facts for each in relations.read(path)]
  words = arguments.words and recall.read_words(arguments.words)
  found = [
    recall.recall(
      path,
      facts,
      vocabulary_path=arguments.vocabulary,
      words=words,
      batch_size=arguments.batch_size,
    )
    for path in _paths(arguments)
  ]
  if arguments.json:
    common.print_json(found)
  else:
    print(recall.table(found))
