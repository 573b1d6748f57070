"""What a run will read, before its first step."""

from transformer_zoo.data.features import converters
from transformer_zoo.data.loader import epochs
from transformer_zoo.data.loader.batches import Batches


def lines(
  batches: Batches,
  converter: converters.Converter,
  start_step: int,
  train_steps: int,
) -> list[str]:
  """A sentence on each task, on a warm-up without end, and on the steps.

  Args:
    batches: of the run.
    converter: that lays them out.
    start_step: the first of its steps.
    train_steps: where it ends.
  """
  told = [
    f"train of {name}: {repeats}"
    for name, repeats in epochs.repeats(batches, train_steps).items()
  ]
  stages = batches.batching.stages
  tokens = stages.tokens(start_step, train_steps, converter.features)
  last, _ = stages(train_steps - 1)
  row = sum(stages.phases[last.phase][name] for name in converter.features)
  if last is not stages.stages[-1]:
    told.append(
      "the warm-up of batches or lengths lasts until step "
      f"{stages.stages[-1].first_step}, and the run ends before, at step "
      f"{train_steps}"
    )
  told.append(
    f"training {train_steps - start_step} steps, {start_step} to "
    f"{train_steps}, {tokens:,} tokens ({last.batch_size} rows of {row}, "
    "padding included)"
  )
  return told
