"""How often a run repeats the examples of each task."""

import dataclasses

from transformer_zoo.data.loader.batches import Batches

# Rows that are counted before training starts, about a second's worth. In rows
# of one example nothing needs counting.
_MOST_ROWS = 1 << 16


@dataclasses.dataclass(frozen=True)
class Repeats:
  """A task in a run.

  Attributes:
    examples: The number of examples of the task in an epoch, after
      `max_tokens`.
    epochs: The number of epochs of the run.
    counted: whether all batches of the run were counted; otherwise `epochs` is
      that of the first ones, scaled.
  """

  examples: int
  epochs: float
  counted: bool

  def __str__(self) -> str:
    about = "" if self.counted else "about "
    return (
      f"{self.examples:,} examples an epoch, {about}{self.epochs:,.2f} epochs "
      "in this run"
    )


def repeats(
  batches: Batches, steps: int, *, exact: bool = False
) -> dict[str, Repeats]:
  """Counts the examples of a run.

  Args:
    batches: The batches of the run.
    steps: The number of steps of the run, from step 0.
    exact: counts all of it, half a microsecond for an example of packed rows.

  Returns:
    For each task of the mixture with a rate above 0, by name.
  """
  counted = steps
  if not exact and batches.must_count:
    largest = max(batches.batching.batch_sizes)
    counted = min(steps, max(1, _MOST_ROWS // largest))
  found = batches.examples_before(counted) * (steps / counted)
  return {
    task.name: Repeats(int(size), float(number / size), counted == steps)
    for task, size, number in zip(
      batches.tasks, batches.num_examples, found, strict=True
    )
  }
