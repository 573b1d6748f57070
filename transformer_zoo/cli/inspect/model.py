"""Shows a model: its tree, its parameters, its FLOPs per token.

Shapes alone are evaluated: no data, no accelerator and no memory is needed,
for the largest sizes too.
"""

import argparse

from transformer_zoo.cli import common

SUMMARY = "the tree, the parameters and the FLOPs per token of a model"
EXAMPLE = (
  "zoo inspect model --gin_file=architectures/t5_1_1.gin "
  "--gin_file=sizes/t5_1_1_small.gin"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the gin arguments, `--module` and `--json`."""
  common.add_gin_arguments(parser)
  common.add_module_argument(parser)
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> None:
  """Prints the tree, the parameter table and the totals."""
  from transformer_zoo.data import user_modules

  # A part of the user's registers with gin when its module is imported.
  user_modules.import_all()
  common.load_gin(arguments, "MODEL")
  from transformer_zoo import config
  from transformer_zoo.training.monitoring import summary

  found = summary.summarize(config.value("MODEL"))
  if arguments.json:
    common.print_json(found)
    return
  print(summary.as_text(found), end="")
