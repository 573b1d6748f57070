"""The supervised examples: each split of each task as a list of dicts."""

from collections.abc import Callable
import hashlib

from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import SPLITS
from tasks.miniature.world.world import World

SIZES = {"train": 4_000, "validation": 600, "test": 200}
SIZES_OF_SUMMARIES = SIZES | {"train": 300}
SIZES_OF_TRANSLATIONS = SIZES | {"train": 500}
_FIRST_STREAM = 64
_BUCKETS = 10
# Of those, each split's.
_BUCKETS_OF = {
  "train": range(0, 4),
  "validation": range(4, 7),
  "test": range(7, 10),
}


def kind(number: int) -> str:
  """Returns what an example of validation or test is held out by.

  Labels go round within six examples, so that both kinds are balanced.

  Args:
    number: The place of the example in its split.

  Returns:
    `"facts"`: its words are in no training example, and what they mean can be
    known from the corpus alone. `"combinations"`: its words are all in the
    training examples, together in no one of them.
  """
  return "facts" if number // 6 % 2 == 0 else "combinations"


def examples(
  write: Callable,
  *,
  stream: int,
  split: str,
  own_words: bool = True,
  sizes: dict[str, int] | None = None,
  world: World | None = None,
) -> list[dict]:
  """Returns all examples of one split, none of which is in another split.

  Those of validation and test are all different; training may repeat some.

  Args:
    write: an example writer, `(dice, world, part, number) -> dict`.
    stream: a number of the task's own, for its random choices.
    split: one of `SPLITS`.
    own_words: whether half of validation and test have words of their own
      (`kind`). Otherwise all words are in every split. Combinations are dealt
      to the splits by a hash.
    sizes: split -> number of examples; `SIZES` unless given.
    world: the words and the facts; `World()` unless given.

  Raises:
    ValueError: The writer has too few different examples.
  """
  size = (sizes or SIZES)[split]
  world = world or World()
  known = world.part("train")
  dice = Dice(world.seed, _FIRST_STREAM + stream, SPLITS.index(split))
  seen = set()
  result = []
  for _ in range(1_000 * size):
    if len(result) == size:
      return result
    held_out = split != "train" and kind(len(result)) == "facts"
    if not own_words:
      part = world.everything
    else:
      part = world.part(split) if held_out else known
    example = write(dice, world, part, len(result))
    key = repr(example)
    mine = own_words and held_out
    new = split == "train" or key not in seen
    if new and (mine or _bucket(key) in _BUCKETS_OF[split]):
      seen.add(key)
      result.append(example)
  raise ValueError(f"{write.__name__} has no {size} different examples.")


def _bucket(key: str) -> int:
  return hashlib.sha256(key.encode()).digest()[0] % _BUCKETS
