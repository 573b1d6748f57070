"""What a study's folder holds: `study.json`, and the result of each run.

`study.json` says what the study is; how far its runs have come is told by their
folders (standing.py).
"""

from collections.abc import Iterator, Mapping
import dataclasses
import os
import pathlib
import re
import shlex

from transformer_zoo.ablations import jobs
from transformer_zoo.ablations import json_files
from transformer_zoo.ablations import standing
from transformer_zoo.errors import UserError

STUDY_FILE = "study.json"
RESULT_FILE = standing.RESULT_FILE
_CHECKPOINTS_ELSEWHERE = re.compile(
  r"^Checkpointing\.folder = '(.+)'$", re.MULTILINE
)


@dataclasses.dataclass(frozen=True)
class RunResult:
  """One phase of one row with one seed, and what came of it.

  Attributes:
    row: the row's name.
    seed: the random seed.
    phase: the phase's name.
    scored: whether its scores are the row's.
    folder: the run folder.
    shared: whether the folder is an earlier row's, with the very same run.
    state: how far it has come, one of `standing.STATES`.
    reason: what there is to say about that, where it is not finished.
    command: what runs it alone.
    result: its `result.json`, or None where it is not finished.
  """

  row: str
  seed: int
  phase: str
  scored: bool
  folder: pathlib.Path
  shared: bool
  state: str
  reason: str
  command: str
  result: Mapping | None

  @property
  def sentence(self) -> str:
    """Which run it is and how far it has come."""
    words = self.reason or self.state
    if self.state in (standing.RUNNING, standing.QUEUED):
      words = f"{self.state}, {self.reason}"
    return f"{self.row} / seed {self.seed} / {self.phase}: {words}"


@dataclasses.dataclass(frozen=True)
class StudyResults:
  """A study and what came of its runs.

  Attributes:
    folder: the study's folder.
    name: the study's name.
    question: what the study asks.
    baseline: the name of the row that the others are compared with.
    seeds: every row runs with each.
    command: what runs the study.
    published: per row, in the order of the table, the published scores by
      column.
    runs: all runs in the order in which they ran.
  """

  folder: pathlib.Path
  name: str
  question: str
  baseline: str
  seeds: tuple[int, ...]
  command: str
  published: Mapping[str, Mapping[str, float]]
  runs: tuple[RunResult, ...]

  @property
  def rows(self) -> tuple[str, ...]:
    """The names of the rows in the order of the table."""
    return tuple(self.published)

  def of_row(self, row: str) -> tuple[RunResult, ...]:
    """Returns the runs of a row."""
    return tuple(run for run in self.runs if run.row == row)

  def scores(self, row: str) -> dict[int, dict[str, dict[str, float]]]:
    """Returns `{seed: {task: {metric: value}}}` of a row.

    A seed is left out until all of its scored phases are finished. Where two
    of them score the same task, the later one's name is added to the task's.
    """
    by_seed = {}
    for seed in self.seeds:
      runs = [r for r in self.of_row(row) if r.seed == seed and r.scored]
      if any(run.result is None for run in runs):
        continue
      scores = by_seed.setdefault(seed, {})
      for run in runs:
        for task, metrics in run.result["scores"].items():
          name = f"{task} ({run.phase})" if task in scores else task
          scores[name] = dict(metrics)
    return by_seed

  def unfinished(self) -> tuple[RunResult, ...]:
    """Returns the distinct runs that are not finished."""
    return tuple(
      run
      for run in self.runs
      if run.state != standing.FINISHED and not run.shared
    )

  def progress(self) -> str:
    """Returns how many distinct runs are in each state, in words."""
    states = [run.state for run in self.runs if not run.shared]
    counts = [f"{states.count(s)} {s}" for s in standing.STATES if s in states]
    return f"{len(states)} runs: {', '.join(counts)}"


def read_result(folder: str | os.PathLike[str]) -> dict:
  """Reads the `result.json` of a run folder.

  Raises:
    UserError: it is missing or damaged.
  """
  return json_files.read(pathlib.Path(folder) / RESULT_FILE)


def checkpoint_of(folder: pathlib.Path) -> str:
  """Returns what a finished run hands on: its best checkpoint, else its last.

  Args:
    folder: the run folder, with a `result.json`.
  """
  result = read_result(folder)
  step = result.get("best_step")
  step = result["step"] if step is None else step
  config = folder / "config.gin"
  elsewhere = config.exists() and _CHECKPOINTS_ELSEWHERE.search(
    config.read_text(encoding="utf-8")
  )
  place = elsewhere.group(1) if elsewhere else folder / "checkpoints"
  return f"{place}/{step}"


def checkpoint_binding(checkpoint: str | os.PathLike[str]) -> str:
  """Returns the binding by which a run starts from a checkpoint."""
  return f"INITIAL_CHECKPOINT_PATH={str(checkpoint)!r}"


def write_record(folder: pathlib.Path, record: Mapping) -> None:
  """Writes `study.json`, which `read` reads, atomically."""
  json_files.replace(folder / STUDY_FILE, record)


def read(folder: str | os.PathLike[str]) -> StudyResults:
  """Reads a study's folder.

  Args:
    folder: the folder that `run_study` wrote.

  Raises:
    UserError: the folder holds no study, or a file in it is damaged.
  """
  folder = pathlib.Path(folder)
  if not (folder / STUDY_FILE).exists():
    raise UserError(
      f"{folder} is not the folder of a study: it has no {STUDY_FILE}"
    )
  record = json_files.read(folder / STUDY_FILE)
  runs = tuple(_runs(folder, record["runs"]))
  return StudyResults(
    folder=folder,
    name=record["name"],
    question=record["question"],
    baseline=record["baseline"],
    seeds=tuple(record["seeds"]),
    command=record["command"],
    published={row["name"]: row["published"] for row in record["rows"]},
    runs=runs,
  )


def _runs(folder, records) -> Iterator[RunResult]:
  queued = jobs.active(folder)
  standings = {}  # Folder -> how far the run in it has come.
  for record in records:
    path = folder / record["folder"]
    start = record.pop("start")
    own = standing.of_folder(path, queued.get(record["folder"]))
    if start is not None:
      before = standings[folder / start]
      own = standing.after(own, before, pathlib.PurePath(start).name)
      if before.state == standing.FINISHED:
        binding = checkpoint_binding(checkpoint_of(folder / start))
        record["command"] += " " + shlex.quote(f"--gin.{binding}")
    standings[path] = own
    yield RunResult(
      **record
      | {
        "folder": path,
        "state": own.state,
        "reason": own.reason,
        "result": read_result(path) if own.state == standing.FINISHED else None,
      }
    )
