"""The list of a run's checkpoints that `zoo checkpoints` prints."""

from collections.abc import Sequence
import dataclasses
import os
import pathlib
from typing import Any

from transformer_zoo import config
from transformer_zoo.checkpoints import remote
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.errors import UserError
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.checkpoints import reading
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.retention import Scores
from transformer_zoo.training.monitoring.recorder import METRICS_FILE
from transformer_zoo.training.monitoring.recorder import read_lines


@dataclasses.dataclass(frozen=True)
class Entry:
  """A checkpoint, whole or damaged.

  Attributes:
    name: The name of its folder.
    gigabytes: The size of its files.
    files: The number of its files.
    state: A phrase: whole, without checksums, or the damage.
    is_damaged: True if a run could not resume from it.
    score: The value of `Checkpointing.metric` at its step; None if the step was
      not evaluated.
    is_best: True if `zoo evaluate RUN` takes it.
  """

  name: str
  gigabytes: float
  files: int
  state: str
  is_damaged: bool = False
  score: float | None = None
  is_best: bool = False


def of_run(path: str | os.PathLike[str], verify: bool = False) -> list[Entry]:
  """Lists the checkpoints of a run, steps ascending, damaged ones last.

  Args:
    path: A run folder or its URL, or a checkpoint in it.
    verify: True to read every file and compare it with its checksum.

  Raises:
    UserError: there is no checkpoint.
  """
  folder = _run_of(remote.fetched(path))
  found = reading.steps(folder)
  chosen = reading.resolve(folder)
  run = reading.run_of(chosen)
  scores = Scores(_rules_of(run), read_lines(run / METRICS_FILE)).by_step
  entries = [
    dataclasses.replace(
      _entry(place, verify), score=scores.get(step), is_best=place == chosen
    )
    for step, place in found.items()
  ]
  for name, reason in reading.unusable(folder).items():
    place = run / "checkpoints" / name
    entries.append(Entry(name, *_size(place), reason, is_damaged=True))
  return entries


def _run_of(folder: pathlib.Path) -> pathlib.Path:
  """Returns the run folder of a path inside it.

  Raises:
    UserError: the path is a checkpoint outside any run.
  """
  if folder.absolute().parent.name == "checkpoints" and folder.is_dir():
    return folder.absolute().parent.parent
  if (folder / "state").is_dir():
    raise UserError(
      f"{str(folder)!r} is one checkpoint, and lies in no run's checkpoints/; "
      "give the folder of a run"
    )
  return folder


def _rules_of(run: pathlib.Path) -> Checkpointing:
  """Returns the retention rules of a run, the defaults if it has none."""
  file = str(run / run_layout.CONFIG)
  try:
    return config.build("RULES", [file], ["RULES=@Checkpointing()"])
  except UserError:
    return Checkpointing()


def to_json(entries: Sequence[Entry]) -> dict[str, Any]:
  """Returns the entries by name."""
  return {entry.name: dataclasses.asdict(entry) for entry in entries}


def as_text(entries: Sequence[Entry]) -> str:
  """Returns a line for each entry."""
  width = max(len(entry.name) for entry in entries)
  return "\n".join(
    f"{entry.name:>{width}}  {entry.gigabytes:9.3f} GB {entry.files:6} files  "
    + (f"score {entry.score:8.4f}  " if entry.score is not None else "")
    + ("best, " if entry.is_best else "")
    + entry.state
    for entry in entries
  )


def _entry(place: pathlib.Path, verify: bool) -> Entry:
  size = _size(place)
  if not verify:
    state = "has checksums" if checksums.read(place) else "no checksums"
    return Entry(place.name, *size, state)
  try:
    whole = checksums.verify(place)
  except ValueError as error:
    return Entry(place.name, *size, f"damaged: {error}", is_damaged=True)
  return Entry(place.name, *size, "whole" if whole else "lacks checksums")


def _size(place: pathlib.Path) -> tuple[float, int]:
  sizes = checksums.sizes(place)
  return sum(sizes.values()) / 1e9, len(sizes)
