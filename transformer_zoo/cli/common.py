"""Arguments that several subcommands share, and what they do with them."""

import argparse
from collections.abc import Callable, Iterator, Sequence
import contextlib
import importlib
import json
import os
import traceback
from typing import Any

from transformer_zoo.api import configurations
from transformer_zoo.api.library_logs import quiet_stderr
from transformer_zoo.cli import completions
from transformer_zoo.errors import UserError
from transformer_zoo.processes import clusters
from transformer_zoo.processes import distributed

# The exit code of a process that ends the others by a crash.
_CRASHED = 1


def add_gin_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds `--gin_file`, `--gin_search_paths`; main.py reads `--gin.NAME=`."""
  files = parser.add_argument(
    "--gin_file",
    action="append",
    default=[],
    metavar="FILE",
    help="a gin file of yours or a shipped one; repeatable",
  )
  completions.complete(files, "gin_files")
  add_search_paths_argument(parser)
  parser.add_argument(
    "--gin.NAME=VALUE",
    dest="shown_in_help_only",
    action="store_const",
    const=None,
    help="binds a macro (TRAIN_STEPS) or a parameter (Dropout.rate); quote a "
    "string twice: --gin.MODEL_DIR=\"'runs/a'\"",
  )


def add_search_paths_argument(parser: argparse.ArgumentParser) -> None:
  """Adds `--gin_search_paths`."""
  parser.add_argument(
    "--gin_search_paths",
    default="",
    metavar="DIRS",
    help="folders with gin files, separated by commas; searched first",
  )


def add_mixture_argument(
  parser: argparse._ActionsContainer, *, required: bool = True
) -> None:
  """Adds `--mixture`, which names a mixture or a task."""
  mixture = parser.add_argument(
    "--mixture", required=required, help="a mixture or a task"
  )
  completions.complete(mixture, "registered", kinds=("tasks", "mixtures"))


def add_data_argument(parser: argparse.ArgumentParser) -> None:
  """Adds `--data_dir`, which main.py puts into ZOO_DATA_DIR."""
  parser.add_argument(
    "--data_dir",
    action="append",
    default=[],
    metavar="DIR",
    help="folder with raw data (tfds/, text/, vocab/); repeatable",
  )


def add_task_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds `--data_dir`, `--module` and `--skip_bad_rows`."""
  add_data_argument(parser)
  add_module_argument(parser)
  parser.add_argument(
    "--skip_bad_rows",
    action="store_true",
    help="skip bad rows of files and of TFDS data sets, and count them",
  )


def add_module_argument(parser: argparse.ArgumentParser) -> None:
  """Adds `--module`, which main.py puts into ZOO_MODULES."""
  parser.add_argument(
    "--module",
    action="append",
    default=[],
    metavar="NAME",
    help="your Python module of tasks or parts, in the current folder "
    "or on PYTHONPATH; repeatable",
  )


def add_json_argument(parser: argparse.ArgumentParser) -> None:
  """Adds `--json`."""
  parser.add_argument("--json", action="store_true", help="print JSON")


def search_paths(arguments: argparse.Namespace) -> list[str]:
  """The folders of `--gin_search_paths`.

  Raises:
    UserError: One is missing, so that the files of others would be taken.
  """
  paths = [path for path in arguments.gin_search_paths.split(",") if path]
  for path in paths:
    if not os.path.isdir(path):
      raise UserError(f"--gin_search_paths: there is no folder {path!r}")
  return paths


def of_user(arguments: argparse.Namespace) -> configurations.Given:
  """The gin files, overrides and search paths of the command line."""
  return configurations.Given(
    arguments.gin_file, arguments.overrides, search_paths(arguments)
  )


