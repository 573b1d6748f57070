"""Numbers of steps that follow from others: epochs, FLOPs, shares of a run.

gin files bind these functions in place of numbers:

    TRAIN_STEPS = @steps_of_epochs()
    TRAIN_STEPS = @steps_of_flops()
    WARMUP_STEPS = @share_of_steps()
"""

from collections.abc import Callable, Iterable, Mapping
import copy
import functools
import json
import math
from typing import Any

import gin
import jax
import optax

from transformer_zoo import config
from transformer_zoo.config import registry
from transformer_zoo.data.features import converters
from transformer_zoo.data.loader import loader
from transformer_zoo.errors import UserError
from transformer_zoo.runs import inputs
from transformer_zoo.runs import settings


@gin.register
def steps_of_epochs(
  epochs: float,
  mixture_or_task_name: str,
  prepared_dir: str,
  task_feature_lengths: Mapping[str, int],
  batch_size: int,
  converter: converters.Converter = converters.ENCODER_DECODER,
) -> int:
  """Returns the steps of some epochs of unpacked rows.

  Each epoch is rounded up to whole batches, as in fairseq and in Hugging Face's
  trainer. A long context that is read in several windows counts as so many
  examples. `train.whole_examples_only`, `train.max_tokens` and
  `train.corruption` count as the run binds them. The data is prepared where it
  is not.

  Args:
    epochs: The number of epochs; may be a fraction.
    mixture_or_task_name: The name of the mixture or task of the run.
    prepared_dir: The folder of prepared data.
    task_feature_lengths: The number of tokens of each feature.
    batch_size: The number of rows of a batch, one example in each.
    converter: The layout of a batch.

  Raises:
    UserError: `epochs` is not above 0, a batch has no row, or the data cannot
      be used.
  """
  if not 0 < epochs < math.inf:
    raise UserError(f"steps_of_epochs.epochs={epochs} has to be above 0")
  inputs.check_at_least(1, BATCH_SIZE=batch_size)
  lengths = inputs.whole_lengths(converter, task_feature_lengths)
  arguments = (
    mixture_or_task_name,
    prepared_dir,
    json.dumps(lengths),
    converter,
    *_settings_of_run(),
  )
  count = _examples if _is_hashable(arguments) else _examples.__wrapped__
  examples = count(*arguments)
  return math.ceil(epochs * math.ceil(examples / batch_size))


def _settings_of_run() -> tuple[bool, int | None, Callable | None]:
  """Returns what the run binds that changes the number of its examples."""
  defaults = {
    "whole_examples_only": False,
    "max_tokens": None,
    "corruption": None,
  }
  return tuple((defaults | _bound(defaults)).values())


def _bound(names: Iterable[str]) -> dict[str, Any]:
  """Returns the values of settings that the run binds.

  Others are not built: the number of steps may be what is asked for.
  """
  registry.load("train")
  bound = gin.get_bindings("train", resolve_references=False)
  # gin builds a reference when it is copied.
  return {n: copy.deepcopy(bound[n]) for n in names if n in bound}


# A macro calls this again wherever it is used.
@functools.lru_cache(maxsize=16)
def _examples(
  name: str,
  prepared_dir: str,
  lengths: str,
  converter: converters.Converter,
  whole_examples_only: bool,
  max_tokens: int | None,
  corruption: Callable | None,
) -> int:
  """Returns the training examples of all tasks with a rate above 0."""
  mixture = inputs.prepared(
    name,
    prepared_dir,
    form=converter.form,
    required_splits=("train",),
  )
  batches = loader.open_batches(
    mixture,
    split="train",
    lengths=json.loads(lengths),
    batch_size=1,
    seed=0,
    packing=False,
    converter=converter,
    whole_examples_only=whole_examples_only,
    max_tokens=max_tokens,
    corruption=corruption,
  )
  return int(batches.num_examples.sum())


def _is_hashable(arguments: tuple[Any, ...]) -> bool:
  """Whether all are: fields of a corruption may be lists."""
  try:
    hash(arguments)
  except TypeError:
    return False
  return True


# What a run binds that the FLOPs of its step depend on.
_OF_STEP = (
  *("model", "objective", "trainable", "converter", "batch_size"),
  *("task_feature_lengths", "packing"),
)


@gin.register
def steps_of_flops(flops: float) -> int:
  """Returns the steps that a number of FLOPs pays for.

  Steps are counted as reports and plans count them: three times the matrix
  products of the forward pass on a whole batch, without the warm-ups of batches
  and lengths (`TrainProgram.model_flops`).

  Args:
    flops: The FLOPs of the whole run.

  Raises:
    UserError: They pay for no step.
  """
  of_step = _flops_of_step(config.text_of("train", _OF_STEP))
  if not of_step <= flops < math.inf:
    raise UserError(
      f"steps_of_flops.flops={flops:g} has to pay for a step, which takes "
      f"{of_step:.3g} FLOPs"
    )
  return round(flops / of_step)


# A macro calls this again wherever it is used.
@functools.lru_cache(maxsize=16)
def _flops_of_step(configured: str) -> int:
  """Returns the FLOPs of a step of the run that gin is configured for.

  Args:
    configured: The text of that configuration, by which results are kept.
  """
  del configured
  bound = _bound(_OF_STEP)
  run = settings.Run.of_values(
    {
      **bound,
      "optimizer": optax.sgd,
      "learning_rate": lambda step: 0.0,
      "mixture_or_task_name": "",
      "model_dir": "",
      "train_steps": 1,
    }
  )
  program = run.step.program(jax.devices()[:1])
  with program.partitioning.activate(program.mesh):
    return program.model_flops(run.abstract_batch(program.mesh))


@gin.register
def share_of_steps(steps: int, share: float) -> int:
  """Returns a share of the steps of a run, rounded to a whole number.

  BERT warms up for 10 % of the steps of fine-tuning and RoBERTa for 6 %.

  Args:
    steps: The number of steps of the run.
    share: The share, from 0 to 1.

  Raises:
    UserError: The share is outside of that.
  """
  if not 0 <= share <= 1:
    raise UserError(f"share_of_steps.share={share} has to be from 0 to 1")
  return round(steps * share)


@gin.register
def before_step(step: int, value: Any) -> dict[int, Any]:
  """Returns {step: value}, for `train.length_warmup` or `batch_size_warmup`.

  Args:
    step: The first step after the stage.
    value: The lengths or the batch size before it.
  """
  return {step: value}
