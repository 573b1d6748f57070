"""Traces of chosen steps, by JAX's own profiler.

A run that takes none does not import this module.
"""

import os
import pathlib
import re

import jax

from transformer_zoo.errors import UserError

FOLDER = "profile"


def parse(text: str, train_steps: int) -> range:
  """Reads `10:13`, steps 10 to 13, both included, or `10`, that step alone.

  Args:
    text: The steps as the user wrote them.
    train_steps: The number of steps of the run.

  Raises:
    UserError: it is written otherwise, or the run has no such steps.
  """
  found = re.fullmatch(r"(\d+)(?::(\d+))?", str(text))
  if not found:
    raise UserError(
      f"--profile is {text!r}; write the steps as 10:13, first and last"
    )
  first = int(found[1])
  last = int(found[2] or first)
  if not 1 <= first <= last <= train_steps:
    raise UserError(
      f"--profile is {text!r}; the steps of this run are 1 to {train_steps}, "
      "and the first comes before the last"
    )
  return range(first, last + 1)


class Profiler:
  """Writes a trace of some steps into the folder of a run."""

  def __init__(self, steps: range, folder: str | os.PathLike[str]):
    """Nothing happens before the first of `steps`.

    Args:
      steps: The steps to trace; a resumed run traces those that remain.
      folder: The run folder.
    """
    self._steps = steps
    self._folder = pathlib.Path(folder) / FOLDER
    self._is_running = self._has_run = False

  def begin(self, number: int) -> None:
    """Begins the trace before its first step.

    Args:
      number: The number of the step that is dispatched next, from 1.
    """
    if number in self._steps and not self._is_running:
      jax.profiler.start_trace(self._folder)
      self._is_running = self._has_run = True
    elif self._steps and number > self._steps[-1]:
      if not self._has_run:
        print("--profile names steps that were made before: no trace is taken")
      self._steps = range(0)

  def finish(self, number: int, result) -> str | None:
    """Ends the trace after its last step.

    Args:
      number: The number of the step that was dispatched last.
      result: The result of that step; the trace ends once it is ready.

    Returns:
      A sentence, at the end of the trace.
    """
    if not self._is_running or number < self._steps[-1]:
      return None
    jax.block_until_ready(result)
    self.close()
    return (
      f"trace of steps {self._steps[0]} to {self._steps[-1]} in "
      f"{self._folder}; see it with TensorBoard's profile plugin or XProf"
    )

  def close(self) -> None:
    """Ends a trace that still runs."""
    if self._is_running:
      jax.profiler.stop_trace()
    self._is_running = False
