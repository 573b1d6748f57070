"""The supervised examples: each split of each task as a list of dicts."""

from collections.abc import Callable
import hashlib

from tasks.miniature.world import Dice
from tasks.miniature.world import SPLITS
from tasks.miniature.world import World

SIZES = {"train": 300, "validation": 200, "test": 200}
_FIRST_STREAM = 64
_BUCKETS = 10
# Of those, each split's; as the shares of the words.
_BUCKETS_OF = {
  "train": range(0, 4),
  "validation": range(4, 7),
  "test": range(7, 10),
}


def examples(
  write: Callable,
  *,
  stream: int,
  split: str,
  own_words: bool = True,
  world: World | None = None,
) -> list[dict]:
  """Returns all examples of one split, no two the same, none in another split.

  Args:
    write: an example writer, `(dice, world, part, number) -> dict`.
    stream: a number of the task's own, for its random choices.
    split: one of `SPLITS`.
    own_words: whether the split's open words are in no other split, which asks
      for what the words mean. Otherwise all words are used, and examples are
      dealt to the splits by a hash: what is read must be copied or translated.
    world: the words and the facts; `World()` unless given.
  """
  world = world or World()
  part = world.part(split) if own_words else world.everything
  dice = Dice(world.seed, _FIRST_STREAM + stream, SPLITS.index(split))
  seen = set()
  result = []
  while len(result) < SIZES[split]:
    example = write(dice, world, part, len(result))
    key = repr(example)
    mine = own_words or _bucket(key) in _BUCKETS_OF[split]
    if mine and key not in seen:
      seen.add(key)
      result.append(example)
  return result


def _bucket(key: str) -> int:
  return hashlib.sha256(key.encode()).digest()[0] % _BUCKETS
