"""Runs a study: every row with every seed, each distinct run once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import os
import pathlib
import shlex

import rich.console

from transformer_zoo.ablations import analysis
from transformer_zoo.ablations import execution
from transformer_zoo.ablations import launchers
from transformer_zoo.ablations import loading
from transformer_zoo.ablations import plan
from transformer_zoo.ablations import record
from transformer_zoo.ablations import report
from transformer_zoo.ablations import results
from transformer_zoo.ablations import slurm
from transformer_zoo.ablations import study as studies
from transformer_zoo.ablations import table
from transformer_zoo.ablations.schedule import Schedule
from transformer_zoo.data import user_modules
from transformer_zoo.errors import UserError

LAUNCHERS = ("none", "local", "slurm")
_DATA_VARIABLE = "ZOO_DATA_DIR"  # tasks/data_folders.py


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What came of a study.

  Attributes:
    folder: the study's folder, with `table.md` and `report.html`.
    failures: one sentence per run that failed or could not start.
  """

  folder: pathlib.Path
  failures: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Launch:
  """Where the runs of a study are trained.

  Attributes:
    launcher: 'none' for one after the other in this process, 'local' for
      several processes of this machine, 'slurm' for arrays of jobs.
    jobs: how many at once; with SLURM, of each array.
    options: of sbatch, by submitit's names (`partition`, `gpus_per_node`).
  """

  launcher: str = "none"
  jobs: int = 1
  options: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    if self.launcher not in LAUNCHERS:
      raise UserError(
        f"launcher {self.launcher!r} is none of {', '.join(LAUNCHERS)}"
      )
    if self.jobs < 1:
      raise UserError(f"--jobs is {self.jobs}; it has to be 1 or more")
    if self.jobs > 1 and self.launcher == "none":
      raise UserError(
        f"--jobs is {self.jobs}, but one process trains one run at a time: "
        "choose --launcher local or --launcher slurm"
      )
    if self.options and self.launcher != "slurm":
      raise UserError("--slurm is an option of --launcher slurm alone")


IN_TURN = Launch()


def run_study(
  name: str,
  *,
  suite: str = "miniature",
  output_dir: str | os.PathLike[str] = "runs",
  seeds: Sequence[int] | None = None,
  data_dirs: Iterable[str | os.PathLike[str]] = (),
  search_paths: Iterable[str | os.PathLike[str]] = (),
  launch: Launch = IN_TURN,
) -> Outcome:
  """Runs a study and writes its table and report.

  Every configuration is loaded before the first run starts, so a misspelt
  binding in the last row costs no training. Finished runs are reused and
  unfinished ones resumed (`train` sees to it). A run that fails
  is reported at the end and does not stop the others. Several launchers of one
  study share its runs.

  Args:
    name: the study's name, or the path of its gin file.
    suite: what it is run on: a suite's name, or the path of its gin file.
    output_dir: the study's folder `<study>-<suite>/` is made in it, and the
      pool of all runs, `runs/<phase>-<hash>/`.
    seeds: in place of the study's own.
    data_dirs: folders with raw data, where tasks look for theirs.
    search_paths: folders for gin files, before the project's own.
    launch: where the runs are trained. With SLURM they are submitted, and
      nothing is waited for.

  Returns:
    The study's folder and what failed.

  Raises:
    UserError: the study, or a configuration of it, cannot be run as written,
      or the launcher is not there.
  """
  if "://" in str(output_dir):
    raise UserError(
      f"--output_dir is {str(output_dir)!r}; the runs of a study share a "
      "folder, so give one that all of their machines see as a file system"
    )
  data_dirs, search_paths = tuple(data_dirs), tuple(search_paths)
  study = loading.load_study(name, search_paths)
  if seeds is not None:
    study = studies.with_seeds(study, seeds)
  on = loading.load_suite(suite, search_paths)
  with _data_folders(data_dirs):
    runs = plan.plan(
      study, on, output_dir=output_dir, search_paths=search_paths
    )
  folder = pathlib.Path(output_dir) / f"{study.name}-{on.name}"
  folder.mkdir(parents=True, exist_ok=True)
  _write_run_files(runs)
  options = [f"--data_dir={path}" for path in data_dirs]
  options += user_modules.command_options()
  if search_paths:
    options.append("--gin_search_paths=" + ",".join(map(str, search_paths)))
  command = _command(name, suite, output_dir, seeds, launch, options)
  record.write(
    folder, record.describe(study, on, runs, folder, command, options)
  )
  cache = pathlib.Path(output_dir) / ".compilation_cache"
  execute = execution.Execution(search_paths, cache)
  with _data_folders(data_dirs):
    failures = _launch(study, runs, folder, execute, launch)
  read = results.read(folder)
  found = analysis.analyse(read)
  print("\n" + table.write(found))
  print(report.write(found), flush=True)
  return Outcome(
    folder,
    tuple(
      f"{run.name}: {failures[run.folder]}"
      for run in runs
      if run.folder in failures and not run.shared
    ),
  )


def _launch(study, runs, folder, execute, launch) -> dict[pathlib.Path, str]:
  console = rich.console.Console(highlight=False)

  def say(text):
    console.print(text, style="bold", markup=False, soft_wrap=True)

  todo = list(plan.distinct(runs))
  say(
    f"study {study.name}: {len(todo)} runs (rows: {len(study.rows)}, seeds: "
    f"{len(study.seeds)}, shared runs: {len(runs) - len(todo)})"
  )
  if launch.launcher == "slurm":
    queue = slurm.Queue(
      study.name, folder, execute, launch.jobs, launch.options
    )
    submitted = queue.submit(todo)
    for line in submitted or ["nothing is left to submit"]:
      say(line)
    say(f"how far it is: zoo report {folder}")
    return {}
  if launch.launcher == "local":
    launcher = launchers.LocalProcesses(execute, folder / "jobs", launch.jobs)
  else:
    launcher = launchers.InTurn(execute)
  with launcher:
    return Schedule(todo, launcher, execute, say).run()


def _write_run_files(runs: Iterable[plan.Run]) -> None:
  """Writes each run as a gin file, for who wants to run it alone."""
  for run in plan.distinct(runs):
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / plan.RUN_FILE).write_text(plan.as_gin(run), encoding="utf-8")


def _command(name, suite, output_dir, seeds, launch, options) -> str:
  """The call as a command, or as Python where `zoo` has no word for it."""
  seeds = None if seeds is None else list(seeds)
  if seeds is not None and seeds != list(range(len(seeds))):
    return (
      f"run_study({name!r}, suite={suite!r}, output_dir={str(output_dir)!r}, "
      f"seeds={seeds})"
    )
  words = ["zoo", "ablate", name, f"--suite={suite}"]
  words.append(f"--output_dir={output_dir}")
  words += [] if seeds is None else [f"--seeds={len(seeds)}"]
  if launch.launcher != "none":
    words += [f"--launcher={launch.launcher}", f"--jobs={launch.jobs}"]
    words += [f"--slurm={name}={v}" for name, v in launch.options.items()]
  return shlex.join(words + options)


@contextlib.contextmanager
def _data_folders(folders: Sequence[str | os.PathLike[str]]) -> Iterator[None]:
  """Names the folders to the tasks, which read this variable."""
  before = os.environ.get(_DATA_VARIABLE)
  if folders:
    os.environ[_DATA_VARIABLE] = os.pathsep.join(map(str, folders))
  try:
    yield
  finally:
    if before is not None:
      os.environ[_DATA_VARIABLE] = before
    else:
      os.environ.pop(_DATA_VARIABLE, None)
