"""The search of `zoo precompile`: every candidate in a process of its own."""

import argparse
import json
import pathlib
import subprocess
import sys
from typing import Any

from transformer_zoo.cli import common

# Macros of what candidates bind themselves.
_SEARCHED = ("FSDP", "NUM_PARTITIONS", "REMAT", "NUM_MICROBATCHES")


def add_argument(parser: argparse.ArgumentParser) -> None:
  """Adds `--search`."""
  parser.add_argument(
    "--search",
    nargs="?",
    const="",
    metavar="FILE",
    help="rank meshes, remat policies and microbatches, kept in FILE",
  )


def run(arguments: argparse.Namespace, topology) -> list[dict[str, Any]]:
  """Forecasts all candidates; the rows of `mesh_search.search`.

  A candidate that kills the compiler is a row with an error.
  """
  from transformer_zoo import config
  from transformer_zoo.forecast import mesh_search

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


def show(rows: list[dict[str, Any]], as_json: bool) -> None:
  """Prints the ranked rows."""
  from transformer_zoo.forecast import mesh_search

  if as_json:
    common.print_json(rows)
  else:
    print(mesh_search.as_text(rows))
