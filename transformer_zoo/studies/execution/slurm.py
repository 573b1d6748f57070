"""Studies on a SLURM cluster: arrays of jobs, one job for each run.

Runs that start from nothing are one array; those that start from the same run
are another one, which SLURM lets begin when that run's job has succeeded. All
of it is submitted at once, so nothing of ours has to stay alive meanwhile.
"""

from collections.abc import Collection, Mapping, Sequence
import pathlib
import shutil
import subprocess

from transformer_zoo.data.storage import folders
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.execution import jobs
from transformer_zoo.studies.execution import single_run
from transformer_zoo.studies.execution import standing
from transformer_zoo.studies.execution.launchers import require_submitit

_DAY_MINUTES = 60 * 24
_MOST_TIMEOUTS = 1000


class Queue:
  """Submits runs, those with a job in the queue once."""

  def __init__(
    self,
    name: str,
    folder: pathlib.Path,
    execute: single_run.Execution,
    at_once: int,
    options: Mapping[str, str],
  ):
    """Checks the options; nothing is submitted.

    Args:
      name: of the jobs.
      folder: the pool of runs; it is on a file system that all nodes share.
      execute: trains a run.
      at_once: how many of an array.
      options: of sbatch, by submitit's names.

    Raises:
      UserError: submitit or SLURM is not there, or an option is unknown.
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

  def submit(self, runs: Sequence[plan.Run]) -> list[str]:
    """Submits the runs that are neither finished nor on their way.

    Args:
      runs: the distinct runs of the studies, in their order.

    Returns:
      A line for each array.

    Raises:
      UserError: SLURM does not answer, or refuses a job.
    """
    with folders.lock(self._folder / ".jobs.lock"):
      active = jobs.active(self._folder, required=True)
      todo = [run for run in runs if self._is_due(run, active)]
      awaited = {*active, *(run.folder.name for run in todo)}
      return [
        self._submit_array(array, [active[name] for name in names], active)
        for names, array in _arrays(todo, awaited).items()
      ]

  def _is_due(self, run: plan.Run, active: Mapping[str, str]) -> bool:
    if run.folder.name in active:
      return False
    for start in run.starts:
      if start.name not in active:
        if standing.of_folder(start).state == standing.RUNNING:
          return False  # By another launcher, whose end SLURM does not see.
    state = standing.of_folder(run.folder).state
    return state not in (standing.FINISHED, standing.RUNNING)

  def _submit_array(self, runs, after: list[str], active: dict) -> str:
    self._executor.update_parameters(
      dependency=":".join(["afterok", *after]) if after else None
    )
    try:
      with self._executor.batch(allow_implicit_submissions=True):
        submitted = [
          self._executor.submit(single_run.Job(run, self._execute))
          for run in runs
        ]
    except (subprocess.SubprocessError, RuntimeError) as error:
      raise UserError(
        f"sbatch refused the runs: {single_run.reason(error)}"
      ) from error
    for run, job in zip(runs, submitted, strict=True):
      active[run.folder.name] = job.job_id
      (run.folder / standing.ERROR_FILE).unlink(missing_ok=True)
    jobs.write(self._folder, active)
    first = submitted[0].job_id.partition("_")[0]
    what = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    return f"job {first}: {what}" + (
      f", after job {', '.join(after)}" if after else ""
    )


def _arrays(
  runs: Sequence[plan.Run], awaited: Collection[str]
) -> dict[tuple[str, ...], list[plan.Run]]:
  """Runs by the names of the runs that have to end before they begin.

  Args:
    runs: to be submitted; a run comes after those that it starts from.
    awaited: names of the runs that have a job, or will have.
  """
  arrays = {}
  for run in runs:
    key = tuple(s.name for s in run.starts if s.name in awaited)
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
