"""What a study's folder holds: `study.json`, and the result of each run.

`study.json` says what the study is; how far its runs have come is told by their
folders (standing.py).
"""

from collections.abc import Iterator, Mapping
import dataclasses
import os
import pathlib

from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import commands
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.execution import jobs
from transformer_zoo.studies.execution import json_files
from transformer_zoo.studies.execution import outcome
from transformer_zoo.studies.execution import record
from transformer_zoo.studies.execution import standing

_PLAIN = ("name", "question", "suite", "baseline", "command", "published")


@dataclasses.dataclass(frozen=True)
class RowInfo:
  """A row of the table.

  Attributes:
    label: as the table prints it.
    published: its label in the published table; empty for none.
  """

  label: str
  published: str


@dataclasses.dataclass(frozen=True)
class RunResult:
  """One phase of one row with one seed, and what came of it.

  Attributes:
    row: the row's name.
    seed: the row's seed.
    group: the group it is for, or "" where it is the same for all groups.
    phase: the phase's name.
    member: which member of an ensemble, from 0.
    scored: whether its scores are the row's.
    folder: the run folder, which other studies may have too.
    starts: folders of the runs whose checkpoints it starts from.
    shared: whether an earlier run of the study is the very same.
    state: how far it has come, one of `standing.STATES`.
    reason: what there is to say about that, where it is not finished.
    command: what runs it alone.
    fingerprint: the hash by which equal runs are recognised.
    result: its `result.json`, or None where it is not finished.
    part: the part of the group, or "" where it is all of it.
  """

  row: str
  seed: int
  group: str
  phase: str
  member: int
  scored: bool
  folder: pathlib.Path
  starts: tuple[pathlib.Path, ...]
  shared: bool
  state: str
  reason: str
  command: str
  fingerprint: str
  result: Mapping | None
  part: str = ""

  @property
  def name(self) -> str:
    """What the terminal and the tables call the run."""
    return plan.run_name(
      self.row, self.seed, self.group, self.phase, self.member, self.part
    )

  @property
  def sentence(self) -> str:
    """Which run it is and how far it has come."""
    words = self.reason or self.state
    if self.state in (standing.RUNNING, standing.QUEUED):
      words = f"{self.state}, {self.reason}"
    return f"{self.name}: {words}"

  @property
  def scores(self) -> Mapping[str, Mapping[str, float]]:
    """`{task: {metric: value}}`; empty where it is not finished.

    Each task at the checkpoint that is best for it, as Raffel et al. 2020,
    section 3.1.2, choose for models trained on several tasks.
    """
    return {} if self.result is None else outcome.chosen_scores(self.result)

  def predictions(self, task: str) -> pathlib.Path:
    """Returns the file with the predictions that a task's scores are of."""
    step = outcome.chosen_step(self.result, task)
    place = "" if step is None else f"predictions/{step}"
    return self.folder / place / f"{task}.jsonl"


