"""Programs that run as several processes of this machine."""

from collections.abc import Iterator, Sequence
import contextlib
import signal
import socket
import subprocess
import sys

from tests import quick_compilation

# Starts and ends like a command. What it does is its first argument, in which
# `dispatch` runs commands one after the other.
PROGRAM = """
import argparse, sys
sys.modules["seqio"] = None
from transformer_zoo.cli import main
from transformer_zoo.cli import common
from transformer_zoo.errors import UserError
from transformer_zoo.processes import distributed

def run():
  parser = argparse.ArgumentParser()
  common.add_process_arguments(parser)
  body = sys.argv.pop(1)
  common.start_processes(parser.parse_args())
  exec(body, globals())
  return 0

dispatch, main._dispatch = main._dispatch, lambda argv: run()
sys.exit(main.main())
"""
# One after the other, for as long as it is let.
COLLECTIVES = """
import numpy as np
from jax.experimental import multihost_utils
while True:
  multihost_utils.process_allgather(np.ones(1))
  print("together", flush=True)
"""


def free_address() -> str:
  """An address of this machine that nobody holds."""
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{free.getsockname()[1]}"


class Processes:
  """Processes that were started together."""

  def __init__(
    self,
    programs: Sequence[Sequence[str]],
    *,
    count: int | None = None,
    devices: int = 1,
    first: int = 0,
  ):
    """Starts them.

    Args:
      programs: the words behind `python -c` of each process: the program, its
        body and flags.
      count: how many they are told to be; as many as there are, if None.
      devices: simulated ones of each.
      first: index of the first.
    """
    address = free_address()
    self._devices = devices
    # Of a flag that is given twice the last one counts: the process's own.
    self._commands = [
      [
        *(sys.executable, "-c", *words[:2]),
        f"--coordinator_address={address}",
        f"--process_count={count or len(programs)}",
        f"--process_index={index}",
        *words[2:],
      ]
      for index, words in enumerate(programs, first)
    ]
    self.started: list[subprocess.Popen] = []
    for index in range(len(programs)):
      self.start_again(index)

  def read_until(self, text: str) -> None:
    """Reads what the first one prints, up to a line that has `text`."""
    for line in self.started[0].stdout:
      if text in line:
        return
    raise AssertionError(self.started[0].stderr.read())

  def start_again(self, index: int) -> None:
    """Starts one more process with the arguments of one of them."""
    self.started.append(
      subprocess.Popen(
        self._commands[index],
        env=quick_compilation.environment(self._devices),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
      )
    )

  def signal(self, index: int, number: signal.Signals) -> None:
    """Sends a signal to one of them."""
    self.started[index].send_signal(number)

  def ends(self, first: int | None = None) -> list[tuple[int, str, str]]:
    """Waits for all or the first: exit code, output and errors of each."""
    awaited = self.started[:first]
    written = [process.communicate(timeout=500) for process in awaited]
    return [
      (process.returncode, *texts)
      for process, texts in zip(awaited, written, strict=True)
    ]


def ends(count: int, body: str, **words) -> list[tuple[int, str, str]]:
  """Runs a body, in which the words have values, in processes to their ends."""
  given = "".join(f"{name} = {value!r}\n" for name, value in words.items())
  with running([[PROGRAM, given + body]] * count) as processes:
    return processes.ends()


@contextlib.contextmanager
def running(
  programs: Sequence[Sequence[str]], **options
) -> Iterator[Processes]:
  """Starts processes, none of which outlives the block."""
  processes = Processes(programs, **options)
  try:
    yield processes
  finally:
    for process in processes.started:
      process.kill()
      process.wait()
