"""Training runs and their evaluations on the validation splits."""

from collections.abc import Mapping, Sequence
import contextlib
import functools
import itertools
import pathlib
import time
from typing import Any

from flax import traverse_util
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.checkpoints import run_layout
from transformer_zoo.data.features import converters
from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader.batches import Batches
from transformer_zoo.data.loader.batches import count_repeats
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.storage.manifest import PreparedMixture
from transformer_zoo.data.storage.manifest import PreparedTask
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.evaluator import Evaluator
from transformer_zoo.processes import distributed
from transformer_zoo.runs import inputs
from transformer_zoo.runs import reuse
from transformer_zoo.runs import run_folder
from transformer_zoo.runs import settings
from transformer_zoo.runs.answers import scoring
from transformer_zoo.training import loop
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.compiled_step import CompiledStep
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import meshes
from transformer_zoo.training.sharding import partitioning as partitioning_lib

_SPLIT = "validation"


@gin.register
@run_folder.at_any_place
@settings.by_fields
def train(run: settings.Run) -> str:
  """Trains a model and evaluates it on the validation splits.

  Started again, it resumes, or returns at once if it had finished. Fine-tuning
  counts its own steps: `train_steps` never includes pre-training's.

  Args:
    run: The settings; gin binds each of them by its name.

  Returns:
    The path of `result.json`.

  Raises:
    UserError: The configuration or the data cannot be used as it is.
  """
  started = time.perf_counter()
  run.check_folders()
  step, course = run.step, run.course
  folder = pathlib.Path(run.storage.model_dir)
  configuration = run_layout.configuration_of(step.model, "train")
  run_folder.check(folder, configuration)
  result = folder / run_layout.RESULT
  if result.exists():
    checkpoints = run.storage.checkpointing.folder_of(folder)
    run_folder.check_finished(folder, checkpoints)
    print(f"{folder} has finished before; its result stands")
    return str(result)
  run_folder.check_writable(folder)
  program = reuse.shared(settings.Step.program, step, groups=(settings.Step,))
  mesh = program.mesh
  step.watching.check(course.train_steps)
  program.check_memory()
  if not run.start.initial_checkpoint.path:
    _check_drawn(program)
  converter = run.examples.converter
  lengths = inputs.whole_lengths(converter, run.examples.task_feature_lengths)
  run = run.replace(task_feature_lengths=lengths)
  with step.partitioning.activate(mesh):
    program.check_memory(run.abstract_batch(mesh))
  mixture = inputs.prepared(
    run.data.mixture_or_task_name,
    run.data.prepared_dir,
    form=converter.form,
    required_splits=("train",),
  )
  inputs.check_mixture(step.model, mixture, converter)
  mixture = run.data.mixture(mixture)
  evaluator, splits = None, {}
  checkpointing = run.storage.checkpointing
  if not course.periods.evaluates:
    checkpointing.check_metric((), tuple)
  else:
    evaluator = _make_evaluator(run, mesh, mixture.tasks[0].vocabulary)
    splits = _open_splits(evaluator, mixture.tasks, checkpointing)
  tasks = [task for task in mixture.tasks if task.name in splits]

  with contextlib.ExitStack() as stack:
    checkpoint_folder = checkpointing.folder_of(folder)
    stack.enter_context(run_folder.continued(checkpoint_folder))
    stack.enter_context(run_folder.alone(folder))
    stack.enter_context(step.partitioning.activate(mesh))
    abstract = program.abstract_state
    initial, start = None, run.start.initial_checkpoint
    base, of_checkpoint = None, {}
    if start.path and _saves_a_part(program, folder, checkpoint_folder):
      from transformer_zoo.checkpoints import bases

      initial = _open_initial(run, program, mixture)
      base_file = bases.TEACHER if step.model.offers.student else bases.FILE
      base = bases.Base.of(initial.source, initial.assignment, base_file)
      saved = functools.partial(base.saved, step.trainable)
      of_checkpoint = {"saved": saved}
    checkpoints = stack.enter_context(
      contextlib.closing(
        Checkpoints(
          checkpoint_folder,
          checkpointing,
          run=run_layout.name_of(folder),
          after_save=functools.partial(run_folder.upload, folder),
          **of_checkpoint,
        )
      )
    )
    checkpoints.check_room(abstract)
    restored = checkpoints.restore_newest(abstract)
    if start.path and restored is None and initial is None:
      initial = _open_initial(run, program, mixture)
    start_step = int(restored[0].step) if restored else 0
    if initial is not None and restored is None and start.resume:
      start_step = initial.check_resumption(program, course.train_steps)
    batches = run.open_batches(mixture, **meshes.shares_of_batch(mesh))
    for size in batches.batching.batch_sizes:
      program.check(size)
    read_ahead = stack.enter_context(
      contextlib.closing(
        loader.read_ahead(
          batches, start_step=start_step, num_workers=run.examples.num_workers
        )
      )
    )
    run_folder.claim_data(folder, inputs.identity(mixture))
    # Nothing is wrong with the input, and nothing is compiled yet.
    run_folder.claim(folder, configuration, step.model, lengths)
    if base is not None and distributed.is_first():
      base.write(folder, base_file)

    key = jax.random.key(run.start.seed)
    parameter_key, dropout_key = jax.random.split(key)
    for line in (
      *_describe_omissions(mixture.tasks, splits, course.periods),
      *inputs.describe_cuts(batches.tasks, lengths, run.examples.corruption),
      *_describe_plan(batches, converter, start_step, course.train_steps),
    ):
      print(line, flush=True)
    run_step = CompiledStep(program, dropout_key)
    if batches.batching.are_alike and start_step < course.train_steps:
      run_step.begin(run.abstract_batch(mesh))
    if restored is None or base is not None:
      state, progress = program.initial_state(parameter_key), {}
    if initial is not None:
      if restored is None:
        print("\n".join(initial.report(step.trainable)))
      params = initial.place(abstract.params, fresh=state.params)
      state = state.replace(params=params)
      if start.resume and restored is None:
        state = initial.resume(abstract, state, start.loss_scale)
      initial = None  # It keeps what it has read last.
    if restored is not None:
      saved, progress = restored
      if base is not None:
        params = step.trainable.replace(state.params, saved.params)
        saved = saved.replace(params=params)
      state = saved
    evaluate = functools.partial(
      _validate, evaluator, tasks, folder / "predictions"
    )
    recorder = stack.enter_context(step.watching.recorder(folder))
    recorder.truncate_after(start_step if restored else -1)
    watch = step.watching.start(
      program,
      recorder,
      folder,
      train_steps=course.train_steps,
      origin=functools.partial(
        batches.origin, counted=not run.examples.num_workers
      ),
      progress=progress,
      started=started,
    )
    outcome = loop.train(
      state,
      progress,
      train_steps=course.train_steps,
      batches=read_ahead,
      put_batch=functools.partial(partitioning_lib.put_batch, mesh=mesh),
      run_step=run_step,
      evaluate=evaluate if tasks else None,
      periods=course.periods,
      watch=watch,
      recorder=recorder,
      checkpoints=checkpoints,
      folder=folder,
      work=lambda step: batches.batching.stages.tokens(
        0, step, converter.features
      ),
    )
  if outcome.best_step is not None:
    print(
      f"best step: {outcome.best_step} of {course.train_steps}, with "
      f"{outcome.best_score:.4g} ({checkpointing.selection})"
    )
  repeats = count_repeats(batches, course.train_steps, exact=True)
  return str(
    run_folder.write_result(
      folder,
      outcome,
      course.train_steps,
      splits,
      repeats,
      checkpointing.selection,
      {
        "checkpoint_bytes": checkpoints.num_bytes(abstract),
        "step_bytes": run_step.num_bytes,
      },
    )
  )


