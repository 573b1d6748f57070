"""The supervised examples: each split of each task as a list of dicts."""

from collections.abc import Callable

from tasks.miniature.world import Dice
from tasks.miniature.world import SPLITS
from tasks.miniature.world import World

SIZES = {"train": 300, "validation": 200, "test": 200}
_FIRST_STREAM = 64


def examples(
  write: Callable, *, stream: int, split: str, world: World | None = None
) -> list[dict]:
  """Returns all examples of one split, no two the same.

  Args:
    write: an example writer, `(dice, world, part, number) -> dict`.
    stream: a number of the task's own, for its random choices.
    split: one of `SPLITS`.
    world: the words and the facts; `World()` unless given.
  """
  world = world or World()
  part = world.part(split)
  dice = Dice(world.seed, _FIRST_STREAM + stream, SPLITS.index(split))
  seen = set()
  result = []
  while len(result) < SIZES[split]:
    example = write(dice, world, part, len(result))
    key = repr(example)
    if key not in seen:
      seen.add(key)
      result.append(example)
  return result
