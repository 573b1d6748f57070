"""Runs studies: every row with every seed, each distinct run once."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import functools
import pathlib
import sys

import rich.console

from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design.request import IN_TURN
from transformer_zoo.studies.design.request import Launch
from transformer_zoo.studies.design.request import PlannedStudy
from transformer_zoo.studies.design.request import Request
from transformer_zoo.studies.execution import launchers
from transformer_zoo.studies.execution import planning
from transformer_zoo.studies.execution import record
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.execution import single_run
from transformer_zoo.studies.execution import slurm
from transformer_zoo.studies.execution.schedule import Schedule
from transformer_zoo.studies.execution.time_left import TimeLeft
from transformer_zoo.studies.execution.time_left import weights
from transformer_zoo.studies.report import report
from transformer_zoo.studies.report import table
from transformer_zoo.studies.statistics import analysis

_JOBS_FOLDER = "jobs"  # Of the pool: what processes and jobs have printed.


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What came of a study.

  Attributes:
    folder: the study's folder, with `table.md` and `report.html`.
    failures: one sentence per run that failed or could not start.
  """

  folder: pathlib.Path
  failures: tuple[str, ...]


def run_study(name: str, *, launch: Launch = IN_TURN, **request) -> Outcome:
  """Runs one study; see `run_studies`.

  Args:
    name: the study's name, or the path of its gin file.
    launch: where the runs are trained.
    **request: the other attributes of `Request`.
  """
  (outcome,) = run_studies(Request((name,), **request), launch)
  return outcome


def run_studies(request: Request, launch: Launch = IN_TURN) -> list[Outcome]:
  """Runs studies and writes their tables and reports.

  Every configuration is loaded before the first run starts, so a misspelt
  binding in the last row costs no training. Finished runs are reused and
  unfinished ones resumed (`train` sees to it). A run that fails is reported at
  the end and does not stop the others. Several launchers share the runs of a
  pool.

  Args:
    request: the studies.
    launch: where the runs are trained. With SLURM they are submitted, and
      nothing is waited for.

  Returns:
    For each study, in their order, its folder and what failed.

  Raises:
    UserError: a study, or a configuration of it, cannot be run as written, or
      what the launch needs is not there.
  """
  planned = request.planned()
  for each in planned:
    each.folder.mkdir(parents=True, exist_ok=True)
    _write_run_files(each.runs)
    described = record.describe(
      each.study,
      request.loaded_suite,
      each.runs,
      each.folder,
      request.command(each.name, launch),
      request.options(),
    )
    record.write(each.folder, described)
  with request.data_folders():
    failures = _launch(planned, request, launch)
  return [_report(each, failures) for each in planned]


def tell(outcomes: Iterable[Outcome]) -> None:
  """Prints the folders of studies, and what failed.

  Raises:
    UserError: a run failed.
  """
  failures = {}  # Each once, though several studies may have the run.
  for outcome in outcomes:
    print(outcome.folder)
    failures |= dict.fromkeys(outcome.failures)
  for failure in failures:
    print(failure, file=sys.stderr)
  if failures:
    raise UserError(
      f"{len(failures)} of the runs failed or were not run for want of those "
      "(above); the same command goes on with them"
    )


def _launch(
  planned: Sequence[PlannedStudy], request: Request, launch: Launch
) -> dict[pathlib.Path, str]:
  """Trains what is not finished; returns why runs failed, by their folders."""
  console = rich.console.Console(highlight=False)

  def say(text):
    console.print(text, style="bold", markup=False, soft_wrap=True)

  todo = {}
  for each in planned:
    own = list(plan.distinct(each.runs))
    new = [run for run in own if run.folder not in todo]
    say(
      f"study {each.study.name}: {len(new)} runs (rows: "
      f"{len(each.study.rows)}, seeds: {len(each.study.seeds)}, shared runs: "
      f"{len(each.runs) - len(new)})"
    )
    todo |= {run.folder: run for run in new}
  execute = single_run.Execution(tuple(request.search_paths), request.cache)
  pool = request.root / plan.POOL
  if launch.is_queued:
    _submit(planned, list(todo.values()), pool, execute, launch, say)
    return {}
  if launch.is_in_turn:
    launcher = launchers.InTurn(execute)
  else:
    launcher = launchers.LocalProcesses(
      execute, pool / _JOBS_FOLDER, launch.jobs, say
    )
  with launcher:
    names = _names(planned)
    time_left = TimeLeft(
      functools.partial(
        weights,
        todo.values(),
        request.root / planning.SPEEDS_FILE,
        request.search_paths,
        launch.jobs,
      )
    )
    return Schedule(list(todo.values()), launcher, say, names, time_left).run()


def _submit(planned, runs, pool, execute, launch, say) -> None:
  name = "+".join(each.study.name for each in planned)
  queue = slurm.Queue(name, pool, execute, launch.jobs, launch.options)
  for line in queue.submit(runs) or ["nothing is left to submit"]:
    say(line)
  for each in planned:
    say(f"how far it is: zoo report {each.folder}")


def _names(planned: Sequence[PlannedStudy]) -> Mapping[pathlib.Path, str]:
  """What the terminal calls runs, with their study where there are several."""
  names = {}
  for each in planned:
    prefix = f"{each.study.name} / " if len(planned) > 1 else ""
    for run in each.runs:
      names.setdefault(run.folder, prefix + run.name)
  return names


def _report(each: PlannedStudy, failures: Mapping) -> Outcome:
  found = analysis.analyse(results.read(each.folder))
  print("\n" + table.write(found))
  print(report.write(found), flush=True)
  return Outcome(
    each.folder,
    tuple(
      f"{run.name}: {failures[run.folder]}"
      for run in plan.distinct(each.runs)
      if run.folder in failures
    ),
  )


def _write_run_files(runs: Iterable[plan.Run]) -> None:
  """Writes each run as a gin file, for who wants to run it alone."""
  for run in plan.distinct(runs):
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / plan.RUN_FILE).write_text(plan.as_gin(run), encoding="utf-8")
