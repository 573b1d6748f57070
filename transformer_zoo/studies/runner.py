"""The execution of studies: every row with every seed, each run once."""

from collections.abc import Iterable, Mapping, Sequence
import contextlib
import dataclasses
import functools
import pathlib
import sys

import rich.console
import rich.table
import rich.text

from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.design.request import IN_TURN
from transformer_zoo.studies.design.request import Launch
from transformer_zoo.studies.design.request import PlannedStudy
from transformer_zoo.studies.design.request import Request
from transformer_zoo.studies.execution import costs
from transformer_zoo.studies.execution import durations
from transformer_zoo.studies.execution import launchers
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.execution import single_run
from transformer_zoo.studies.execution import slurm
from transformer_zoo.studies.execution.schedule import Schedule
from transformer_zoo.studies.report import files
from transformer_zoo.studies.report import page
from transformer_zoo.studies.report import report
from transformer_zoo.studies.statistics import analysis
from transformer_zoo.studies.statistics import scores

_JOBS_FOLDER = "jobs"  # In the pool: the output of processes and jobs.


@dataclasses.dataclass(frozen=True)
class Outcome:
  """The outcome of a study.

  Attributes:
    folder: The folder of the study, with `table.md` and `report.html`.
    failures: A sentence for each run that failed or could not start.
  """

  folder: pathlib.Path
  failures: tuple[str, ...]


def run_study(name: str, *, launch: Launch = IN_TURN, **request) -> Outcome:
  """Runs one study; see `run_studies`.

  Args:
    name: The name of the study, or the path of its gin file.
    launch: The processes that train the runs.
    **request: The other attributes of `Request`.
  """
  (outcome,) = run_studies(Request((name,), **request), launch)
  return outcome


def run_studies(request: Request, launch: Launch = IN_TURN) -> list[Outcome]:
  """Runs studies and writes their tables and reports.

  Every configuration is loaded before the first run starts, so a misspelt
  binding in the last row costs no training. Finished runs are reused, and
  unfinished ones are resumed by `train`. A run that fails is reported at the
  end and does not stop the others. Several launchers share the runs of a pool.

  With several processes (`launch.jobs`), a Python script has to call this
  function under `if __name__ == "__main__":`, as `multiprocessing` requires.

  Args:
    request: The studies.
    launch: The processes that train the runs. On SLURM the runs are submitted,
      and the call returns without waiting for them.

  Returns:
    The outcome of each study, in their order.

  Raises:
    UserError: If a study or a configuration of it cannot be run as written, or
      the launch needs a package or program that is not installed.
  """
  planned = request.planned()
  _describe(planned, request, launch)
  with request.data_folders():
    failures = _launch(planned, request, launch)
  return [_report(each, failures) for each in planned]


def _describe(
  planned: Iterable[PlannedStudy], request: Request, launch: Launch
) -> None:
  """Writes `study.json` of each study and the gin file of each run."""
  for each in planned:
    each.folder.mkdir(parents=True, exist_ok=True)
    _write_run_files(each.runs)
    described = results.describe(
      each.study,
      request.loaded_suite,
      each.runs,
      each.folder,
      request.command(each.name, launch),
      request.options(),
    )
    results.write(each.folder, described)


def print_outcomes(outcomes: Iterable[Outcome]) -> None:
  """Prints the folders of studies and the failures.

  Raises:
    UserError: If a run failed.
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
  """Trains unfinished runs; returns reasons of failures by run folder."""
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
    launcher = launchers.WorkerProcesses(
      execute, pool / _JOBS_FOLDER, launch.jobs, say
    )
  with launcher:
    names = _names(planned)
    runs = list(todo.values())
    known = durations.Durations(
      functools.partial(_flops, runs, request),
      durations.finished_here(pool, runs, launch.jobs),
    )
    tables = _TablesOfSeeds(planned, console)
    with contextlib.ExitStack() as stack:
      show = []
      if console.is_terminal and not launch.is_in_turn:
        status = console.status("", refresh_per_second=2)
        show.append(stack.enter_context(status).update)
      return Schedule(
        runs, launcher, say, names, known, tables.add, *show
      ).run()


class _TablesOfSeeds:
  """Prints the table of a study when the first of its seeds are complete."""

  def __init__(
    self, planned: Sequence[PlannedStudy], console: rich.console.Console
  ):
    self._console = console
    # Study -> seed -> folders of the runs that are left; the last seed has the
    # table at the end.
    self._left = [
      (
        each,
        {
          seed: {run.folder for run in each.runs if run.seed == seed}
          for seed in each.study.seeds[:-1]
        },
      )
      for each in planned
    ]

  def add(self, run: planned_run.Run) -> None:
    """Takes a finished run."""
    for each, seeds in self._left:
      for seed, folders in [*seeds.items()]:
        folders.discard(run.folder)
        if not folders:
          del seeds[seed]
          self._console.print(
            _table(each, f"{each.study.name}, seed {seed} complete")
          )


def _table(each: PlannedStudy, title: str) -> rich.table.Table:
  """Returns the scores so far, for the terminal."""
  found = scores.build(results.read(each.folder))
  table = rich.table.Table(title=title, title_justify="left")
  table.add_column("row")
  for column in found.columns:
    table.add_column(column, justify="right")
  for row in found.rows:
    shown = [rich.text.Text(found.labels[row])]
    for column in found.columns:
      cell = found.cells[row, column]
      text = "" if cell.mean is None else f"{cell.mean:.{cell.decimals}f}"
      shown.append(rich.text.Text(text, "bold" if cell.bold else ""))
    table.add_row(*shown)
  return table


def _flops(
  runs: Sequence[planned_run.Run], request: Request
) -> Mapping[pathlib.Path, int]:
  """Returns the FLOPs of training runs by their folders."""
  try:
    jobs = costs.jobs(
      runs,
      request.search_paths,
      costs_file=request.root / costs.COSTS_FILE,
    )
  except UserError:  # Of a run that fails; its launcher reports it.
    return {}
  return {job.run.folder: job.costs.flops for job in jobs if job.costs}


def _submit(planned, runs, pool, execute, launch, say) -> None:
  name = "+".join(each.study.name for each in planned)
  queue = slurm.Queue(name, pool, execute, launch.jobs, launch.options)
  for line in queue.submit(runs) or ["nothing is left to submit"]:
    say(line)
  for each in planned:
    say(f"how far it is: zoo report {each.folder}")


def _names(planned: Sequence[PlannedStudy]) -> Mapping[pathlib.Path, str]:
  """Returns the names of runs in messages; with several studies, theirs too."""
  names = {}
  for each in planned:
    prefix = f"{each.study.name} / " if len(planned) > 1 else ""
    for run in each.runs:
      names.setdefault(run.folder, prefix + run.name)
  return names


def _report(each: PlannedStudy, failures: Mapping) -> Outcome:
  found = analysis.analyse(results.read(each.folder))
  text = files.write(found)
  written = report.write(found)
  console = rich.console.Console(highlight=False)
  if console.is_terminal:
    console.print(_table(each, each.study.question))
    print(page.how_to_open(written), flush=True)
  else:
    print(f"\n{text}\n{written}", flush=True)
  return Outcome(
    each.folder,
    tuple(
      f"{run.name}: {failures[run.folder]}"
      for run in plan.distinct(each.runs)
      if run.folder in failures
    ),
  )


def _write_run_files(runs: Iterable[planned_run.Run]) -> None:
  """Writes each run as a gin file that can be run alone."""
  for run in plan.distinct(runs):
    if run.choice is None:  # Else it is written when it is chosen.
      planned_run.write_gin(run)
