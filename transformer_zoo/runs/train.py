"""Training runs."""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import functools
import pathlib
import time

from flax import linen as nn
import gin
import jax
import optax

from transformer_zoo import config
from transformer_zoo.data import mixing
from transformer_zoo.data.loader import epochs
from transformer_zoo.data.loader import loader
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.objectives.sequence_to_sequence import sequence_to_sequence
from transformer_zoo.peft import trainable as trainable_lib
from transformer_zoo.peft.trainable import Trainable
from transformer_zoo.runs import announcement
from transformer_zoo.runs import inputs
from transformer_zoo.runs import programs
from transformer_zoo.runs import remote
from transformer_zoo.runs import resumption
from transformer_zoo.runs import reuse
from transformer_zoo.runs import run_folder
from transformer_zoo.runs import scoring
from transformer_zoo.runs import settings
from transformer_zoo.runs import validation
from transformer_zoo.runs.restoration import InitialCheckpoint
from transformer_zoo.training import loop
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.retention import KEEP_NEWEST_AND_BEST
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.compiled_step import CompiledStep
from transformer_zoo.training.monitoring.settings import Watching
from transformer_zoo.training.sharding import meshes
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE
from transformer_zoo.training.sharding.partitioning import Partitioning

DEFAULT_PERIODS = loop.Periods()
FROM_SCRATCH = InitialCheckpoint()
DEFAULT_WATCHING = Watching()


