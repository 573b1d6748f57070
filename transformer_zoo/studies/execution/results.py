"""The folder of a study: `study.json`, and the results of its runs.

`study.json` describes the study and lists its runs; the folders of the runs
contain their progress (`run_progress.py`) and results (`result_file.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import os
import pathlib

from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import expressions
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.design.study import Study
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.design.suite import Suite
from transformer_zoo.studies.execution import choices
from transformer_zoo.studies.execution import json_files
from transformer_zoo.studies.execution import result_file
from transformer_zoo.studies.execution import run_progress

STUDY_FILE = "study.json"
_PLAIN = ("name", "question", "suite", "baseline", "command", "published")


@dataclasses.dataclass(frozen=True)
class RowInfo:
  """A row of the table.

  Attributes:
    label: The label of the row in our tables.
    published: The label of the row in the published table, or "".
  """

  label: str
  published: str


@dataclasses.dataclass(frozen=True)
class RunResult:
  """One phase of one row with one seed, with its result.

  Attributes:
    row: The name of the row.
    seed: The seed of the row.
    group: The name of the group that the run belongs to, or "" if the run is
      the same for all groups.
    phase: The name of the phase.
    member: The index of the member of an ensemble, from 0.
    scored: True if the scores of the run are the row's scores.
    folder: The run folder, which other studies may share.
    starts: The folders of the runs whose checkpoints it starts from.
    shared: True if an earlier run of the study is identical.
    state: The state of the run, one of `run_progress.STATES`.
    reason: An explanation of the state of an unfinished run.
    command: The shell command that executes this run alone.
    fingerprint: The hash by which identical runs are recognised.
    result: The contents of `result.json`, or None if the run is unfinished.
    part: The name of the part of the group, or "" for the whole group.
    alternative: The changes of a grid that a run of the search tries, as text;
      "" for any other run.
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
  alternative: str = ""

  @property
  def name(self) -> str:
    """The name of the run in messages and tables."""
    return planned_run.run_name(self)

  @property
  def sentence(self) -> str:
    """The name of the run with its state and reason."""
    words = self.reason or self.state
    if self.state in (run_progress.RUNNING, run_progress.QUEUED):
      words = f"{self.state}, {self.reason}"
    return f"{self.name}: {words}"

  @property
  def scores(self) -> Mapping[str, Mapping[str, float]]:
    """`{task: {metric: value}}`; empty if the run is unfinished.

    Each task has the scores of the checkpoint that is best for it, as Raffel et
    al. 2020, section 3.1.2, choose for models trained on several tasks.
    """
    return {} if self.result is None else result_file.chosen_scores(self.result)

  def predictions(self, task: str) -> pathlib.Path:
    """Returns the file of the predictions from which a task was scored."""
    step = result_file.chosen_step(self.result, task)
    place = "" if step is None else f"predictions/{step}"
    return self.folder / place / f"{task}.jsonl"


@dataclasses.dataclass(frozen=True)
class Search:
  """The runs of a row and a group by which one alternative is chosen.

  Attributes:
    runs: The runs, one for each alternative.
    scores: The scores that are compared; None for an unfinished run and for one
      that diverged.
    chosen: The index of the alternative that is chosen, None until all runs are
      finished.
    columns: The columns that are scored.
  """

  runs: tuple[RunResult, ...]
  columns: tuple[Column, ...]
  scores: tuple[float | None, ...]
  chosen: int | None