def _check_drawn(program: TrainProgram) -> None:
  """Raises UserError if a parameter has no initial values of its own."""
  flat = traverse_util.flatten_dict(program.abstract_state.params, sep="/")
  for name, leaf in flat.items():
    if jnp.issubdtype(leaf.dtype, jnp.integer):
      from transformer_zoo.tensors import rounding

      raise UserError(rounding.not_read(name, leaf.dtype))


def _open_initial(
  run: settings.Run, program: TrainProgram, mixture: PreparedMixture
):
  """Opens the checkpoint that a run starts from; reads no parameter."""
  # A run from scratch loads no reader of checkpoints.
  from transformer_zoo.runs.loading import restoration

  vocabularies = [task.vocabulary for task in mixture.tasks]
  fed_first = scoring.special_ids(vocabularies[0], run.examples.converter)
  return restoration.open_initial(
    run.start.initial_checkpoint,
    run.step.model,
    program.boxed_params,
    vocabularies,
    start_id=fed_first["start_id"],
    class_names=mixture.class_names,
  )


def _saves_a_part(
  program: TrainProgram, folder: pathlib.Path, checkpoints: pathlib.Path
) -> bool:
  """Whether checkpoints hold less than all parameters.

  Those of a run that has saved all of them go on to do so.
  """
  counts = program.parameter_counts
  if counts["trained_parameters"] == counts["parameters"]:
    return False
  from transformer_zoo.checkpoints import bases

  begun = any(pathlib.Path(checkpoints).glob("*/state"))
  files = (folder / file for file in (bases.FILE, bases.TEACHER))
  return any(file.is_file() for file in files) or not begun


def _make_evaluator(run, mesh, vocabulary):
  """The evaluator of the validation splits, shared by runs that are alike."""
  return reuse.shared(
    scoring.make_evaluator,
    groups=(settings.Step, settings.Examples, settings.Evaluation),
    knows=vocabulary,
    model=run.step.model.offers.student or run.step.model,
    mesh=mesh,
    lengths=run.examples.task_feature_lengths,
    batch_size=run.evaluation.evaluation_batch_size or run.step.batch_size,
    max_examples=run.evaluation.evaluation_max_examples,
    corruption=run.examples.corruption,
    decoding=run.evaluation.decoding,
    converter=run.examples.converter,
    vocabulary=vocabulary,
    scorer=run.evaluation.scorer,
  )