@dataclasses.dataclass(frozen=True)
class StudyResults:
  """A study on a suite, and what came of its runs.

  Attributes:
    folder: the study's folder.
    name: the study's name.
    question: what the study asks.
    suite: the suite's name.
    baseline: the name of the row that the others are compared with.
    seeds: every row runs with each.
    command: what runs the study.
    published: key of the published table; empty for none.
    columns: of the table, left to right.
    rows: by name, in the order of the table.
    runs: all runs in the order in which they ran.
  """

  folder: pathlib.Path
  name: str
  question: str
  suite: str
  baseline: str
  seeds: tuple[int, ...]
  command: str
  published: str
  columns: tuple[Column, ...]
  rows: Mapping[str, RowInfo]
  runs: tuple[RunResult, ...]

  def of_row(self, row: str) -> tuple[RunResult, ...]:
    """Returns the runs of a row."""
    return tuple(run for run in self.runs if run.row == row)

  def scored_runs(self, row: str, group: str) -> tuple[RunResult, ...]:
    """Returns the runs whose scores a row has for a group, of all seeds.

    Args:
      row: the row's name.
      group: its name; runs that are the same for all groups count too.
    """
    return tuple(
      run for run in self.of_row(row) if run.scored and run.group in ("", group)
    )

  def scored_run(self, row: str, seed: int, group: str) -> RunResult:
    """Returns the run whose scores a row with a seed has for a group.

    Raises:
      KeyError: the study has no such row, seed or group.
    """
    for run in self.scored_runs(row, group):
      if run.seed == seed:
        return run
    raise KeyError((row, seed, group))

  def scores(
    self, row: str, group: str
  ) -> dict[int, dict[str, dict[str, float]]]:
    """Returns `{seed: {task: {metric: value}}}` of what a row has finished.

    Args:
      row: the row's name.
      group: the runs of which score it; runs that are the same for all groups
        do so too.
    """
    by_seed = {}
    for run in self.scored_runs(row, group):
      if run.result is not None:
        for task, metrics in run.scores.items():
          by_seed.setdefault(run.seed, {})[task] = dict(metrics)
    return by_seed

  def unfinished(self) -> tuple[RunResult, ...]:
    """Returns the distinct runs that are not finished."""
    return tuple(
      run
      for run in self.runs
      if run.state != standing.FINISHED and not run.shared
    )

  def broken(self) -> tuple[RunResult, ...]:
    """Returns the distinct runs that have stopped before their end."""
    stopped = (standing.FAILED, standing.INTERRUPTED)
    return tuple(run for run in self.unfinished() if run.state in stopped)

  @property
  def seconds(self) -> float:
    """Of computing, of all runs that are finished, shared ones once."""
    return sum(
      run.result.get("seconds", 0.0)
      for run in self.runs
      if run.result is not None and not run.shared
    )

  def progress(self) -> str:
    """Returns how many distinct runs are in each state, in words."""
    states = [run.state for run in self.runs if not run.shared]
    counts = [f"{states.count(s)} {s}" for s in standing.STATES if s in states]
    return f"{len(states)} runs: {', '.join(counts)}"


def is_study(folder: str | os.PathLike[str]) -> bool:
  """Whether a folder is that of a study."""
  return (pathlib.Path(folder) / record.STUDY_FILE).exists()


def read(folder: str | os.PathLike[str]) -> StudyResults:
  """Reads a study's folder.

  Args:
    folder: the folder that `run_study` wrote.

  Raises:
    UserError: the folder holds no study, or a file in it is damaged.
  """
  folder = pathlib.Path(folder)
  if not is_study(folder):
    raise UserError(
      f"{folder} is not the folder of a study: it has no {record.STUDY_FILE}"
    )
  read = json_files.read(folder / record.STUDY_FILE)
  try:
    return StudyResults(
      folder=folder,
      **{name: read[name] for name in _PLAIN},
      seeds=tuple(read["seeds"]),
      columns=tuple(Column(**column) for column in read["columns"]),
      rows={row.pop("name"): RowInfo(**row) for row in read["rows"]},
      runs=tuple(_runs(folder, read["runs"])),
    )
  except (KeyError, TypeError, AttributeError) as error:
    raise UserError(
      f"{folder / record.STUDY_FILE} is not as zoo ablate writes it "
      f"({type(error).__name__}: {error}); run the study again to write it anew"
    ) from error


def _runs(folder, records) -> Iterator[RunResult]:
  queued = jobs.active(folder.parent / plan.POOL)
  known = {}  # Folder -> the phase in it, and how far it has come.
  for entry in records:
    path = _path(folder, entry["folder"])
    starts = tuple(_path(folder, start) for start in entry["starts"])
    own = standing.of_folder(path, queued.get(path.name))
    for start in starts:
      phase, before = known[start]
      own = standing.after(own, before, phase)
    if all(known[start][1].state == standing.FINISHED for start in starts):
      checkpoints = [outcome.checkpoint_of(start) for start in starts]
      entry["command"] = commands.with_checkpoints(
        entry["command"], checkpoints
      )
    known[path] = entry["phase"], own
    finished = own.state == standing.FINISHED
    yield RunResult(
      **entry
      | {
        "folder": path,
        "starts": starts,
        "state": own.state,
        "reason": own.reason,
        "result": _result(path) if finished else None,
      }
    )


def _result(folder: pathlib.Path) -> dict:
  result = outcome.read_result(folder)
  if not isinstance(result, dict) or "scores" not in result:
    raise UserError(
      f"{folder / outcome.RESULT_FILE} has no scores, so neither zoo train nor "
      "zoo evaluate wrote it so; remove it and run the study again"
    )
  return result


def _path(folder: pathlib.Path, relative: str) -> pathlib.Path:
  return pathlib.Path(os.path.normpath(folder / relative))
