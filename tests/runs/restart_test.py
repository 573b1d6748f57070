"""Killed and started again by the same command, a run ends the same."""

import functools
import json
import pathlib
import random
import signal
import time

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

pytestmark = pytest.mark.slow

STEPS = 12
# Enough evaluation and saving that kills meet both.
OVERRIDES = ("CHECKPOINT_PERIOD=1", "EVAL_PERIOD=2", "DROPOUT_RATE=0.1")
TIMEOUT = 120


def finish(process) -> str:
  output, _ = process.communicate(timeout=TIMEOUT)
  assert process.returncode == 0, output
  return output


def content(folder: pathlib.Path) -> dict:
  """All that a finished run computed: metrics, predictions, last state."""
  last = folder / "checkpoints" / str(STEPS)
  result = json.loads((folder / "result.json").read_text())
  del result["seconds"], result["seconds_by_part"]
  return {
    "metrics": (folder / "metrics.jsonl").read_bytes(),
    "result": result,
    "predictions": {
      path.relative_to(folder).as_posix(): path.read_bytes()
      for path in sorted((folder / "predictions").rglob("*.jsonl"))
    },
    "state": arrays(last),
    "best": arrays(folder / "checkpoints" / str(result["best_step"])),
  }


def arrays(step_folder: pathlib.Path) -> dict[str, bytes]:
  with ocp.PyTreeCheckpointer() as checkpointer:
    there = checkpointer.metadata(step_folder / "state").item_metadata.tree
    arguments = jax.tree.map(
      lambda _: ocp.RestoreArgs(restore_type=np.ndarray), there
    )
    state = checkpointer.restore(
      step_folder / "state",
      args=ocp.args.PyTreeRestore(restore_args=arguments),
    )
  return {
    jax.tree_util.keystr(path): np.asarray(leaf).tobytes()
    for path, leaf in jax.tree_util.tree_leaves_with_path(state)
  }


@pytest.fixture(scope="module")
def whole(tmp_path_factory, start_training):
  """What a run that nothing interrupts computes, and seconds of its steps."""
  folder = tmp_path_factory.mktemp("whole")
  finish(start_training(folder, *OVERRIDES))
  evaluated = (folder / "predictions" / "2").stat().st_mtime
  finished = (folder / "result.json").stat().st_mtime
  return content(folder), finished - evaluated


def test_killed_at_a_random_moment(whole, tmp_path, start_training):
  expected, seconds = whole
  folder = tmp_path / "run"
  process = start_training(folder, *OVERRIDES)
  wait_for(process, functools.partial(claimed, folder, process.started))
  # Another moment every time; the result is the same.
  moment = random.Random().uniform(0.0, seconds)
  time.sleep(moment)
  kill(process)
  output = finish(start_training(folder, *OVERRIDES))
  assert "is damaged" not in output
  assert content(folder) == expected, moment


def test_killed_while_saving_and_evaluating_damaged_and_terminated(
  whole, tmp_path, start_training
):
  """One run, of which each process goes on where the one before ended."""
  expected, _ = whole
  folder = tmp_path / "run"
  start = functools.partial(start_training, folder, *OVERRIDES)

  process = start()
  # Orbax writes under a temporary name first.
  wait_for(
    process,
    lambda: any(
      path.name.startswith("4.") and "tmp" in path.name
      for path in entries(folder / "checkpoints")
    ),
  )
  kill(process)

  process = start()
  # Predictions are written before the step's checkpoint.
  wait_for(process, lambda: (folder / "predictions" / "6").exists())
  output = kill(process)
  assert f"to {STEPS}, " in output and "training 12 steps" not in output
  newest = max(checkpoint_steps(folder))
  for path in (folder / "checkpoints" / str(newest) / "state" / "d").iterdir():
    path.write_bytes(path.read_bytes()[:-7])

  process = start()
  wait_for(process, lambda: 7 in checkpoint_steps(folder))
  process.send_signal(signal.SIGINT)
  output, _ = process.communicate(timeout=TIMEOUT)
  assert process.returncode == 130, output
  saved = max(checkpoint_steps(folder))
  assert f"checkpoint {newest} is damaged (" in output
  assert f", {newest - 1} to {STEPS}, " in output
  assert f"step {saved} is saved; continue with\n  " in output

  process = start()
  wait_for(process, lambda: saved + 1 in checkpoint_steps(folder))
  process.terminate()
  output, _ = process.communicate(timeout=TIMEOUT)
  assert process.returncode == 143, output
  assert f", {saved} to {STEPS}, " in output
  saved = max(checkpoint_steps(folder))
  assert f"SIGTERM: saved step {saved}; the same command resumes" in output

  output = finish(start())
  assert f"training {STEPS - saved} steps, {saved} to {STEPS}, " in output
  assert f"validation at step {STEPS}\n" in output
  assert f"best step: {expected['result']['best_step']} of 12, " in output
  assert content(folder) == expected


def kill(process) -> str:
  assert process.poll() is None, process.communicate()[0]
  process.kill()
  return process.communicate()[0]


def entries(folder: pathlib.Path) -> list[pathlib.Path]:
  return list(folder.iterdir()) if folder.exists() else []


def checkpoint_steps(folder: pathlib.Path) -> list[int]:
  return [
    int(path.name)
    for path in entries(folder / "checkpoints")
    if path.name.isdigit()
  ]


def claimed(folder: pathlib.Path, since: float) -> bool:
  path = folder / "config.gin"
  return path.exists() and path.stat().st_mtime >= since


def wait_for(process, happened) -> None:
  deadline = time.monotonic() + TIMEOUT
  while not happened():
    assert process.poll() is None, process.communicate()[0]
    assert time.monotonic() < deadline
    time.sleep(0.001)
