"""One run of a study: claimed, trained, and its error recorded."""

from collections.abc import Iterator, Sequence
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
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.errors import UserError
from transformer_zoo.processes import claims
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.execution import choices
from transformer_zoo.studies.execution import result_file
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.training import loop


class Elsewhere(Exception):
  """An error: another launcher is training the run."""


@dataclasses.dataclass(frozen=True)
class Execution:
  """A function that trains runs of studies.

  Attributes:
    search_paths: Folders that are searched for gin files before the shipped
      ones.
    cache: The folder of compiled programs that the runs share.
  """

  search_paths: Sequence[str | os.PathLike[str]]
  cache: pathlib.Path

  def __call__(self, run: planned_run.Run) -> None:
    """Trains a run to its end; returns at once if the run is finished.

    Args:
      run: The run. Of alternatives, the one that the search has chosen by now
        is trained.

    Raises:
      Elsewhere: If another launcher is training the run.
      UserError: If the search has not ended.
      Exception: Any error of the training, which `error.txt` records too.
    """
    if run.choice is not None:
      run = choices.resolved(run)
      if run.choice is not None:
        raise UserError(f"the search of {run.name} has not ended")
      planned_run.write_gin(run)
    if (run.folder / run_progress.RESULT_FILE).exists():
      return
    with claims.claim(run.folder) as mine:
      if not mine:
        raise Elsewhere(f"{run.name} is trained by {claims.owner(run.folder)}")
      with shared_compilations(self.cache):
        self._train(run)

  def _train(self, run: planned_run.Run) -> None:
    errors = run.folder / run_progress.ERROR_FILE
    try:
      checkpoints = [result_file.checkpoint_of(start) for start in run.starts]
      bindings = planned_run.bindings(
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
  environment.write_environment(folder / run_layout.ENVIRONMENT)
  run_layout.replace(folder / run_layout.CONFIG, config.operative_config())


def stop_on_sigterm() -> None:
  """Makes SIGTERM raise `Preempted` outside of a training loop."""

  def stop(*_):
    # A second signal must not interrupt the saving of the state.
    if not isinstance(sys.exception(), loop.Preempted):
      raise loop.Preempted

  signal.signal(signal.SIGTERM, stop)


def reason(error: BaseException) -> str:
  """Returns an error as one line for a list of failures."""
  text = (str(error).strip().splitlines() or [""])[0]
  if isinstance(error, UserError):
    return text
  return f"{type(error).__name__}: {text}"


@contextlib.contextmanager
def shared_compilations(folder: pathlib.Path) -> Iterator[None]:
  """Keeps compiled programs in a folder for all runs and later commands."""
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
    # JAX reads the options only when it opens its cache.
    compilation_cache.reset_cache()

  use(wanted)
  try:
    yield
  finally:
    use(before)
