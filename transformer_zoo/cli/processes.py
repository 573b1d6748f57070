"""Command-line arguments, start and common end of several processes."""

import argparse
from collections.abc import Callable, Iterator
import contextlib
import traceback

from transformer_zoo.errors import UserError
from transformer_zoo.processes import clusters
from transformer_zoo.processes import distributed

_CRASHED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the place of this process among several and its time limits."""
  group = parser.add_argument_group(
    "several processes", "found without flags on TPU pods, SLURM and Open MPI"
  )
  group.add_argument(
    "--coordinator_address",
    metavar="HOST:PORT",
    help="the host of process 0 and a free port of it",
  )
  group.add_argument("--process_count", type=int, metavar="N")
  group.add_argument("--process_index", type=int, metavar="I", help="from 0")
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


def start(arguments: argparse.Namespace) -> None:
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
