"""Answers texts: given as words, line by line in files, or on standard input.

A line of a .jsonl file is an object with `inputs`, and perhaps a `prefix` that
its answer begins with; other fields are handed through, blank lines skipped.
Every line of another file is a text, a blank one too.
An encoder answers with its head: a class, a number, a choice, a span or tags,
with probabilities or scores behind it; one that was trained on masked tokens
fills [MASK]. Tabs divide a pair, a question and its context, a text and its
choices. --gin.Embedding.pool="'first'" and others say what --embeddings are.
The configuration is the checkpoint's, then runs/infer.gin, then the files of
--gin_file. If these name a model, as a T5X checkpoint needs, the checkpoint's
is left out. --gin.DecodingOptions.num_beams=4 and others say how to search.
"""

import argparse
from collections.abc import Iterator, Mapping
import itertools
from typing import Any

from transformer_zoo.api import configurations
from transformer_zoo.cli import checkpoint_arguments
from transformer_zoo.cli import common
from transformer_zoo.errors import UserError

SUMMARY = "answer texts"
EXAMPLE = (
  "zoo infer --checkpoint runs/first \\\n"
  "    --vocabulary tasks/miniature/vocabulary.model \\\n"
  "    'mini_sst2 sentence: a fine day.'"
)
SWITCHES = {
  "--json": "print JSON Lines, with scores",
  "--interactive": "ask for one text after another",
  "--score": "log-likelihoods of `targets`; after a tab in a line of text",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the checkpoint, inputs and output, and the gin arguments."""
  checkpoint_arguments.add_argument(parser)
  checkpoint_arguments.add_adapter_argument(parser)
  parser.add_argument(
    "inputs",
    nargs="*",
    metavar="TEXT_OR_FILE",
    help="a file's name or a text; standard input, which is -, if left out",
  )
  parser.add_argument(
    "--output",
    metavar="FILE",
    help="JSON Lines, with scores; killed and started again, it is continued",
  )
  parser.add_argument(
    "--embeddings",
    metavar="FILE.npz",
    help="write a vector of each text instead, in their order, by an encoder",
  )
  for switch, effect in SWITCHES.items():
    parser.add_argument(switch, action="store_true", help=effect)
  checkpoint_arguments.add_vocabulary_argument(parser)
  common.add_gin_arguments(parser)
  common.add_process_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
  """Loads, reads the examples, writes an answer for each.

  With several adapters a line with the name of each precedes its answers; all
  answer the same texts, which are read once.
  """
  if len(arguments.adapter) > 1 and (arguments.output or arguments.embeddings):
    raise UserError(
      "--output and --embeddings write the answers of one model; name one "
      "--adapter"
    )
  from transformer_zoo.runs.answers import example_files

  examples = example_files.chosen(
    arguments.inputs,
    output=arguments.output,
    interactive=arguments.interactive,
    scored=arguments.score,
    as_json=arguments.json,
    embeddings=arguments.embeddings,
  )
  copies = itertools.tee(examples, max(len(arguments.adapter), 1))
  adapters = checkpoint_arguments.of_each_adapter(arguments)
  for (name, of_one), copy in zip(adapters, copies, strict=True):
    if len(arguments.adapter) > 1:
      print(f"adapter {name}:", flush=True)
    _infer(of_one, copy)


def _infer(
  arguments: argparse.Namespace, examples: Iterator[Mapping[str, Any]]
) -> None:
  from transformer_zoo.runs.answers import example_files

  extra, defaults = [], []
  if arguments.embeddings:
    extra = ["infer.reading=@Embedding()"]
    fields = configurations.prompts_beside(arguments.checkpoint[0])
    defaults = [f"Embedding.{k}={v!r}" for k, v in fields.items()]
  checkpoint_arguments.load_for_inference(arguments, extra, defaults)
  from transformer_zoo import config

  answers = config.call("infer").answers(
    examples,
    scored=arguments.score,
    one_by_one=arguments.interactive,
    journal_path=example_files.journal_of(arguments.output),
  )
  if arguments.embeddings:
    example_files.write_embeddings(answers, arguments.embeddings)
  elif arguments.output:
    example_files.write(answers, arguments.output)
  else:
    example_files.show(answers, as_json=arguments.json or arguments.score)
