"""Compiles a run's step for devices that need not be there.

The step is that of `zoo train` with the same gin files, for a slice of TPUs
(`v5e:16x16`, `v4:4x4x4`; needs the extra `tpu`), simulated CPU devices
(`cpu:8`) or the GPUs of this machine (`gpu`). No data is read. The exit code is
0 if it fits or nothing is known of the memory, and 4 if it does not fit.
`--search` forecasts every mesh that divides, with several remat policies and
numbers of microbatches, and ranks them; what is in its FILE is not done again.
"""

import argparse
import contextlib
import sys

from transformer_zoo.cli import common
from transformer_zoo.cli import precompile_search

SUMMARY = "whether a run fits into a TPU slice that is not there, and how fast"
EXAMPLE = (
  "zoo precompile --topology v5e:4x8 --gin_file=architectures/t5_1_1.gin "
  "--gin_file=sizes/t5_1_1_base.gin --gin_file=runs/pretrain.gin"
)
DOES_NOT_FIT = 4
# What `zoo train` has to know and a step does not depend on.
_NOT_NEEDED = {
  "MODEL_DIR": "model_dir",
  "MIXTURE_OR_TASK_NAME": "mixture_or_task_name",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the gin arguments, the topology, what to compile and the search."""
  common.add_gin_arguments(parser)
  common.add_module_argument(parser)
  common.add_json_argument(parser)
  precompile_search.add_argument(parser)
  add = parser.add_argument
  add("--topology", required=True, help="as v5e:16x16, cpu:8 or gpu:1")
  add("--num_slices", type=int, default=1, help="TPU slices of that shape")
  add("--mode", default="train", help="train or decode")
  add("--tokens", type=float, help="of a training, for its days: 1e12")


def run(arguments: argparse.Namespace) -> int:
  """Prints the forecast, or the ranked table."""
  from transformer_zoo.forecast import precompile
  from transformer_zoo.forecast import programs
  from transformer_zoo.forecast import report
  from transformer_zoo.forecast import topologies
  from transformer_zoo.modules import target

  programs.check_mode(arguments.mode)
  _load(arguments)
  # Standard output is for the report alone; a trace tells what it chooses.
  with contextlib.redirect_stdout(sys.stderr):
    topology = topologies.find(arguments.topology, arguments.num_slices)
    with target.compiling_for(topology.platform):
      if arguments.search is not None:
        rows = precompile_search.run(arguments, topology)
      else:
        found = precompile.forecast(topology, arguments.mode, arguments.tokens)
  if arguments.search is not None:
    return precompile_search.show(rows, arguments.json)
  report.show(found, arguments.json)
  return DOES_NOT_FIT if found.fits is False else 0


def _load(arguments: argparse.Namespace) -> None:
  given = {text.partition("=")[0] for text in arguments.overrides}
  extra = [
    f"train.{parameter}=''"
    for macro, parameter in _NOT_NEEDED.items()
    if macro not in given
  ]
  common.load_gin(arguments, "train", extra=extra)
