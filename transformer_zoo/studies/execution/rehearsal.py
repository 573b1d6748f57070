"""A few steps of a run, to see how long it will take on this machine.

Three times: what is compiled is kept on disk for the run itself, the second
time it is loaded, and the third time it is there, as it is for a study's
later runs. Only then it has more than one step. An evaluation is of some
examples, and told for all.
"""

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import os
import pathlib
import shutil

import gin
import numpy as np

from transformer_zoo import config
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.storage import manifest
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.runs import inputs
from transformer_zoo.runs import reuse
from transformer_zoo.runs.initial_checkpoint import InitialCheckpoint
from transformer_zoo.runs.settings import Run
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import run_bindings
from transformer_zoo.studies.execution import single_run
from transformer_zoo.studies.execution import speeds
from transformer_zoo.studies.execution.speeds import Speed
from transformer_zoo.training import loop

# The median of four lines of timing, of three steps each: the first one, in
# which the process gets its memory, and one that is disturbed do not count.
STEPS = 12
_LOG_PERIOD = 3
# Of each validation split; SQuAD's whole one takes minutes on a CPU.
EXAMPLES = 512
# Programs are compiled, found on disk, and kept in memory.
PARTS = ("compiled", "loaded", "kept")


class _OfATrainedModel(DecodingOptions):
  """Outputs that end where their targets do.

  A model that has learnt nothing does not know where to end, and would make as
  many tokens as there is room for.
  """

  def limits(self, target_lengths_B: np.ndarray) -> np.ndarray:
    """Those of the targets."""
    return target_lengths_B


def rehearse(
  run: plan.Run,
  folder: pathlib.Path,
  cache: pathlib.Path,
  search_paths: Sequence[str | os.PathLike[str]] = (),
) -> tuple[Speed, ...]:
  """Trains a run's first steps, from fresh parameters, and evaluates them.

  Args:
    run: one that trains; its data is read.
    folder: for the time being.
    cache: folder of compiled programs.
    search_paths: folders for gin files.

  Returns:
    How fast it is, for each of `PARTS`.

  Raises:
    Exception: whatever ends the training.
  """
  try:
    with (
      single_run.shared_compilations(cache),
      open(os.devnull, "w", encoding="utf-8") as nothing,
      contextlib.redirect_stdout(nothing),
    ):
      compiled, loaded, kept = [folder / name for name in PARTS]
      with reuse.reused():
        first = _train(run, compiled, search_paths, steps=1)
      with reuse.reused():
        second = _train(run, loaded, search_paths, steps=1)
        third = _train(run, kept, search_paths, steps=STEPS)
      with _configured(run, folder, search_paths):
        evaluation = third.evaluation * _times_as_many_batches()
    first, second = _begun(first, third), _begun(second, third)
    return tuple(
      dataclasses.replace(one, evaluation=evaluation, compiled=one is first)
      for one in (first, second, third)
    )
  finally:
    shutil.rmtree(folder, ignore_errors=True)


def _begun(first: Speed, later: Speed) -> Speed:
  """The speed of a run that begins as one and goes on as another one.

  What the first's evaluation takes longer is compiling.
  """
  compiling = max(0.0, first.evaluation - later.evaluation)
  return dataclasses.replace(later, beginning=first.beginning + compiling)


def _train(run, folder, search_paths, steps) -> Speed:
  with _configured(run, folder, search_paths):
    kind = speeds.Kind.of_loaded()
    settings = Run.of_loaded()
    asked = settings.evaluation.evaluation_max_examples or EXAMPLES
    config.call(
      "train",
      train_steps=steps,
      periods=loop.Periods(_LOG_PERIOD, checkpoint=steps, evaluate=0),
      initial_checkpoint=InitialCheckpoint(),
      decoding=_OfATrainedModel(**vars(settings.evaluation.decoding)),
      evaluation_max_examples=min(EXAMPLES, asked),
    )
    return speeds.measured(folder, kind, rehearsed=True)


@contextlib.contextmanager
def _configured(run, folder, search_paths) -> Iterator[None]:
  bindings = run_bindings.of_run(run.command, run.random_seed, folder)
  try:
    config.load((), bindings, search_paths, changes=run.changes)
    yield
  finally:
    gin.clear_config()


def _times_as_many_batches() -> float:
  """How many times those of a rehearsal an evaluation of the run has.

  Few examples fill their batches less, for those of a batch are of similar
  lengths; so not examples are counted, but what takes time.
  """
  settings = Run.of_loaded()
  asked = settings.evaluation.evaluation_max_examples
  mixture = inputs.prepared(
    settings.data.mixture_or_task_name, settings.data.prepared_dir
  )
  rehearsed = _batches(mixture, settings, min(EXAMPLES, asked or EXAMPLES))
  return _batches(mixture, settings, asked) / rehearsed if rehearsed else 1.0


def _batches(
  mixture: manifest.PreparedMixture,
  settings: Run,
  examples: int | None,
) -> int:
  return sum(
    EvaluationSplit(
      task,
      "validation",
      settings.examples.task_feature_lengths,
      settings.evaluation.evaluation_batch_size or settings.step.batch_size,
      corruption=settings.examples.corruption,
      converter=settings.examples.converter,
      max_examples=examples,
    ).num_batches
    for task in mixture.tasks
    if "validation" in task.splits
  )
