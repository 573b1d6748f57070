"""One command in several processes: its arguments, its start, its end."""

import argparse
from collections.abc import Callable, Iterator
import contextlib
import traceback

from transformer_zoo.errors import UserError
from transformer_zoo.processes import clusters
from transformer_zoo.processes import distributed
from transformer_zoo.processes.attendance import Patience

_CRASHED = 1
# A collective that has failed may look like bad input: the news of a dead
# process is under way then.
_NEWS_SECONDS, _NEWS_OF_CRASH_SECONDS = 0.5, 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds where this process stands among several, and how long it waits."""
  group = parser.add_argument_group(
    "several processes", "found by themselves with TPU pods, SLURM, Open MPI"
  )
  group.add_argument(
    "--coordinator_address",
    metavar="HOST:PORT",
    help="where process 0 runs, and a free port there",
  )
  group.add_argument("--process_count", type=int, metavar="N")
  group.add_argument("--process_index", type=int, metavar="I", help="from 0")
  group.add_argument(
    "--multiprocess",
    "--multiprocess_gpu",
    action="store_true",
    help="refuse to run alone, where no other process is found",
  )
  defaults = distributed.DEFAULT_PATIENCE
  for flag, seconds, meaning in (
    ("wait", defaults.come, "for all to come, before the missing are named"),
    ("late", defaults.late, "before those that the others wait for are named"),
    ("silent", defaults.silent, "before one that says nothing counts as dead"),
  ):
    group.add_argument(
      f"--process_{flag}",
      type=float,
      default=seconds,
      metavar="SECONDS",
      help=f"{meaning} ({seconds:g})",
    )


def start(arguments: argparse.Namespace) -> None:
  """Connects this process with the others, if there are any.

  Raises:
    UserError: they do not come, or have other versions.
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
    place,
    Patience(
      arguments.process_wait, arguments.process_late, arguments.process_silent
    ),
  )


@contextlib.contextmanager
def ended_together(
  told: Callable[[BaseException], int],
  expected: tuple[type[BaseException], ...],
) -> Iterator[None]:
  """Ends all processes when one of them ends, and tells them why.

  Args:
    told: prints an expected error and returns the exit code.
    expected: errors that need no traceback.
  """
  try:
    yield
  except SystemExit:  # In all of them: SIGTERM came to one.
    distributed.shut_down()
    raise
  except expected as error:
    distributed.await_verdict(_NEWS_SECONDS)
    if distributed.is_initialized():
      distributed.fail(_sentence(error), told(error))
    raise
  except BaseException as error:
    distributed.await_verdict(_NEWS_OF_CRASH_SECONDS)
    if distributed.is_initialized():
      traceback.print_exc()
      distributed.fail(_sentence(error), _CRASHED)
    raise
  distributed.shut_down()


def _sentence(error: BaseException) -> str:
  known = isinstance(error, (UserError, FloatingPointError))
  return str(error) if known else f"{type(error).__name__}: {error}"
