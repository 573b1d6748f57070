"""One run of a study: claimed, trained, and told about where it fails."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import dataclasses
import os
import pathlib
import signal
import sys
import traceback

import gin
import jax
from jax.experimental.compilation_cache import compilation_cache

from transformer_zoo import config
from transformer_zoo import environment
from transformer_zoo.errors import UserError
from transformer_zoo.processes import claims
from transformer_zoo.runs import run_folder
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import run_bindings
from transformer_zoo.studies.execution import outcome
from transformer_zoo.studies.execution import standing
from transformer_zoo.training import loop


class Elsewhere(Exception):
  """Another launcher is training the run."""


@dataclasses.dataclass(frozen=True)
class Execution:
  """How the runs of a study are trained.

  Attributes:
    search_paths: folders for gin files, before the project's own.
    cache: folder of compiled programs that the runs share.
  """

  search_paths: Sequence[str | os.PathLike[str]]
  cache: pathlib.Path

  def __call__(self, run: plan.Run) -> None:
    """Trains a run to its end, unless it has ended.

    Raises:
      Elsewhere: another launcher is training it.
      Exception: whatever ends the training; `error.txt` tells it.
    """
    if (run.folder / outcome.RESULT_FILE).exists():
      return
    with claims.claim(run.folder) as mine:
      if not mine:
        raise Elsewhere(f"{run.name} is trained by {claims.owner(run.folder)}")
      with shared_compilations(self.cache):
        self._train(run)

  def _train(self, run: plan.Run) -> None:
    errors = run.folder / standing.ERROR_FILE
    try:
      checkpoints = [outcome.checkpoint_of(start) for start in run.starts]
      bindings = run_bindings.of_run(
        run.command, run.random_seed, run.folder, checkpoints
      )
      config.load(
        (),
        bindings,
        self.search_paths,
        changes=run.changes,
        root=run.command,
      )
      if run.command != "train":  # Training describes its runs itself.
        _describe(run.folder)
      config.call(run.command)
    except Exception as error:
      text = f"{reason(error)}\n\n{traceback.format_exc()}"
      errors.write_text(text, encoding="utf-8")
      raise
    finally:
      gin.clear_config()
    errors.unlink(missing_ok=True)


def _describe(folder: pathlib.Path) -> None:
  environment.write_environment(folder / run_folder.ENVIRONMENT)
  run_folder.replace(folder / run_folder.CONFIG, config.operative_config())


@dataclasses.dataclass(frozen=True)
class Job:
  """A run as a process of its own, as submitit starts it on a cluster.

  SIGTERM, which a cluster sends when it takes the machine back or a user
  cancels the job, saves the state and ends it. SIGUSR2, which announces the
  job's time limit, saves the state and puts the job back into its queue.

  Attributes:
    run: what to train.
    execute: trains it.
  """

  run: plan.Run
  execute: Callable[[plan.Run], None]

  def __call__(self) -> None:
    """Trains the run."""
    at_limit = []

    def stop_at_limit(*_):
      at_limit.append(True)
      signal.raise_signal(signal.SIGTERM)

    stop_on_sigterm()  # submitit would ignore it.
    queue_again = signal.signal(signal.SIGUSR2, stop_at_limit)
    try:
      self.execute(self.run)
    except loop.Preempted:
      if at_limit:
        queue_again(signal.SIGUSR2, None)
      raise

  def checkpoint(self):
    """What submitit puts back into the queue."""
    from submitit.helpers import DelayedSubmission

    return DelayedSubmission(self)


def stop_on_sigterm() -> None:
  """Makes SIGTERM raise `Preempted` where no training loop takes it over."""

  def stop(*_):
    # Not a second time, while the state is being saved.
    if not isinstance(sys.exception(), loop.Preempted):
      raise loop.Preempted

  signal.signal(signal.SIGTERM, stop)


def reason(error: BaseException) -> str:
  """One line for a list of failures."""
  text = (str(error).strip().splitlines() or [""])[0]
  if isinstance(error, UserError):
    return text
  return f"{type(error).__name__}: {text}"


@contextlib.contextmanager
def shared_compilations(folder: pathlib.Path) -> Iterator[None]:
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
