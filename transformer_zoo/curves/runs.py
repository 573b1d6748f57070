"""Recorded numbers of runs, read incrementally while runs train."""

from collections.abc import Iterable, Iterator, Sequence
import fnmatch
import json
import os
import pathlib
import re
import time

import numpy as np

from transformer_zoo.errors import nearest
from transformer_zoo.training.monitoring.recorder import METRICS_FILE
from transformer_zoo.training.monitoring.recorder import TIMING_FILE

_CONFIG, _RESULT = "config.gin", "result.json"
_TRAIN_STEPS = re.compile(r"^TRAIN_STEPS = (\d+)$", re.MULTILINE)
# Folders inside of a run, which hold no runs; some have many files.
_INSIDE = ("checkpoints", "tensorboard", "predictions", "profile", "wandb")


class _Lines:
  """The lines of a file by step, of which only new ones are read."""

  def __init__(self, path: pathlib.Path):
    self._path = path
    self._file = None
    self._start_again()

  def _start_again(self) -> None:
    self.values: dict[str, dict[int, float]] = {}
    self.damaged = 0
    self._identity, self._read, self._torn = None, 0, b""

  def update(self) -> None:
    """Reads what was appended; all of a file that was replaced.

    A line that is not finished waits for its rest; one that is damaged is
    counted and passed over.
    """
    try:
      with open(self._path, "rb") as file:
        status = os.fstat(file.fileno())
        # A run that resumes cuts its files, and puts others in their place.
        if status.st_ino != self._identity or status.st_size < self._read:
          self._start_again()
          self._identity = status.st_ino
        file.seek(self._read)
        content = file.read()
    except FileNotFoundError:
      self._start_again()
      return
    self._read += len(content)
    *whole, self._torn = (self._torn + content).split(b"\n")
    for text in whole:
      self._add(text)

  def _add(self, text: bytes) -> None:
    try:
      line = json.loads(text)
      step = int(line.pop("step"))
      numbers = {name: float(value) for name, value in line.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
      self.damaged += 1
      return
    for name, value in numbers.items():
      self.values.setdefault(name, {})[step] = value


class Run:
  """One run folder, which need not exist yet.

  Attributes:
    folder: The folder of the run.
    name: The name that is shown.
  """

  def __init__(self, folder: pathlib.Path, name: str):
    """Creates the run; nothing is read before the first `update`."""
    self.folder = folder
    self.name = name
    self._files = [_Lines(folder / f) for f in (METRICS_FILE, TIMING_FILE)]

  def update(self) -> None:
    """Reads what the run has recorded since the last time."""
    for file in self._files:
      file.update()

  @property
  def metrics(self) -> set[str]:
    """The names of the recorded metrics."""
    return {name for file in self._files for name in file.values}

  @property
  def damaged(self) -> int:
    """The number of lines that cannot be read."""
    return sum(file.damaged for file in self._files)

  @property
  def step(self) -> int:
    """The last recorded step; 0 if there is none."""
    steps = (max(s) for file in self._files for s in file.values.values() if s)
    return max(steps, default=0)

  @property
  def train_steps(self) -> int | None:
    """The last step of the run; None before it has begun."""
    try:
      found = _TRAIN_STEPS.search((self.folder / _CONFIG).read_text())
    except OSError:
      return None
    return int(found[1]) if found else None

  def series(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of a metric, in the order of the steps."""
    for file in self._files:
      if metric in file.values:
        found = sorted(file.values[metric].items())
        return tuple(
          np.array(column, float) for column in zip(*found, strict=True)
        )
    return np.empty(0), np.empty(0)

  def last(self, metric: str) -> float | None:
    """The latest value of a metric; None if there is none."""
    _, values = self.series(metric)
    return float(values[-1]) if len(values) else None

  def state(self, now: float | None = None) -> str:
    """`not begun`, `finished`, or how long ago it wrote its last line.

    Args:
      now: The time in seconds since the epoch; None for the present.
    """
    if (self.folder / _RESULT).exists():
      return "finished"
    written = [
      (self.folder / name).stat().st_mtime
      for name in (METRICS_FILE, TIMING_FILE)
      if (self.folder / name).exists()
    ]
    if not written:
      return "not begun"
    age = max(0.0, (time.time() if now is None else now) - max(written))
    return f"wrote {duration(age)} ago"


def find(folders: Sequence[str | os.PathLike[str]]) -> list[pathlib.Path]:
  """Finds runs: the folders themselves, or those below them.

  Args:
    folders: The folders of runs or of studies.

  Returns:
    The folders of runs. An empty folder counts as a run that has not begun.
  """
  found = []
  for folder in map(pathlib.Path, folders):
    found += list(_below(folder)) or [folder]
  return list(dict.fromkeys(found))


def _below(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields the runs of a tree, the folder itself included."""
  for path, folders, files in os.walk(folder):
    if {METRICS_FILE, _CONFIG} & set(files):
      yield pathlib.Path(path)
      folders.clear()
    folders[:] = sorted(name for name in folders if name not in _INSIDE)


def names(folders: Sequence[pathlib.Path]) -> list[str]:
  """Short names of folders: their paths without the common part."""
  if len(folders) == 1:
    return [folders[0].name or str(folders[0])]
  absolute = [str(folder.absolute()) for folder in folders]
  common = os.path.commonpath(absolute)
  return [os.path.relpath(path, common) for path in absolute]


def choose(
  patterns: Sequence[str], available: Iterable[str]
) -> tuple[list[str], list[str]]:
  """The metrics that patterns name, each once, in their order.

  Args:
    patterns: Names, or patterns such as `gradient_norm/*`.
    available: The names of the recorded metrics.

  Returns:
    The chosen names, and a sentence for each pattern that matches none.
  """
  available = sorted(available)
  chosen, missing = [], []
  for pattern in patterns:
    found = fnmatch.filter(available, pattern)
    chosen += found
    if not found:
      known = nearest(pattern, available) if available else ""
      missing.append(f"nothing is recorded of {pattern!r}{known}")
  return list(dict.fromkeys(chosen)), missing


def smooth(values: np.ndarray, weight: float) -> np.ndarray:
  """Running means: `weight` of the mean before, the rest of the value.

  The weights of the first values add up to 1 as well (TensorBoard's smoothing).
  A value that is not finite leaves the mean as it is.

  Args:
    values: The values, float64 [n].
    weight: The weight of the mean before, from 0 (no smoothing) to below 1.
  """
  means = np.empty_like(values)
  mean = total = 0.0
  for index, value in enumerate(values):
    if np.isfinite(value):
      mean = weight * mean + (1 - weight) * value
      total = weight * total + (1 - weight)
    means[index] = mean / total if np.isfinite(value) else np.nan
  return means


def duration(seconds: float) -> str:
  """A length of time in its largest unit: `12 s`, `5 min`, `3 h`, `2 d`."""
  for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
    if seconds >= size:
      return f"{seconds / size:.0f} {unit}"
  return f"{seconds:.0f} s"
