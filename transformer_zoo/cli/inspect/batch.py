"""Makes a batch of a run again, as a line of its anomalies.jsonl names it.

It needs the run's config.gin and its prepared data, and no model.
"""

import argparse

from transformer_zoo.cli import common

SUMMARY = "the examples of a step of a run"
EXAMPLE = "zoo inspect batch runs/first 1234 --output batch.npz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the run, the step and where the batch goes."""
  parser.add_argument("run_folder", metavar="RUN")
  parser.add_argument("step", type=int, metavar="STEP", help="from 1")
  parser.add_argument("-n", type=int, default=5, help="rows shown")
  parser.add_argument(
    "--prepared_dir", metavar="DIR", help="where the prepared data lies now"
  )
  parser.add_argument(
    "--output", metavar="FILE", help="write the batch, for numpy.load"
  )
  common.add_module_argument(parser)
  common.add_json_argument(parser)


def run(arguments: argparse.Namespace) -> None:
  """Prints where the batch comes from, and its first rows as text."""
  import numpy as np

  from transformer_zoo.runs import past_batch

  batch = past_batch.rebuild(
    arguments.run_folder,
    arguments.step,
    prepared_dir=arguments.prepared_dir,
  )
  if arguments.output:
    np.savez(arguments.output, **batch.features)
  rows = [
    batch.texts(row) for row in range(min(arguments.n, batch.origin["rows"]))
  ]
  if arguments.json:
    common.print_json({"origin": batch.origin, "rows": rows})
    return
  for name, value in batch.origin.items():
    print(f"{name}: {value}")
  for number, row in enumerate(rows):
    for name, texts in row.items():
      print(f"row {number}, {name}: {' | '.join(texts)}")
