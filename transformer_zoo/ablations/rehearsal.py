"""A few steps of a run, to see how long it will take on this machine.

Three times: what is compiled is kept on disk for the run itself, the second
time it is loaded, and the third time it is there, as it is for a study's
later runs.
"""

from collections.abc import Sequence
import contextlib
import os
import pathlib
import shutil

import gin

from transformer_zoo import config
from transformer_zoo.ablations import execution
from transformer_zoo.ablations import plan
from transformer_zoo.ablations import speeds
from transformer_zoo.experiment import reuse
from transformer_zoo.experiment import train
from transformer_zoo.training import loop

# Enough that the last of them are as fast as those of a long run.
STEPS = 24
# Programs are compiled, found on disk, and kept in memory.
PARTS = ("compiled", "loaded", "kept")
_LAPS = 4  # Of which the last has steps alone.


def rehearse(
  run: plan.Run,
  folder: pathlib.Path,
  cache: pathlib.Path,
  search_paths: Sequence[str | os.PathLike[str]] = (),
) -> tuple[speeds.Speed, ...]:
  """Trains a run's first steps, from fresh parameters; evaluates them twice.

  Args:
    run: one that trains; its data is read.
    folder: for the time being.
    cache: folder of compiled programs.
    search_paths: folders for gin files.

  Returns:
    How fast it is, for each of `PARTS`.

  Raises:
    Exception: whatever ends the training.
  """
  try:
    with (
      execution.shared_compilations(cache),
      open(os.devnull, "w", encoding="utf-8") as nothing,
      contextlib.redirect_stdout(nothing),
    ):
      first, *others = [folder / name for name in PARTS]
      with reuse.reused():
        compiled = _train(run, first, search_paths, compiled=True)
      with reuse.reused():
        return compiled, *(_train(run, part, search_paths) for part in others)
  finally:
    shutil.rmtree(folder, ignore_errors=True)


def _train(run, folder, search_paths, compiled=False) -> speeds.Speed:
  bindings = plan.run_bindings(run.command, run.random_seed, folder)
  try:
    config.load((), bindings, search_paths, changes=run.changes)
    kind = speeds.Kind.of_loaded()
    half = STEPS // 2
    config.call(
      "train",
      train_steps=STEPS,
      periods=loop.Periods(STEPS // _LAPS, checkpoint=half, evaluate=half),
      initial_checkpoint=train.FROM_SCRATCH,
    )
    return speeds.measured(folder, kind, rehearsed=True, compiled=compiled)
  finally:
    gin.clear_config()
