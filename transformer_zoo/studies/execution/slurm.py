"""Studies on a SLURM cluster: arrays of jobs, submitted by submitit.

Runs that start from scratch form one array; the runs that start from the same
run form another one, which SLURM starts when that run's job has succeeded, as
do the runs that one search chooses after all jobs of the search. All arrays are
submitted at once, so that no process has to wait for them.
"""

from collections.abc import Collection, Mapping, Sequence
import dataclasses
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess

from transformer_zoo.data.storage import folders
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design.planned_run import Run
from transformer_zoo.studies.execution import choices
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution import single_run
from transformer_zoo.training import loop

_DAY_MINUTES = 60 * 24
_MOST_TIMEOUTS = 1000


def require_submitit():
  """Returns the module submitit.

  Raises:
    UserError: If it is not installed.
  """
  if importlib.util.find_spec("submitit") is None:
    raise UserError(
      "--executor submitit needs the package submitit: pip install "
      "'transformer_zoo[launch]'"
    )
  variable = "SUBMITIT_LOG_LEVEL"
  given = os.environ.setdefault(variable, "NOCONFIG")
  # Without it, the import would close the handlers of all logging here.
  import submitit

  if given == "NOCONFIG":
    del os.environ[variable]  # Jobs configure their own logging.
  return submitit


@dataclasses.dataclass(frozen=True)
class Job:
  """A run in a job of its own, as submitit starts it on a cluster.

  SIGTERM, which a cluster sends when it takes the machine back or a user
  cancels the job, saves the state and ends the job. SIGUSR2, which announces
  the job's time limit, saves the state and puts the job back into its queue.

  Attributes:
    run: The run.
    execute: The function that trains the run.
  """

  run: Run
  execute: single_run.Execution

  def __call__(self) -> None:
    """Trains the run."""
    at_limit = []

    def stop_at_limit(*_):
      at_limit.append(True)
      signal.raise_signal(signal.SIGTERM)

    single_run.stop_on_sigterm()  # submitit would ignore the signal.
    queue_again = signal.signal(signal.SIGUSR2, stop_at_limit)
    try:
      self.execute(self.run)
    except loop.Preempted:
      if at_limit:
        queue_again(signal.SIGUSR2, None)
      raise

  def checkpoint(self):
    """Returns the submission that submitit puts back into the queue."""
    from submitit.helpers import DelayedSubmission

    return DelayedSubmission(self)


class Queue:
  """The queue of a cluster, which holds each run once."""

  def __init__(
    self,
    name: str,
    folder: pathlib.Path,
    execute: single_run.Execution,
    at_once: int,
    options: Mapping[str, str],
  ):
    """Checks the options and submits nothing yet.

    Args:
      name: The name of the jobs.
      folder: The pool of runs, on a file system that all nodes share.
      execute: The function that trains a run.
      at_once: The number of jobs of an array that run at the same time.
      options: The options of sbatch by submitit's names.

    Raises:
      UserError: If submitit or SLURM is not installed, or an option is unknown.
    """
    submitit = require_submitit()
    for command in ("squeue", "srun"):
      if shutil.which(command) is None:
        raise UserError(
          f"there is sbatch here, but no {command}: run this on a login node "
          "of SLURM, or use --executor local"
        )
    self._folder = folder
    self._execute = execute
    self._executor = submitit.SlurmExecutor(
      folder / "jobs", max_num_timeout=_MOST_TIMEOUTS
    )
    _check(options, submitit.SlurmExecutor._valid_parameters())
    self._executor.update_parameters(
      job_name=name,
      array_parallelism=at_once,
      additional_parameters={"kill-on-invalid-dep": "yes", "requeue": True},
      **{"time": _DAY_MINUTES}
      | {k: int(v) if v.isdigit() else v for k, v in options.items()},
    )

  def submit(self, runs: Sequence[Run]) -> list[str]:
    """Submits the runs that are neither finished, running nor queued.

    Args:
      runs: The distinct runs of the studies, in their order.

    Returns:
      A message for each array.

    Raises:
      UserError: If SLURM does not answer, or refuses a job.
    """
    with folders.lock(self._folder / ".jobs.lock"):
      active = run_progress.active_jobs(self._folder, required=True)
      todo = [run for run in runs if self._should_submit(run, active)]
      awaited = {*active, *(run.folder.name for run in todo)}
      return [
        self._submit_array(array, [active[name] for name in names], active)
        for names, array in _arrays(todo, awaited).items()
      ]

  def _should_submit(self, run: Run, active: Mapping[str, str]) -> bool:
    if run.folder.name in active:
      return False
    for start in run.awaited:
      if start.name not in active:
        if run_progress.read(start).state == run_progress.RUNNING:
          return False  # SLURM cannot wait for another launcher's run.
    state = run_progress.read(choices.resolved(run).folder).state
    return state not in (run_progress.FINISHED, run_progress.RUNNING)

  def _submit_array(self, runs, after: list[str], active: dict) -> str:
    self._executor.update_parameters(
      dependency=":".join(["afterok", *after]) if after else None
    )
    try:
      with self._executor.batch(allow_implicit_submissions=True):
        submitted = [
          self._executor.submit(Job(run, self._execute)) for run in runs
        ]
    except (subprocess.SubprocessError, RuntimeError) as error:
      raise UserError(
        f"sbatch refused the runs: {single_run.reason(error)}"
      ) from error
    for run, job in zip(runs, submitted, strict=True):
      active[run.folder.name] = job.job_id
      folder = choices.resolved(run).folder
      (folder / run_progress.ERROR_FILE).unlink(missing_ok=True)
    run_progress.write_jobs(self._folder, active)
    first = submitted[0].job_id.partition("_")[0]
    what = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    return f"job {first}: {what}" + (
      f", after job {', '.join(after)}" if after else ""
    )


def _arrays(
  runs: Sequence[Run], awaited: Collection[str]
) -> dict[tuple[str, ...], list[Run]]:
  """Groups runs by the names of the runs that they have to wait for.

  Args:
    runs: The runs to submit, each after those that it awaits.
    awaited: The names of the runs that have a job or will have one.
  """
  arrays = {}
  for run in runs:
    key = tuple(one.name for one in run.awaited if one.name in awaited)
    arrays.setdefault(key, []).append(run)
  return arrays


def _check(options: Mapping[str, str], known: Collection[str]) -> None:
  for option in options:
    if option not in known:
      raise UserError(
        f"--slurm {option} is none of sbatch's options that submitit knows"
        f"{nearest(option, known)}"
      )
  for option in ("nodes", "ntasks_per_node"):
    if options.get(option, "1") != "1":
      raise UserError(
        f"--slurm {option}={options[option]}: a run of a study is one process "
        "with the GPUs of a node; scripts/slurm.sh runs one on several nodes"
      )
  if not options.get("time", "0").isdigit():
    raise UserError(f"--slurm time={options['time']} is no number of minutes")