@gin.register
@remote.at_any_place
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
  num_microbatches: int = 1,
  periods: loop.Periods = DEFAULT_PERIODS,
  checkpointing: Checkpointing = KEEP_NEWEST_AND_BEST,
  watching: Watching = DEFAULT_WATCHING,
  trainable: Trainable = trainable_lib.ALL,
  seed: int = 0,
  initial_checkpoint: InitialCheckpoint = FROM_SCRATCH,
  prepared_dir: str = "runs/prepared",
  packing: bool = True,
  corruption: Callable | None = None,
  converter: Callable = loader.ENCODER_DECODER,
  static_copies: int | None = None,
  max_tokens: int | None = None,
  batch_size_warmup: Mapping[int, int] | None = None,
  length_warmup: Mapping[int, Mapping[str, int]] | None = None,
  length_buckets: Sequence[Mapping[str, int]] = (),
  num_workers: int = 0,
  rates: Callable | None = None,
  decoding: DecodingOptions = GREEDY,
  evaluation_batch_size: int | None = None,
  evaluation_max_examples: int | None = None,
) -> str:
  """Trains a model and evaluates it on the validation splits.

  Started again, it resumes, or returns at once if it had finished. Fine-tuning
  counts its own steps: `train_steps` never includes pre-training's.

  Args:
    model: an architecture.
    model_dir: the run folder, or a URL for it (runs/remote.py).
    mixture_or_task_name: what to train on.
    task_feature_lengths: feature -> tokens, inputs and targets.
    train_steps: steps of this run.
    batch_size: rows of the global batch; packed rows hold several examples.
    learning_rate: a schedule of the run's own steps.
    optimizer: makes the optimizer of the schedule.
    objective: the loss.
    partitioning: mesh and rules.
    num_microbatches: in how many parts a step goes through its batch.
    periods: when to log, save and evaluate.
    checkpointing: which checkpoints are kept.
    watching: what is measured and written; what NaN and spikes lead to.
    trainable: which parameters are trained, and from which step on.
    seed: of the parameters, the data's order and dropout.
    initial_checkpoint: where to take the parameters from, unless the run is
      resumed.
    prepared_dir: where prepared data lies or is put.
    packing: whether several examples share a row.
    corruption: in place of that of the tasks.
    converter: lays examples out as the model reads them (data/features.py).
    static_copies: None for dynamic masking; N for static masking with N masks
      of each text.
    max_tokens: only so many of the first tokens of each unlabelled task.
    batch_size_warmup: step -> rows of the batches before it.
    length_warmup: step -> lengths of the features before it.
    length_buckets: lengths and batch sizes of batches of short examples
      (data/length_buckets.py).
    num_workers: processes that prepare the batches; 0 for threads of this one.
    rates: `Equal`, `ExamplesProportional` (data/mixing.py) in place of the
      mixture's own.
    decoding: how evaluations search for outputs.
    evaluation_batch_size: `batch_size` by default.
    evaluation_max_examples: the most examples of a split in evaluation.

  Returns:
    The path of `result.json`.

  Raises:
    UserError: the configuration or the data cannot be used as it is.
  """
  started = time.perf_counter()
  settings.check(model_dir, prepared_dir, train_steps, seed)
  folder = pathlib.Path(model_dir)
  configuration = config.operative_config("train")
  run_folder.check(folder, configuration)
  result = folder / run_folder.RESULT
  if result.exists():
    run_folder.check_finished(folder, checkpointing.folder_of(folder))
    print(f"{folder} has finished before; its result stands")
    return str(result)
  program = reuse.kept(
    programs.train_program,
    model=model,
    objective=objective,
    optimizer=optimizer,
    learning_rate=learning_rate,
    partitioning=partitioning,
    num_microbatches=num_microbatches,
    watching=watching,
    trainable=trainable,
    batch_size=batch_size,
  )
  mesh = program.mesh
  watching.check(train_steps)
  mixture = inputs.prepared(mixture_or_task_name, prepared_dir)
  inputs.check_mixture(model, mixture, converter)
  task_feature_lengths = inputs.whole_lengths(converter, task_feature_lengths)
  if rates is not None:
    mixture = mixing.with_rates(mixture, rates)
  vocabulary = mixture.tasks[0].vocabulary
  evaluator = reuse.kept(
    scoring.make_evaluator,
    knows=vocabulary,
    model=model,
    mesh=mesh,
    lengths=task_feature_lengths,
    batch_size=evaluation_batch_size or batch_size,
    max_examples=evaluation_max_examples,
    corruption=corruption,
    decoding=decoding,
    converter=converter,
    vocabulary=vocabulary,
  )
  splits = validation.open_splits(evaluator, mixture.tasks, checkpointing)
  tasks = [task for task in mixture.tasks if task.name in splits]

  run_name = remote.name_of(folder)
  with contextlib.ExitStack() as stack:
    stack.enter_context(run_folder.alone(folder))
    stack.enter_context(partitioning.activate(mesh))
    abstract = program.abstract_state
    checkpoints = stack.enter_context(
      contextlib.closing(
        Checkpoints(
          checkpointing.folder_of(folder),
          checkpointing,
          run=run_name,
          after_save=functools.partial(remote.upload, folder),
        )
      )
    )
    restored = checkpoints.restore_newest(abstract)
    initial = None
    if initial_checkpoint.path and restored is None:
      vocabularies = [task.vocabulary for task in mixture.tasks]
      fed_first = scoring.special_ids(vocabularies[0], converter)["start_id"]
      initial = initial_checkpoint.open(
        model, program.boxed_params, vocabularies, start_id=fed_first
      )
    start_step = int(restored[0].step) if restored else 0
    if initial is not None and initial_checkpoint.resume:
      start_step = resumption.check(initial.source, program, train_steps)
    batches = loader.open_batches(
      mixture,
      split="train",
      lengths=task_feature_lengths,
      batch_size=batch_size,
      seed=seed,
      packing=packing,
      corruption=corruption,
      converter=converter,
      static_copies=static_copies,
      max_tokens=max_tokens,
      batch_size_warmup=batch_size_warmup,
      length_warmup=length_warmup,
      length_buckets=length_buckets,
      **meshes.shares_of_batch(mesh),
    )
    for size in batches.batching.batch_sizes:
      program.check(size)
    read_ahead = stack.enter_context(
      contextlib.closing(
        loader.read_ahead(
          batches, start_step=start_step, num_workers=num_workers
        )
      )
    )
    run_folder.claim_data(folder, inputs.identity(mixture))
    # Nothing is wrong with the input, and nothing is compiled yet.
    run_folder.claim(folder, configuration, model, task_feature_lengths)

    parameter_key, dropout_key = jax.random.split(jax.random.key(seed))
    state, progress = restored or (program.initial_state(parameter_key), {})
    if initial is not None:
      print("\n".join(initial.report()))
      params = initial.place(abstract.params, fresh=state.params)
      state = state.replace(params=params)
      if initial_checkpoint.resume:
        state = resumption.resume(
          initial.source, abstract, state, initial_checkpoint.loss_scale
        )
      initial = None  # keeps what it has read last
    evaluate = functools.partial(
      validation.validate, evaluator, tasks, folder / "predictions"
    )
    for line in (
      *validation.told(mixture.tasks, splits),
      *inputs.told(batches.tasks, task_feature_lengths, corruption),
      *announcement.lines(batches, converter, start_step, train_steps),
    ):
      print(line, flush=True)
    recorder = stack.enter_context(watching.recorder(folder))
    recorder.truncate_after(start_step if restored else -1)
    watch = watching.start(
      program,
      recorder,
      folder,
      train_steps=train_steps,
      origin=functools.partial(batches.origin, counted=not num_workers),
      progress=progress,
      started=started,
    )
    outcome = loop.train(
      state,
      progress,
      train_steps=train_steps,
      batches=read_ahead,
      put=functools.partial(partitioning_lib.put_batch, mesh=mesh),
      run_step=CompiledStep(program, dropout_key),
      evaluate=evaluate if tasks else None,
      periods=periods,
      watch=watch,
      recorder=recorder,
      checkpoints=checkpoints,
      folder=folder,
    )
  repeats = epochs.repeats(batches, train_steps, exact=True)
  return str(
    run_folder.write_result(
      folder, outcome, train_steps, splits, repeats, checkpointing.selection
    )
  )
