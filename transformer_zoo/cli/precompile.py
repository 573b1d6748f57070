"""Compiles a run's step for devices that need not be there.

The step is the one that `zoo train` makes of the same gin files, for a slice of
TPUs (`v5e:16x16`, `v4:4x4x4`; needs the extra `tpu`), simulated CPU devices
(`cpu:8`) or the GPUs of this machine (`gpu`). No data is read. The exit code is
0 if it fits or nothing is known of the memory, and 4 if it does not fit.
`--search` forecasts every mesh that divides, with several remat policies and
numbers of microbatches, and ranks them; what is in its FILE is not done again.
"""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
from typing import Any

from transformer_zoo.cli import common

SUMMARY = "whether a run fits into a TPU slice that is not there, and how fast"
EXAMPLE = (
  "zoo precompile --topology v5e:4x8 --gin_file=architectures/t5_1_1.gin "
  "--gin_file=sizes/t5_1_1_base.gin --gin_file=runs/pretrain.gin"
)
DOES_NOT_FIT = 4
# The macros that the candidates of a search bind.
_SEARCHED = ("FSDP", "NUM_PARTITIONS", "REMAT", "NUM_MICROBATCHES")
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
  add = parser.add_argument
  add(
    "--search",
    nargs="?",
    const="",
    metavar="FILE",
    help=(
      "rank meshes, remat policies and numbers of microbatches; results "
      "are kept in FILE"
    ),
  )
  add(
    "--topology",
    required=True,
    help="the devices to compile for, such as v5e:16x16, cpu:8 or gpu:1",
  )
  add(
    "--num_slices",
    type=int,
    default=1,
    help="the number of TPU slices of this shape",
  )
  add(
    "--mode",
    default="train",
    help="the program to compile: train (the default) or decode",
  )
  add(
    "--traffic",
    action="store_true",
    help="the bytes of the compiled step by part and kind of operation",
  )
  add(
    "--tokens",
    type=float,
    help="the number of tokens of a whole training, to estimate its days: 1e12",
  )


def run(arguments: argparse.Namespace) -> int:
  """Prints the forecast, or the ranked table."""
  from transformer_zoo import tracing
  from transformer_zoo.forecast import topologies
  from transformer_zoo.precompile import forecasts
  from transformer_zoo.precompile import mesh_search
  from transformer_zoo.precompile import programs
  from transformer_zoo.precompile import report

  programs.check_mode(arguments.mode)
  _load(arguments)
  # Standard output is for the report alone; a trace prints what it chooses.
  with contextlib.redirect_stdout(sys.stderr):
    topology = topologies.find(arguments.topology, arguments.num_slices)
    with tracing.compiling_for(topology.platform):
      if arguments.search is not None:
        rows = _search(arguments, topology)
      else:
        found = forecasts.forecast(topology, arguments.mode, arguments.tokens)
  if arguments.search is not None:
    if arguments.json:
      common.print_json(rows)
    else:
      print(mesh_search.as_text(rows))
    return 0
  report.show(found, arguments.json, arguments.traffic)
  return DOES_NOT_FIT if found.fits is False else 0


def _load(arguments: argparse.Namespace) -> None:
  given = {text.partition("=")[0] for text in arguments.overrides}
  extra = [
    f"train.{parameter}='any'"
    for macro, parameter in _NOT_NEEDED.items()
    if macro not in given
  ]
  common.load_gin(arguments, "train", extra=extra)


def _search(arguments: argparse.Namespace, topology) -> list[dict[str, Any]]:
  """Forecasts every candidate in a process of its own; returns ranked rows.

  A candidate that ends the compiler's process is a row with an error.
  """
  from transformer_zoo import config
  from transformer_zoo.precompile import mesh_search

  tried = mesh_search.candidates(topology, arguments.num_slices)
  command = [
    *(sys.executable, "-m", "transformer_zoo.cli.main", "precompile", "--json"),
    f"--topology={arguments.topology}",
    f"--num_slices={arguments.num_slices}",
    f"--mode={arguments.mode}",
    *(f"--gin_file={name}" for name in arguments.gin_file),
    f"--gin_search_paths={arguments.gin_search_paths}",
    *(f"--module={name}" for name in arguments.module),
    *(f"--gin.{text}" for text in arguments.overrides if _stays(text)),
  ]

  def forecast(overrides) -> dict[str, Any]:
    done = subprocess.run(
      [*command, *(f"--gin.{override}" for override in overrides)],
      capture_output=True,
      text=True,
    )
    if done.stdout:
      return json.loads(done.stdout)
    last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
    return {"error": last[0].removeprefix("zoo: error: ")}

  return mesh_search.search(
    tried,
    forecast,
    report=lambda line: print(line, file=sys.stderr, flush=True),
    journal=pathlib.Path(arguments.search) if arguments.search else None,
    fingerprint=(
      f"{arguments.topology}*{arguments.num_slices} {arguments.mode} "
      f"{config.config_hash('train')}"
    ),
  )


def _stays(override: str) -> bool:
  """Whether the search leaves a macro to the user."""
  return override.partition("=")[0] not in _SEARCHED
