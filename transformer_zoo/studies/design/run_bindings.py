"""The bindings of one run of a study over its changes."""

from collections.abc import Sequence
import os


def of_run(
  command: str,
  random_seed: int,
  folder: str | os.PathLike[str],
  checkpoints: Sequence[str | os.PathLike[str]] = (),
) -> list[str]:
  """Returns the bindings of a run over its changes.

  Args:
    command: "train", which starts from one checkpoint at most, or "evaluate".
    random_seed: of the training.
    folder: the run folder.
    checkpoints: what the run starts from; none to leave it to the gin files.
  """
  if command == "train":
    own = [f"RANDOM_SEED={random_seed}", f"MODEL_DIR={str(folder)!r}"]
  else:
    own = [f"evaluate.output_dir={str(folder)!r}"]
  return own + of_starts(command, checkpoints)


def of_starts(
  command: str, checkpoints: Sequence[str | os.PathLike[str]]
) -> list[str]:
  """Returns the binding of what a run starts from, as `of_run`."""
  paths = [str(path) for path in checkpoints]
  if not paths:
    return []
  if command == "train":
    return [f"INITIAL_CHECKPOINT_PATH={paths[0]!r}"]
  return [f"CHECKPOINT_PATH={paths!r}"]