@dataclasses.dataclass(frozen=True)
class StudyResults:
  """A study on a suite, with the results of its runs.

  Attributes:
    folder: The folder of the study.
    name: The name of the study.
    question: The question that the study asks.
    suite: The name of the suite.
    baseline: The name of the row that the others are compared with.
    seeds: The seeds that every row runs with.
    command: The shell command that runs the study.
    published: The key of the published table, or "".
    columns: The columns of the table from left to right.
    rows: The rows by name, in the order of the table.
    runs: All runs in their order.
    suite_version: The version of the suite.
    rounding: How far rounding moves scores, as `Suite.rounding`.
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
  suite_version: int = 1
  rounding: Mapping[str, float] = dataclasses.field(default_factory=dict)

  @property
  def suite_title(self) -> str:
    """The name and the version of the suite: `miniature (version 2)`."""
    return f"{self.suite} (version {self.suite_version})"

  def of_row(self, row: str) -> tuple[RunResult, ...]:
    """Returns the runs of a row without those of its searches."""
    return tuple(
      run for run in self.runs if run.row == row and not run.alternative
    )

  def searches(self) -> tuple[Search, ...]:
    """Returns the search of each row, group and part that has one."""
    by_place = {}
    for run in self.runs:
      if run.alternative:
        place = run.row, run.group, run.part
        by_place.setdefault(place, []).append(run)
    return tuple(
      _search(runs, _columns_of(self.columns, group))
      for (_, group, _), runs in by_place.items()
    )

  def scored_runs(self, row: str, group: str) -> tuple[RunResult, ...]:
    """Returns the runs that score a row for a group, for all seeds.

    Args:
      row: The name of the row.
      group: The name of the group; runs that are the same for all groups are
        included.
    """
    return tuple(
      run for run in self.of_row(row) if run.scored and run.group in ("", group)
    )

  def scores(
    self, row: str, group: str
  ) -> dict[int, dict[str, dict[str, float]]]:
    """Returns `{seed: {task: {metric: value}}}` of a row's finished runs.

    Args:
      row: The name of the row.
      group: The name of the group; runs that are the same for all groups are
        included.
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
      if run.state != run_progress.FINISHED and not run.shared
    )

  def broken(self) -> tuple[RunResult, ...]:
    """Returns the distinct runs that failed or were interrupted."""
    stopped = (run_progress.FAILED, run_progress.INTERRUPTED)
    return tuple(run for run in self.unfinished() if run.state in stopped)

  @property
  def seconds(self) -> float:
    """The computing time of all distinct finished runs, in seconds."""
    return sum(
      run.result.get("seconds", 0.0)
      for run in self.runs
      if run.result is not None and not run.shared
    )

  def progress(self) -> str:
    """Returns the number of distinct runs in each state as a sentence."""
    states = [run.state for run in self.runs if not run.shared]
    counts = [
      f"{states.count(s)} {s}" for s in run_progress.STATES if s in states
    ]
    return f"{len(states)} runs: {', '.join(counts)}"


def describe(
  study: Study,
  suite: Suite,
  runs: Sequence[planned_run.Run],
  folder: pathlib.Path,
  command: str,
  options: Sequence[str],
) -> dict:
  """Returns the contents of `study.json`.

  Args:
    study: The study.
    suite: The suite that the study runs on.
    runs: All runs of the study.
    folder: The folder of the study; the folders of runs are relative to it.
    command: The shell command that runs the study.
    options: Words that the shell command of every run needs too.
  """

  def place(run):
    return {
      "folder": relative_path(run.folder, folder),
      "command": planned_run.shell_command(run, options),
      "fingerprint": run.fingerprint,
    }

  def run_entry(run):
    same = ("row", "seed", "group", "part", "phase", "member", "alternative")
    same += ("scored", "shared")
    entry = {name: getattr(run, name) for name in same} | place(run)
    entry["starts"] = [relative_path(start, folder) for start in run.starts]
    if run.choice is not None:
      searched = [relative_path(one, folder) for one in run.choice.searched]
      entry["choice"] = {
        "searched": searched,
        "runs": [*map(place, run.choice.runs)],
      }
    return entry

  return {
    "name": study.name,
    "question": study.question,
    "suite": suite.name,
    "suite_version": suite.version,
    "baseline": study.baseline_name,
    "seeds": list(study.seeds),
    "command": command,
    "published": study.published,
    "columns": [*map(dataclasses.asdict, suite.columns_of(study))],
    "rounding": dict(suite.rounding),
    "rows": [
      {
        "name": row.name,
        "label": expressions.expand(row.shown, suite.values),
        "published": row.published,
      }
      for row in study.rows
    ],
    "runs": [run_entry(run) for run in runs],
  }


def write(folder: pathlib.Path, description: Mapping) -> None:
  """Writes `study.json` atomically.

  Args:
    folder: The folder of the study.
    description: The result of `describe`.
  """
  json_files.replace(folder / STUDY_FILE, description)


def relative_path(path: pathlib.Path, folder: pathlib.Path) -> str:
  """Returns a path relative to a folder, as `study.json` contains it."""
  return pathlib.PurePath(os.path.relpath(path, folder)).as_posix()


def is_study(folder: str | os.PathLike[str]) -> bool:
  """Returns whether a folder is the folder of a study."""
  return (pathlib.Path(folder) / STUDY_FILE).exists()


