"""Runs a study: every row with every seed, each distinct run once."""

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import dataclasses
import os
import pathlib
import shlex
import time
import traceback

import gin
import jax
from jax.experimental.compilation_cache import compilation_cache
import rich.console

from transformer_zoo import config
from transformer_zoo.ablations import plan
from transformer_zoo.ablations import report
from transformer_zoo.ablations import results
from transformer_zoo.ablations import study as studies
from transformer_zoo.ablations import table
from transformer_zoo.data import user_modules
from transformer_zoo.errors import UserError
from transformer_zoo.training.progress import duration

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


def run_study(
  name: str,
  *,
  output_dir: str | os.PathLike[str] = "runs",
  seeds: Sequence[int] | None = None,
  data_dirs: Iterable[str | os.PathLike[str]] = (),
  search_paths: Iterable[str | os.PathLike[str]] = (),
) -> Outcome:
  """Runs a study and writes its table and report.

  Every configuration is loaded before the first run starts, so a misspelt
  binding in the last row costs no training. Finished runs are reused and
  unfinished ones resumed (`train` sees to it). A run that fails
  is reported at the end and does not stop the others.

  Args:
    name: the study's name, or the path of its gin file.
    output_dir: the study's folder is made in it; a run lies in
      `<study>/<row>/seed_<seed>/<phase>/`.
    seeds: in place of the study's own.
    data_dirs: folders with raw data, where tasks look for theirs.
    search_paths: folders for gin files, before the project's own.

  Returns:
    The study's folder and what failed.

  Raises:
    UserError: the study, or a configuration of it, cannot be run as written.
  """
  data_dirs, search_paths = tuple(data_dirs), tuple(search_paths)
  study = studies.load_study(name, search_paths)
  if seeds is not None:
    study = studies.with_seeds(study, seeds)
  runs = plan.plan(study, output_dir=output_dir, search_paths=search_paths)
  folder = pathlib.Path(output_dir) / study.name
  folder.mkdir(parents=True, exist_ok=True)
  options = [f"--data_dir={path}" for path in data_dirs]
  options += user_modules.command_options()
  if search_paths:
    options.append("--gin_search_paths=" + ",".join(map(str, search_paths)))
  command = _command(name, output_dir, seeds, options)
  record = _Record(study, runs, folder, command, options)
  record.write()
  cache = folder / ".compilation_cache"
  with _data_folders(data_dirs), _shared_compilations(cache):
    _run_all(runs, record, search_paths)
  read = results.read(folder)
  print("\n" + table.write(read))
  print(report.write(read), flush=True)
  return Outcome(folder, record.failures())


def _run_all(runs, record, search_paths) -> None:
  console = rich.console.Console(highlight=False)

  def say(text):
    console.print(text, style="bold", markup=False, soft_wrap=True)

  todo = [run for run in runs if not run.shared]
  say(
    f"study {record.study.name}: {len(todo)} runs (rows: "
    f"{len(record.study.rows)}, seeds: {len(record.study.seeds)}, "
    f"shared runs: {len(runs) - len(todo)})"
  )
  seconds = {}  # Run -> how long its training takes.
  for number, run in enumerate(todo, start=1):
    head = f"run {number} of {len(todo)}: {run.name}"
    if run.start is not None and record.state(run.start) != "finished":
      reason = f"not run, because {run.phase.starts_from} failed"
      record.set(run.folder, "not run", reason)
      say(f"{head}  {reason}")
      continue
    say(head)
    began, before = time.monotonic(), _modified(run.folder)
    try:
      _train(run, search_paths)
    except Exception as error:  # The other runs are worth having all the same.
      record.set(run.folder, "failed", _reason(error))
      say(f"{head}  failed: {_reason(error)}")
      continue
    reused = before is not None and before == _modified(run.folder)
    seconds[run] = results.read_result(run.folder).get(
      "seconds", time.monotonic() - began
    )
    record.set(run.folder, "finished")
    left = _time_left(todo[number:], seconds)
    say(
      f"{head}  {'reused' if reused else 'finished'} "
      f"({duration(time.monotonic() - began)}; {left})"
    )


def _train(run, search_paths) -> None:
  checkpoint = plan.checkpoint_of(run.start) if run.start else None
  bindings = plan.run_bindings(run.phase, run.seed, run.folder, checkpoint)
  errors = run.folder / "error.txt"
  try:
    config.load(run.phase.gin_files, bindings, search_paths)
    config.call("train")
  except Exception:
    errors.parent.mkdir(parents=True, exist_ok=True)
    errors.write_text(traceback.format_exc(), encoding="utf-8")
    raise
  finally:
    gin.clear_config()
  errors.unlink(missing_ok=True)


