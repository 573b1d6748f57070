"""What a study's folder holds: `study.json`, and the result of each run."""

from collections.abc import Mapping
import dataclasses
import json
import os
import pathlib

from transformer_zoo.errors import UserError

STUDY_FILE = "study.json"
RESULT_FILE = "result.json"


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
    state: `finished`, `failed` or `not run`.
    reason: why, where it is not finished.
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

  def failures(self) -> tuple[str, ...]:
    """Returns a sentence for each distinct run that is not finished."""
    return tuple(
      f"{run.row} / seed {run.seed} / {run.phase}: {run.reason or run.state}"
      for run in self.runs
      if run.state != "finished" and not run.shared
    )


def read_result(folder: str | os.PathLike[str]) -> dict:
  """Reads the `result.json` of a run folder.

  Raises:
    UserError: it is missing or damaged.
  """
  return _read_json(pathlib.Path(folder) / RESULT_FILE)


def write_record(folder: pathlib.Path, record: Mapping) -> None:
  """Writes `study.json`, which `read` reads, atomically."""
  path = folder / STUDY_FILE
  temporary = path.with_name(path.name + ".new")
  temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
  os.replace(temporary, path)


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
  record = _read_json(folder / STUDY_FILE)
  runs = []
  for run in record["runs"]:
    path = folder / run["folder"]
    finished = run["state"] == "finished"
    result = read_result(path) if finished else None
    runs.append(RunResult(**{**run, "folder": path, "result": result}))
  return StudyResults(
    folder=folder,
    name=record["name"],
    question=record["question"],
    baseline=record["baseline"],
    seeds=tuple(record["seeds"]),
    command=record["command"],
    published={row["name"]: row["published"] for row in record["rows"]},
    runs=tuple(runs),
  )


def _read_json(path: pathlib.Path) -> dict:
  try:
    return json.loads(path.read_text(encoding="utf-8"))
  except (OSError, ValueError) as error:
    raise UserError(
      f"{path} cannot be read ({type(error).__name__}: {error}); run the study "
      "again to write it anew"
    ) from error