def read(folder: str | os.PathLike[str]) -> StudyResults:
  """Reads a study's folder.

  Args:
    folder: The folder that `run_study` wrote.

  Raises:
    UserError: If the folder contains no study, or a file in it is damaged.
  """
  folder = pathlib.Path(folder)
  if not is_study(folder):
    raise UserError(
      f"{folder} is not the folder of a study: it has no {STUDY_FILE}"
    )
  read = json_files.read(folder / STUDY_FILE)
  try:
    columns = tuple(Column(**column) for column in read["columns"])
    return StudyResults(
      folder=folder,
      **{name: read[name] for name in _PLAIN},
      seeds=tuple(read["seeds"]),
      columns=columns,
      rows={row.pop("name"): RowInfo(**row) for row in read["rows"]},
      runs=tuple(_runs(folder, read["runs"], columns)),
      # Studies from before suites had versions ran on the first one.
      suite_version=read.get("suite_version", 1),
      rounding=read.get("rounding", {}),
    )
  except (KeyError, TypeError, AttributeError) as error:
    raise UserError(
      f"{folder / STUDY_FILE} is not as zoo ablate writes it "
      f"({type(error).__name__}: {error}); run the study again to write it anew"
    ) from error


def _columns_of(columns: Iterable[Column], group: str) -> tuple[Column, ...]:
  """Returns the columns that the runs of a group score."""
  return tuple(c for c in columns if group in ("", c.of_group))


def _search(runs: Sequence[RunResult], columns: Sequence[Column]) -> Search:
  found = [run.result for run in runs]
  return Search(
    runs=tuple(runs),
    columns=tuple(columns),
    scores=tuple(one and choices.score(one, columns) for one in found),
    chosen=None if None in found else choices.best(found, columns),
  )


def _runs(folder, records, columns) -> list[RunResult]:
  queued = run_progress.active_jobs(folder.parent / plan.POOL)
  known = {}  # Folder -> phase and progress of its run.
  found = []
  for entry in records:
    progress, job = None, queued.get(_path(folder, entry["folder"]).name)
    choice = entry.pop("choice", None)
    if choice is not None:
      searched = [_path(folder, one) for one in choice["searched"]]
      if all(known[one][1].state == run_progress.FINISHED for one in searched):
        results = [result_file.read(one) for one in searched]
        of_group = _columns_of(columns, entry["group"])
        entry |= choice["runs"][choices.best(results, of_group)]
      else:
        progress = run_progress.of_job(job)
        for one in searched:
          before = known[one][1]
          progress = run_progress.after_start(progress, before, "the search")
    path = _path(folder, entry["folder"])
    starts = tuple(_path(folder, start) for start in entry["starts"])
    if progress is None:
      progress = run_progress.read(path, job)
      if not entry.get("alternative"):
        entry["shared"] = path in known and not _take_over(found, path)
    for start in starts:
      phase, before = known[start]
      progress = run_progress.after_start(progress, before, phase)
    if all(known[start][1].state == run_progress.FINISHED for start in starts):
      checkpoints = [result_file.checkpoint_of(start) for start in starts]
      entry["command"] = planned_run.with_checkpoints(
        entry["command"], checkpoints
      )
    known.setdefault(path, (entry["phase"], progress))
    finished = progress.state == run_progress.FINISHED
    found.append(
      RunResult(
        **entry
        | {
          "folder": path,
          "starts": starts,
          "state": progress.state,
          "reason": progress.reason,
          "result": _result(path) if finished else None,
        }
      )
    )
  return found


def _take_over(found: list[RunResult], folder: pathlib.Path) -> bool:
  """Marks the run of a search in a folder as shared with one that is listed.

  Returns:
    True if the search has such a run that was not shared before.
  """
  for index, run in enumerate(found):
    if run.alternative and run.folder == folder and not run.shared:
      found[index] = dataclasses.replace(run, shared=True)
      return True
  return False


def _result(folder: pathlib.Path) -> dict:
  result = result_file.read(folder)
  if not isinstance(result, dict) or "scores" not in result:
    raise UserError(
      f"{folder / run_progress.RESULT_FILE} has no scores, so neither zoo "
      "train nor zoo evaluate wrote it so; remove it and run the study again"
    )
  return result


def _path(folder: pathlib.Path, relative: str) -> pathlib.Path:
  return pathlib.Path(os.path.normpath(folder / relative))
