"""Requests of `zoo ablate`: studies on a suite, and processes to train them."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import dataclasses
import functools
import os
import pathlib
import shlex
import shutil

from transformer_zoo.data import user_modules
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import study as studies
from transformer_zoo.studies.design.study import Study
from transformer_zoo.studies.design.suite import Suite

EXECUTORS = ("local", "submitit")
_DATA_VARIABLE = "ZOO_DATA_DIR"  # tasks/sources/data_folders.py
_Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Launch:
  """The processes that train the runs of studies.

  Attributes:
    executor: 'local' for this machine: this process, or several if `jobs` is
      more than 1. 'submitit' for arrays of jobs on a SLURM cluster, or, without
      SLURM, for processes of this machine.
    jobs: The number of runs that train at the same time; on SLURM, of each
      array. With several processes of this machine, JAX runs on the CPU in this
      process, and the accelerators are left to the others.
    options: The options of sbatch by submitit's names (`partition`,
      `gpus_per_node`).
  """

  executor: str = "local"
  jobs: int = 1
  options: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    if self.executor not in EXECUTORS:
      raise UserError(
        f"executor {self.executor!r} is none of {', '.join(EXECUTORS)}"
        f"{nearest(self.executor, EXECUTORS)}"
      )
    if self.jobs < 1:
      raise UserError(f"--jobs is {self.jobs}; it has to be 1 or more")
    if self.options and not self.is_queued:
      raise UserError(
        "--slurm is an option of --executor submitit on a machine that has "
        "SLURM (sbatch) alone"
      )

  @property
  def is_queued(self) -> bool:
    """True if the runs are submitted to SLURM."""
    return self.executor == "submitit" and shutil.which("sbatch") is not None

  @property
  def is_in_turn(self) -> bool:
    """True if this process trains the runs one after the other."""
    return self.executor == "local" and self.jobs == 1

  def words(self) -> list[str]:
    """Returns the options of `zoo ablate` that differ from their defaults."""
    words = [f"--executor={self.executor}"] * (self.executor != "local")
    words += [f"--jobs={self.jobs}"] * (self.jobs != 1)
    return words + [f"--slurm={k}={v}" for k, v in self.options.items()]


IN_TURN = Launch()


@dataclasses.dataclass(frozen=True)
class PlannedStudy:
  """A study and its runs.

  Attributes:
    name: The name of the study in the request.
    study: The study.
    folder: The folder of the study's table and report.
    runs: All runs of the study in their order.
  """

  name: str
  study: Study
  folder: pathlib.Path
  runs: Sequence[plan.Run]


@dataclasses.dataclass(frozen=True)
class Request:
  """Studies on a suite.

  Attributes:
    names: The names of studies, or the paths of their gin files.
    suite: The name of the suite that they run on, or the path of its gin file.
    output_dir: The folder of the studies' folders, `<study>-<suite>/`, and of
      the pool of all runs, `runs/<phase>-<hash>/`.
    seeds: The seeds that replace the studies' seeds; None to keep them.
    data_dirs: The folders that tasks search for raw data.
    search_paths: Folders that are searched for gin files before the shipped
      ones.
  """

  names: Sequence[str]
  suite: str = "miniature"
  output_dir: _Path = "runs"
  seeds: Sequence[int] | None = None
  data_dirs: Sequence[_Path] = ()
  search_paths: Sequence[_Path] = ()

  def __post_init__(self):
    if "://" in str(self.output_dir):
      raise UserError(
        f"--output_dir is {str(self.output_dir)!r}; the runs of a study share "
        "a folder, so give one that all of their machines see as a file system"
      )
    if self.root.exists() and not self.root.is_dir():
      raise UserError(
        f"--output_dir is {str(self.output_dir)!r}, a file; name the folder of "
        "the studies"
      )
    for name in self.names:
      if self.names.count(name) > 1:
        raise UserError(f"study {name!r} is named twice")

  @property
  def root(self) -> pathlib.Path:
    """The folder of all studies and runs."""
    return pathlib.Path(self.output_dir)

  @property
  def cache(self) -> pathlib.Path:
    """The folder of compiled programs that all runs share."""
    return self.root / ".compilation_cache"

  @functools.cached_property
  def loaded_suite(self) -> Suite:
    """The suite, checked."""
    return loading.load_suite(self.suite, self.search_paths)

  def planned(self, *, prepare: bool = True) -> list[PlannedStudy]:
    """Returns the studies with their runs; loads every configuration once.

    Args:
      prepare: True to prepare missing data (`plan.plan`).

    Raises:
      UserError: If a study, the suite or a configuration cannot be run as it is
        written, or two studies have the same name.
    """
    suite = self.loaded_suite
    loaded = [self._study(name) for name in self.names]
    by_name = {}
    for given, study in zip(self.names, loaded, strict=True):
      if study.name in by_name:
        raise UserError(
          f"{by_name[study.name]} and {given} are both called {study.name!r}, "
          "and would write into one folder; give one another Study.name, or "
          "leave it out"
        )
      by_name[study.name] = given
    with self.data_folders():
      return [
        PlannedStudy(
          name,
          study,
          self.root / f"{study.name}-{suite.name}",
          plan.plan(
            study,
            suite,
            output_dir=self.output_dir,
            search_paths=self.search_paths,
            prepare=prepare,
          ),
        )
        for name, study in zip(self.names, loaded, strict=True)
      ]

  def command(self, name: str, launch: Launch) -> str:
    """Returns the shell command that runs one of the studies alone.

    For seeds that no option of `zoo` can express, it is a call in Python.
    """
    seeds = None if self.seeds is None else list(self.seeds)
    if seeds is not None and seeds != list(range(len(seeds))):
      return (
        f"run_study({name!r}, suite={self.suite!r}, "
        f"output_dir={str(self.output_dir)!r}, seeds={seeds})"
      )
    words = ["zoo", "ablate", name, f"--suite={self.suite}"]
    words.append(f"--output_dir={self.output_dir}")
    words += [] if seeds is None else [f"--seeds={len(seeds)}"]
    return shlex.join([*words, *launch.words(), *self.options()])

  def options(self) -> list[str]:
    """Returns options that the command of every run needs too."""
    options = [f"--data_dir={path}" for path in self.data_dirs]
    options += user_modules.command_options()
    if self.search_paths:
      paths = ",".join(map(str, self.search_paths))
      options.append(f"--gin_search_paths={paths}")
    return options

  @contextlib.contextmanager
  def data_folders(self) -> Iterator[None]:
    """Sets the environment variable in which tasks find the data folders."""
    before = os.environ.get(_DATA_VARIABLE)
    if self.data_dirs:
      os.environ[_DATA_VARIABLE] = os.pathsep.join(map(str, self.data_dirs))
    try:
      yield
    finally:
      if before is not None:
        os.environ[_DATA_VARIABLE] = before
      else:
        os.environ.pop(_DATA_VARIABLE, None)

  def _study(self, name: str) -> Study:
    study = loading.load_study(name, self.search_paths)
    return (
      study if self.seeds is None else studies.with_seeds(study, self.seeds)
    )