def _modified(folder: pathlib.Path) -> int | None:
  path = folder / results.RESULT_FILE
  return path.stat().st_mtime_ns if path.exists() else None


def _reason(error: Exception) -> str:
  text = (str(error).strip().splitlines() or [""])[0]
  return (
    text
    if isinstance(error, UserError)
    else (f"{type(error).__name__}: {text}")
  )


def _time_left(todo: Sequence[plan.Run], seconds: dict[plan.Run, float]) -> str:
  """Estimates from the runs of the same kind that are done."""
  if not todo:
    return "all done"

  def estimate(run):
    same_row = [
      s
      for r, s in seconds.items()
      if (r.row, r.phase.name) == (run.row, run.phase.name)
    ]
    same_phase = [
      s for r, s in seconds.items() if r.phase.name == run.phase.name
    ]
    known = same_row or same_phase or list(seconds.values())
    return sum(known) / len(known)

  return f"about {duration(sum(map(estimate, todo)))} left"


def _command(name, output_dir, seeds, options) -> str:
  """The call as a command, or as Python where `zoo` has no word for it."""
  seeds = None if seeds is None else list(seeds)
  if seeds is not None and seeds != list(range(len(seeds))):
    return f"run_study({name!r}, output_dir={str(output_dir)!r}, seeds={seeds})"
  words = ["zoo", "ablate", name, f"--output_dir={output_dir}"]
  words += [] if seeds is None else [f"--seeds={len(seeds)}"]
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


@contextlib.contextmanager
def _shared_compilations(folder: pathlib.Path) -> Iterator[None]:
  """Compiles a program once for all runs, and for the next call too."""
  wanted = {
    "jax_compilation_cache_dir": str(folder.resolve()),
    "jax_persistent_cache_min_compile_time_secs": 0.5,
  }
  before = {name: getattr(jax.config, name) for name in wanted}
  if before["jax_compilation_cache_dir"] is not None:
    yield  # The user has chosen a cache.
    return

  def use(options):
    for option, value in options.items():
      jax.config.update(option, value)
    # JAX looks at the options only when its cache is next opened.
    compilation_cache.reset_cache()

  use(wanted)
  try:
    yield
  finally:
    use(before)


class _Record:
  """`study.json`: what the study is and how far each run has come."""

  def __init__(self, study, runs, folder, command, options):
    self.study = study
    self._runs = runs
    self._folder = folder
    self._command = command
    self._options = options
    self._states = {run.folder: ("not run", "") for run in runs}

  def state(self, folder: pathlib.Path) -> str:
    return self._states[folder][0]

  def set(self, folder: pathlib.Path, state: str, reason: str = "") -> None:
    self._states[folder] = (state, reason)
    self.write()

  def failures(self) -> tuple[str, ...]:
    return tuple(
      f"{run.name}: {self._states[run.folder][1]}"
      for run in self._runs
      if self.state(run.folder) != "finished" and not run.shared
    )

  def write(self) -> None:
    study = self.study
    results.write_record(
      self._folder,
      {
        "name": study.name,
        "question": study.question,
        "baseline": study.baseline_name,
        "seeds": list(study.seeds),
        "command": self._command,
        "rows": [
          {"name": row.name, "published": dict(row.published or {})}
          for row in study.rows
        ],
        "runs": [self._run(run) for run in self._runs],
      },
    )

  def _run(self, run: plan.Run) -> dict:
    state, reason = self._states[run.folder]
    checkpoint = None
    if run.start is not None and self.state(run.start) == "finished":
      checkpoint = plan.checkpoint_of(run.start)
    bindings = plan.run_bindings(run.phase, run.seed, run.folder, checkpoint)
    command = ["zoo", "train"]
    command += [f"--gin_file={path}" for path in run.phase.gin_files]
    command += [f"--gin.{binding}" for binding in bindings]
    return {
      "row": run.row,
      "seed": run.seed,
      "phase": run.phase.name,
      "scored": run.scored,
      "folder": run.folder.relative_to(self._folder).as_posix(),
      "shared": run.shared,
      "state": state,
      "reason": reason,
      "command": shlex.join(command + self._options),
    }
