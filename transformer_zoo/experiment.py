"""Runs: the rooms wired into training, evaluation and inference by gin.

Bad input is refused here before anything is compiled.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
import importlib.util
import json
import os
import pathlib
import sys

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np
import optax

from transformer_zoo import config
from transformer_zoo.data import loader
from transformer_zoo.data import manifest
from transformer_zoo.decoding.generate import generate
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import averages
from transformer_zoo.evaluation.evaluator import Evaluator
from transformer_zoo.evaluation.evaluator import TaskResult
from transformer_zoo.objectives.sequence_to_sequence import sequence_to_sequence
from transformer_zoo.training import checkpoints as checkpointing
from transformer_zoo.training import environment
from transformer_zoo.training import loop
from transformer_zoo.training import partitioning as partitioning_lib
from transformer_zoo.training import state as state_lib
from transformer_zoo.training import summary
from transformer_zoo.training.partitioning import Partitioning
from transformer_zoo.training.recorder import Recorder
from transformer_zoo.training.step import train_step

SELECTION = "highest mean of the task scores on the {split} split"
LAST = "last step: no task has a metric"
ONE_COPY_PER_DEVICE = Partitioning()
DEFAULT_PERIODS = loop.Periods()


@gin.register
def train(
  *,
  model: nn.Module,
  model_dir: str,
  mixture_or_task_name: str,
  task_feature_lengths: Mapping[str, int],
  train_steps: int,
  batch_size: int,
  learning_rate: Callable,
  optimizer: Callable[..., optax.GradientTransformation],
  objective: Callable = sequence_to_sequence,
  partitioning: Partitioning = ONE_COPY_PER_DEVICE,
  periods: loop.Periods = DEFAULT_PERIODS,
  seed: int = 0,
  initial_checkpoint_path: str | None = None,
  prepared_dir: str = "runs/prepared",
  packing: bool = True,
  corruption: Callable | None = None,
  evaluation_batch_size: int | None = None,
  evaluation_max_examples: int | None = None,
) -> str:
  """Trains a model and evaluates it on the validation splits.

  Started again, it resumes, or returns at once if it had finished. Fine-tuning
  counts its own steps: `train_steps` never includes pre-training's.

  Args:
    model: an architecture.
    model_dir: the run folder.
    mixture_or_task_name: what to train on.
    task_feature_lengths: feature -> tokens, inputs and targets.
    train_steps: steps of this run.
    batch_size: rows of the global batch; packed rows hold several examples.
    learning_rate: a schedule of the run's own steps.
    optimizer: makes the optimizer of the schedule.
    objective: the loss.
    partitioning: mesh and rules.
    periods: when to log, save and evaluate.
    seed: of the parameters, the data's order and dropout.
    initial_checkpoint_path: where to take the parameters from; None for new
      ones.
    prepared_dir: where prepared data lies or is put.
    packing: whether several examples share a row.
    corruption: in place of that of the tasks.
    evaluation_batch_size: `batch_size` by default.
    evaluation_max_examples: the most examples of a split in evaluation.

  Returns:
    The path of `result.json`.

  Raises:
    UserError: the configuration or the data cannot be used as it is.
  """
  folder = pathlib.Path(model_dir)
  result_path = folder / "result.json"
  configuration = config.operative_config("train")
  _check_folder(folder, configuration)
  if result_path.exists():
    print(f"{folder} has finished before; its result stands")
    return str(result_path)
  if train_steps < 1:
    raise UserError(f"TRAIN_STEPS={train_steps} must be at least 1")
  mesh = partitioning.mesh()
  boxed = jax.eval_shape(
    lambda: state_lib.initial_variables(model, jax.random.key(0))
  )
  partitioning.check(mesh, boxed, batch_size)
  if initial_checkpoint_path:
    checkpointing.resolve(initial_checkpoint_path)
  mixture = prepared(mixture_or_task_name, prepared_dir)
  _check_vocabulary(model, mixture)

  _describe(folder, configuration, model, task_feature_lengths)
  with partitioning.activate(mesh):
    transformation = optimizer(learning_rate)
    make_state = functools.partial(
      state_lib.initial_state, model, transformation
    )
    shapes = jax.eval_shape(make_state, jax.random.key(0))
    shardings = partitioning.shardings(mesh, boxed, shapes)
    abstract = jax.tree.map(
      lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
      shapes,
      shardings,
    )
    checkpoints = checkpointing.Checkpoints(folder / "checkpoints")
    restored = checkpoints.restore_newest(abstract)
    parameter_key, dropout_key = jax.random.split(jax.random.key(seed))
    if restored is not None:
      state, progress = restored
    else:
      state = jax.jit(make_state, out_shardings=shardings)(parameter_key)
      progress = {}
      if initial_checkpoint_path:
        params = checkpointing.restore_params(
          initial_checkpoint_path, abstract.params
        )
        state = state.replace(params=params)
    start_step = int(state.step)
    batches = loader.training_batches(
      mixture,
      split="train",
      lengths=task_feature_lengths,
      batch_size=batch_size,
      seed=seed,
      packing=packing,
      corruption=corruption,
      start_step=start_step,
      process_index=jax.process_index(),
      process_count=jax.process_count(),
    )
    bound = functools.partial(objective, model)
    jitted = jax.jit(
      functools.partial(
        _step, objective=bound, optimizer=transformation, rate=learning_rate
      ),
      donate_argnums=0,
      out_shardings=(shardings, None),
    )

    def run_step(state, batch):
      return jitted(state, partitioning_lib.put_batch(batch, mesh), dropout_key)

    evaluator = _evaluator(
      model,
      objective,
      mesh,
      task_feature_lengths,
      evaluation_batch_size or batch_size,
      evaluation_max_examples,
    )
    tasks = [task for task in mixture.tasks if "validation" in task.splits]
    evaluate_all = functools.partial(
      _evaluate_in_loop, evaluator, tasks, folder / "predictions"
    )
    row_tokens = sum(task_feature_lengths.values())
    print(
      f"training {train_steps - start_step} steps, {start_step} to "
      f"{train_steps}, "
      f"{(train_steps - start_step) * batch_size * row_tokens:,} tokens "
      f"({batch_size} rows of {row_tokens}, padding included)",
      flush=True,
    )
    with Recorder(folder) as recorder:
      recorder.truncate_after(start_step if restored else -1)
      outcome = loop.train(
        state,
        progress,
        train_steps=train_steps,
        batches=batches,
        run_step=run_step,
        evaluate=evaluate_all if tasks else None,
        periods=periods,
        recorder=recorder,
        checkpoints=checkpoints,
        folder=folder,
      )
  return _write_result(folder, outcome, train_steps)


@gin.register
def evaluate(
  *,
  model: nn.Module,
  checkpoint_path: str,
  mixture_or_task_name: str,
  task_feature_lengths: Mapping[str, int],
  batch_size: int,
  objective: Callable = sequence_to_sequence,
  partitioning: Partitioning = ONE_COPY_PER_DEVICE,
  prepared_dir: str = "runs/prepared",
  split: str = "validation",
  max_examples: int | None = None,
  output_dir: str | None = None,
) -> str:
  """Scores a checkpoint on a split of every task of a mixture.

  Args:
    model: an architecture.
    checkpoint_path: a run folder, or the folder of one step.
    mixture_or_task_name: what to evaluate on.
    task_feature_lengths: feature -> tokens.
    batch_size: examples a batch.
    objective: gives the teacher-forced loss.
    partitioning: mesh and rules.
    prepared_dir: where prepared data lies or is put.
    split: which split.
    max_examples: the most examples of a split.
    output_dir: where predictions are written, if anywhere.

  Returns:
    The scores as JSON text.

  Raises:
    UserError: the configuration or the data cannot be used as it is.
  """
  checkpointing.resolve(checkpoint_path)
  mixture = prepared(mixture_or_task_name, prepared_dir)
  _check_vocabulary(model, mixture)
  for task in mixture.tasks:
    task.split(split)
  mesh = partitioning.mesh()
  with partitioning.activate(mesh):
    params = _restore(model, partitioning, mesh, batch_size, checkpoint_path)
    evaluator = _evaluator(
      model, objective, mesh, task_feature_lengths, batch_size, max_examples
    )
    results = {
      task.name: evaluator(params, task, split) for task in mixture.tasks
    }
  if output_dir:
    for name, result in results.items():
      _write_predictions(pathlib.Path(output_dir) / f"{name}.jsonl", result)
  scores = {name: result.scores for name, result in results.items()}
  return json.dumps(
    {
      "checkpoint": str(checkpointing.resolve(checkpoint_path)),
      "split": split,
      "scores": scores,
      "average": averages.average(scores),
      "loss": {name: result.loss for name, result in results.items()},
    },
    indent=2,
  )


@gin.register
def infer(
  texts: Sequence[str],
  *,
  model: nn.Module,
  checkpoint_path: str,
  vocabulary_path: str,
  task_feature_lengths: Mapping[str, int],
  batch_size: int,
  extra_ids: int = 100,
  partitioning: Partitioning = ONE_COPY_PER_DEVICE,
):
  """Answers texts.

  Args:
    texts: inputs as the model was trained on, task prefix included.
    model: an architecture.
    checkpoint_path: a run folder, or the folder of one step.
    vocabulary_path: SentencePiece model file.
    task_feature_lengths: feature -> tokens; longer inputs are cut.
    batch_size: texts at a time.
    extra_ids: sentinels of the vocabulary.
    partitioning: mesh and rules.

  Yields:
    The answer to each text.

  Raises:
    UserError: the configuration cannot be used as it is.
  """
  from transformer_zoo.data.vocabularies import Vocabulary

  vocabulary = Vocabulary(vocabulary_path, extra_ids)
  _check_ids(model, vocabulary, vocabulary_path)
  checkpointing.resolve(checkpoint_path)
  mesh = partitioning.mesh()
  length = task_feature_lengths["inputs"]
  with partitioning.activate(mesh):
    params = _restore(model, partitioning, mesh, batch_size, checkpoint_path)
    decode = jax.jit(
      functools.partial(
        generate, model, max_length=task_feature_lengths["targets"]
      )
    )
    for start in range(0, len(texts), batch_size):
      some = texts[start : start + batch_size]
      ids_BM = np.zeros((batch_size, length), np.int32)
      for row, text in enumerate(some):
        ids = [*vocabulary.encode(text)[: length - 1], vocabulary.eos_id]
        ids_BM[row, : len(ids)] = ids
      outputs_BL = np.asarray(decode(params, ids_BM))
      for ids in outputs_BL[: len(some)].tolist():
        yield vocabulary.decode(ids)


def prepared(name: str, prepared_dir: str) -> manifest.PreparedMixture:
  """The prepared mixture: made, or made anew, where SeqIO is installed.

  On a machine without SeqIO what lies in `prepared_dir` is taken as it is. Raw
  data is looked for in the folders of the variable ZOO_DATA_DIR.
  """
  if importlib.util.find_spec("seqio") is None:
    return manifest.load(name, prepared_dir)
  from transformer_zoo.data import prepare

  return prepare.prepare(
    name, prepared_dir=prepared_dir, report=lambda line: print(line, flush=True)
  )


def _step(state, batch, key, *, objective, optimizer, rate):
  new_state, sums = train_step(
    state, batch, key, objective=objective, optimizer=optimizer
  )
  return new_state, {**sums, "learning_rate": rate(state.step)}


def _evaluator(
  model, objective, mesh, lengths, batch_size, max_examples
) -> Evaluator:
  data_parallel = mesh.shape["data"]
  rows = -(-batch_size // data_parallel) * data_parallel
  return Evaluator(
    generate=jax.jit(
      functools.partial(generate, model, max_length=lengths["targets"])
    ),
    sums=jax.jit(lambda params, batch: objective(model, params, batch)[1]),
    put=functools.partial(partitioning_lib.put_batch, mesh=mesh),
    lengths=lengths,
    batch_size=rows,
    max_examples=max_examples,
  )


def _restore(model, partitioning, mesh, batch_size, checkpoint_path):
  boxed = jax.eval_shape(
    lambda: state_lib.initial_variables(model, jax.random.key(0))
  )
  partitioning.check(mesh, boxed, batch_size)
  shapes = nn.meta.unbox(boxed)
  shardings = partitioning.shardings(mesh, boxed, shapes)
  abstract = jax.tree.map(
    lambda x, s: jax.ShapeDtypeStruct(x.shape, jnp.float32, sharding=s),
    shapes,
    shardings,
  )
  return checkpointing.restore_params(checkpoint_path, abstract)


def _evaluate_in_loop(evaluator, tasks, folder, params, step):
  values, scores = {}, {}
  for task in tasks:
    result = evaluator(params, task, "validation")
    values[f"validation/{task.name}/loss"] = result.loss
    values[f"validation/{task.name}/token_accuracy"] = result.accuracy
    for metric, value in result.scores.items():
      values[f"validation/{task.name}/{metric}"] = value
    if result.scores:
      scores[task.name] = result.scores
      _write_predictions(folder / str(step) / f"{task.name}.jsonl", result)
  average = averages.average(scores)
  if average is not None:
    values["validation/average"] = average
  return values, average


def _write_predictions(path: pathlib.Path, result: TaskResult) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  with open(path, "w", encoding="utf-8") as file:
    for line in result.predictions:
      file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _check_folder(folder: pathlib.Path, configuration: str) -> None:
  path = folder / "config.gin"
  if not path.exists():
    return
  changes = config.difference(path.read_text(), configuration)
  if changes:
    raise UserError(
      f"run folder {str(folder)!r} belongs to another configuration "
      f"({changes}); choose another MODEL_DIR or remove the folder"
    )


def _check_vocabulary(model, mixture: manifest.PreparedMixture) -> None:
  for task in mixture.tasks:
    _check_ids(model, task.vocabulary, f"task {task.name!r}")


def _check_ids(model, vocabulary, of) -> None:
  rows = model.token_embedder.num_embeddings
  if vocabulary.size > rows:
    raise UserError(
      f"the vocabulary of {of} has {vocabulary.size} ids but the embedding "
      f"has {rows} rows; set VOCAB_SIZE to at least {vocabulary.size}"
    )


def _describe(folder, configuration, model, lengths) -> None:
  folder.mkdir(parents=True, exist_ok=True)
  found = summary.summarize(
    model, inputs=lengths["inputs"], targets=lengths["targets"]
  )
  (folder / "model.txt").write_text(summary.as_text(found))
  environment.write_environment(folder / "environment.json")
  (folder / "commands.txt").open("a").write(" ".join(sys.argv) + "\n")
  # Last: a folder with a configuration is one that a run has claimed.
  (folder / "config.gin").write_text(configuration)


def _write_result(folder, outcome: loop.Outcome, train_steps: int) -> str:
  from transformer_zoo.training import recorder

  lines = recorder.read_lines(folder / recorder.METRICS_FILE)
  reported = outcome.best_step or train_steps
  scores, losses = {}, {}
  for line in lines:
    for name, value in line.items() if line["step"] == reported else ():
      kind, _, rest = name.partition("/")
      task, _, metric = rest.partition("/")
      if kind != "validation" or not metric:
        continue
      if metric == "loss":
        losses[task] = value
      elif metric != "token_accuracy":
        scores.setdefault(task, {})[metric] = value
  result = {
    "step": train_steps,
    "best_step": outcome.best_step,
    "selection": SELECTION.format(split="validation") if scores else LAST,
    "scores": scores,
    "average": averages.average(scores),
    "loss": losses,
    "config_hash": config.config_hash("train"),
    "seconds": outcome.seconds,
    "tokens": outcome.tokens,
  }
  path = folder / "result.json"
  temporary = folder / "result.json.new"
  temporary.write_text(json.dumps(result, indent=2) + "\n")
  os.replace(temporary, path)
  return str(path)
