"""Which runs of a pool have a job in a queue."""

from collections.abc import Mapping
import pathlib
import subprocess

from transformer_zoo.errors import UserError
from transformer_zoo.studies.execution import json_files

JOBS_FILE = "jobs.json"


def write(folder: pathlib.Path, jobs: Mapping[str, str]) -> None:
  """Writes down the jobs of a pool.

  Args:
    folder: the pool.
    jobs: job by the name of its run's folder.
  """
  json_files.replace(folder / JOBS_FILE, jobs)


def active(folder: pathlib.Path, required: bool = False) -> dict[str, str]:
  """Returns the jobs that wait or run, by the names of their runs' folders.

  Args:
    folder: the pool.
    required: whether SLURM has to answer; else jobs are taken to be active
      where it does not, as on a machine without SLURM.

  Raises:
    UserError: SLURM does not answer, or the file is damaged.
  """
  jobs = _read(folder / JOBS_FILE)
  if not jobs:
    return {}
  # Arrays are listed job by job.
  command = ["squeue", "--me", "--array", "--noheader", "--format=%i"]
  try:
    listed = subprocess.run(
      command, capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
  except (OSError, subprocess.SubprocessError) as error:
    if required:
      raise UserError(
        "squeue does not tell which jobs of the studies are in the queue: "
        f"{getattr(error, 'stderr', None) or error}"
      ) from error
    return jobs
  return {name: job for name, job in jobs.items() if job in listed}


def _read(path: pathlib.Path) -> dict[str, str]:
  if not path.exists():
    return {}
  try:
    return json_files.read(path)
  except UserError as error:
    raise UserError(
      f"{path} is damaged, so the jobs of the studies are not known; remove "
      "the file when `squeue --me` lists none of them"
    ) from error