def _describe_plan(
  batches: Batches,
  converter: converters.Converter,
  start_step: int,
  train_steps: int,
) -> list[str]:
  """Describes what a run will read: each task, an endless warm-up, the steps.

  Args:
    batches: The batches of training.
    converter: The layout of a batch.
    start_step: The first step.
    train_steps: The last step.
  """
  lines = [
    f"train of {name}: {repeats}"
    for name, repeats in count_repeats(batches, train_steps).items()
  ]
  stages = batches.batching.stages
  names = [task.name for task in batches.tasks]
  for before, stage in itertools.pairwise(stages.stages):
    if stages.mixes[stage.phase] != stages.mixes[before.phase]:
      shares = zip(names, batches.shares(stage.phase), strict=True)
      lines.append(
        f"from step {stage.first_step} on: "
        + ", ".join(f"{name} {share:.1%}" for name, share in shares if share)
      )
  tokens = stages.tokens(start_step, train_steps, converter.features)
  last, _ = stages(train_steps - 1)
  row = sum(stages.phases[last.phase][name] for name in converter.features)
  if last is not stages.stages[-1]:
    lines.append(
      "batches, lengths or rates change at step "
      f"{stages.stages[-1].first_step}, and the run ends before, at step "
      f"{train_steps}"
    )
  lines.append(
    f"training {train_steps - start_step} steps, {start_step} to "
    f"{train_steps}, {tokens:,} tokens ({last.batch_size} rows of {row}, "
    "padding included)"
  )
  return lines


def _open_splits(
  evaluator: Evaluator,
  tasks: Sequence[PreparedTask],
  checkpointing: Checkpointing,
) -> dict[str, EvaluationSplit]:
  """Opens the validation splits of the tasks that have one.

  Args:
    evaluator: The evaluator that will score them.
    tasks: The tasks of a run.
    checkpointing: The rules of retention, which may name the metric of a task.

  Returns:
    The splits by the names of their tasks.

  Raises:
    UserError: Data or metrics cannot be used as they are, or no task has the
      metric that checkpoints are chosen by.
  """
  having = {task.name: task for task in tasks if _SPLIT in task.splits}
  splits = {name: evaluator.open(task, _SPLIT) for name, task in having.items()}
  checkpointing.check_metric(
    splits, lambda name: evaluator.names(having[name], _SPLIT)
  )
  return splits


def _describe_omissions(
  tasks: Sequence[PreparedTask],
  splits: Mapping[str, EvaluationSplit],
  periods: loop.Periods,
) -> list[str]:
  """Describes what the evaluations of a run leave out.

  Args:
    tasks: The tasks of the run.
    splits: The splits that `_open_splits` has found of them.
    periods: The periods of the run.
  """
  if not periods.evaluates:
    return ["EVAL_PERIOD=None: this run does not evaluate itself"]
  without = [task.name for task in tasks if task.name not in splits]
  lines = []
  if without:
    lines.append(
      f"without a split {_SPLIT!r}, not evaluated: {', '.join(without)}"
    )
  for name, split in splits.items():
    if not any(split.truncated.values()):
      continue
    from transformer_zoo.runs import evaluation_report

    lines += [
      f"validation of {name}: {line}"
      for line in evaluation_report.truncation(
        split.truncated, split.num_examples, split.lengths
      )
    ]
  return lines


def _validate(
  evaluator: Evaluator,
  tasks: Sequence[PreparedTask],
  folder: pathlib.Path,
  params: Any,
  step: int,
) -> dict[str, float]:
  """Scores parameters on the validation splits; writes and prints the results.

  Args:
    evaluator: The evaluator that has opened the splits.
    tasks: The tasks whose splits are scored.
    folder: The folder of the predictions.
    params: The parameters on the devices.
    step: The number of the step that made them.

  Returns:
    The values by name, with `validation/average` if a task has scores.
  """
  from transformer_zoo.evaluation import averages
  from transformer_zoo.runs import evaluation_report

  values, scores, results = {}, {}, {}
  for task in tasks:
    result = results[task.name] = evaluator(params, task, _SPLIT)
    values[f"validation/{task.name}/loss"] = result.loss
    values[f"validation/{task.name}/token_accuracy"] = result.accuracy
    for metric, value in result.scores.items():
      values[f"validation/{task.name}/{metric}"] = value
    if result.invalid is not None:
      values[f"validation/{task.name}/invalid"] = result.invalid
    if result.scores:
      scores[task.name] = result.scores
      path = folder / str(step) / f"{task.name}.jsonl"
      run_folder.write_predictions(path, result.predictions, result.scoring)
  average = averages.average(scores) if scores else None
  if average is not None:
    values["validation/average"] = average
  for line in evaluation_report.of_step(step, results, average):
    print(line, flush=True)
  return values