def load_gin(
  arguments: argparse.Namespace,
  root: str,
  *,
  gin_files: Sequence[str] | None = None,
  extra: Sequence[str] = (),
  given: Sequence[str] = (),
  defaults: Sequence[str] = (),
) -> None:
  """Loads the gin files and overrides of the command line.

  Args:
    arguments: The parsed arguments of the command line.
    root: The function to configure; see `config.load`.
    gin_files: The gin files that replace the command line's; None for the
      latter.
    extra: overrides that come before the user's.
    given: The parameters that the caller passes; see `config.load`.
    defaults: The bindings that apply unless others are given; see
      `config.load`.

  Raises:
    UserError: there is no gin file, what `config.load` refuses, or several
      processes have other configurations.
  """
  files = arguments.gin_file if gin_files is None else gin_files
  if not files:
    raise UserError(
      "no configuration: give a gin file (--gin_file), as in the example that "
      "--help ends with"
    )
  configurations.load(
    configurations.Configuration(files, extra, defaults),
    of_user(arguments),
    root,
    given=given,
  )


def parse_lengths(text: str) -> dict[str, int]:
  """Reads `inputs=512,targets=114`.

  Raises:
    UserError: it is written otherwise.
  """
  lengths = {}
  for part in filter(None, text.split(",")):
    name, _, number = part.partition("=")
    if not name or not number.isdigit():
      raise UserError(
        f"--length is {text!r}; write it as inputs=512,targets=114"
      )
    lengths[name] = int(number)
  return lengths


def registered_tasks() -> Any:
  """Imports SeqIO with the project's tasks and mixtures; returns `seqio`."""
  with quiet_stderr():
    from transformer_zoo.data.prepare import registration

    registration.register_tasks(os.environ.get("ZOO_DATA_DIR") or None)
    return importlib.import_module("seqio")


def print_json(value: Any) -> None:
  """Prints JSON, indented."""
  print(json.dumps(value, indent=2, ensure_ascii=False))


def add_process_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the place of this process among several and its time limits."""
  group = parser.add_argument_group(
    "several processes", "found without flags on TPU pods, SLURM and Open MPI"
  )
  group.add_argument(
    "--coordinator_address",
    metavar="HOST:PORT",
    help="the address of process 0: its host and a free port",
  )
  group.add_argument("--process_count", type=int, metavar="N")
  group.add_argument(
    "--process_index",
    type=int,
    metavar="I",
    help="the index of this process, from 0 on",
  )
  group.add_argument(
    "--multiprocess",
    "--multiprocess_gpu",
    action="store_true",
    help="refuse to run alone if no other process is found",
  )
  for flag, seconds, meaning in (
    ("wait", distributed.START_SECONDS, "to wait for all to come"),
    (
      "silent",
      distributed.HEARTBEAT_SECONDS,
      "without a heartbeat after which a process counts as dead",
    ),
  ):
    group.add_argument(
      f"--process_{flag}",
      type=int,
      default=seconds,
      metavar="SECONDS",
      help=f"seconds {meaning} ({seconds})",
    )


def start_processes(arguments: argparse.Namespace) -> None:
  """Connects this process with the others, if there are any.

  Raises:
    UserError: the place of the process is incomplete, or the processes differ
      in their versions.
  """
  place = clusters.find(
    {
      "coordinator": arguments.coordinator_address,
      "count": arguments.process_count,
      "index": arguments.process_index,
    }
  )
  if place is None:
    if arguments.multiprocess:
      raise UserError(
        "--multiprocess is given and no other process is found: give "
        "--coordinator_address, --process_count and --process_index"
      )
    return
  distributed.initialize(
    place, arguments.process_wait, arguments.process_silent
  )


@contextlib.contextmanager
def ended_together(
  report: Callable[[BaseException], int],
  expected: tuple[type[BaseException], ...],
) -> Iterator[None]:
  """Ends all processes when one of them ends, with the reason.

  Args:
    report: a function that prints an expected error and returns its exit code.
    expected: the types of errors that need no traceback.
  """
  try:
    yield
  except SystemExit:  # In all of them: SIGTERM came to one.
    distributed.shut_down()
    raise
  except BaseException as error:
    distributed.begin_to_fail(error)
    if distributed.is_initialized():
      if isinstance(error, expected):
        code = report(error)
      else:
        code = _CRASHED
        traceback.print_exc()
      distributed.fail(_sentence(error), code)
    raise
  distributed.shut_down()


def _sentence(error: BaseException) -> str:
  known = isinstance(error, (UserError, FloatingPointError))
  return str(error) if known else f"{type(error).__name__}: {error}"
