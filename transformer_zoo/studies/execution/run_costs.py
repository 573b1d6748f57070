"""The cost of a run, from its configuration alone: no data, no compiler."""

from collections.abc import Iterator, Mapping
import dataclasses

import jax

from transformer_zoo.data.loader.stages import Stages
from transformer_zoo.forecast.cost import Cost
from transformer_zoo.runs.settings import Run
from transformer_zoo.training import loop
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE


@dataclasses.dataclass(frozen=True)
class RunCosts:
  """The costs of a run that do not depend on the machine.

  Attributes:
    parameters: The number of parameters of the model.
    trained_parameters: The number of parameters that steps change.
    steps: The number of training steps.
    input_tokens: The number of places for input tokens in all batches; the
      share that padding takes is known once the run has ended.
    target_tokens: The number of places for target tokens in all batches.
    flops: The FLOPs that the model needs: three times the products of forward
      passes.
    executed: The cost that all steps execute together, with gradients of
      trained parameters only and with the optimizer; None if it was not
      requested.
    saves: The number of checkpoints.
    evaluations: The number of evaluations on the validation splits; 0 if there
      are none.
  """

  parameters: int
  trained_parameters: int
  steps: int
  input_tokens: int
  target_tokens: int
  flops: int
  executed: Cost | None
  saves: int
  evaluations: int


def of_settings(run: Run, *, with_executed: bool = True) -> RunCosts:
  """The costs of a training run, traced on one device, whatever its mesh.

  Args:
    run: The settings of the run.
    with_executed: whether backward passes and optimizers are traced too, which
      takes as long as all the rest.

  Raises:
    UserError: the model, its batches or what is trained do not fit together.
  """
  alone = run.replace(partitioning=ONE_COPY_PER_DEVICE)
  program = alone.step.program(jax.devices()[:1])
  steps, periods = run.course.train_steps, run.course.periods
  inputs = targets = flops = 0
  executed = Cost() if with_executed else None
  with program.partitioning.activate(program.mesh):
    for number, rows, lengths in _stages(run):
      stage = alone.replace(batch_size=rows, task_feature_lengths=lengths)
      batch = stage.abstract_batch(program.mesh)
      inputs += number * rows * lengths.get("inputs", 0)
      targets += number * rows * lengths.get("targets", 0)
      flops += number * program.model_flops(batch)
      if with_executed:
        executed += program.cost(batch) * number
  return RunCosts(
    **program.parameter_counts,
    steps=steps,
    input_tokens=inputs,
    target_tokens=targets,
    flops=flops,
    executed=executed,
    **times(steps, periods),
  )


def times(steps: int, periods: loop.Periods) -> dict[str, int]:
  """The numbers of saves and evaluations of a run, its end included."""
  evaluations = -(-steps // periods.evaluate) if periods.evaluate else 1
  return {
    "saves": -(-steps // periods.checkpoint),
    "evaluations": evaluations if periods.evaluates else 0,
  }


def _stages(
  run: Run,
) -> Iterator[tuple[int, int, Mapping[str, int]]]:
  """Yields steps, rows of a batch and lengths of each stage of the warm-ups.

  Buckets of lengths count as batches of the full lengths.
  """
  stages = Stages(
    run.step.batch_size,
    run.examples.task_feature_lengths,
    run.examples.batch_size_warmup,
    run.examples.length_warmup,
  )
  last = run.course.train_steps
  ends = [stage.first_step for stage in stages.stages[1:]] + [last]
  for stage, end in zip(stages.stages, ends, strict=True):
    if stage.first_step < last:
      number = min(end, last) - stage.first_step
      yield number, stage.batch_size, stages.phases[stage.phase]
