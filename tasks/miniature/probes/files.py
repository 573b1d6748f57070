"""The files of pairs and facts, as a pure function of the world's seed.

A pair is a sentence of the kind of `mini_cola` with and without its fault; a
fact is the class of a thing. `python -m tasks.miniature.probes.files` writes
the files anew.
"""

from collections.abc import Iterator
import json
import pathlib

from tasks.miniature.examples import single
from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import THINGS
from tasks.miniature.world.world import World

FOLDER = pathlib.Path(__file__).parent
# The faults of `single.acceptability`, in their order.
PHENOMENA = ("agreement", "determiner", "selection", "reflexive", "order")
NUMBER = 60  # pairs of each phenomenon
_STREAM = 96
TEMPLATE = "the [X] is a kind of [Y] ."


def pairs() -> Iterator[tuple[str, str, str]]:
  """Yields good sentences, bad ones and their phenomena."""
  world = World()
  left = dict.fromkeys(PHENOMENA, NUMBER)
  seen = set()
  index = 0
  while any(left.values()):
    index += 1
    phenomenon = PHENOMENA[_dice(index).below(len(PHENOMENA))]
    good, bad = (
      single.acceptability(_dice(index), world, world.everything, number)
      for number in (1, 0)
    )
    pair = good["sentence"], bad["sentence"]
    if left[phenomenon] and pair not in seen and pair[0] != pair[1]:
      seen.add(pair)
      left[phenomenon] -= 1
      yield *pair, phenomenon


def facts() -> Iterator[dict[str, str]]:
  """Yields the class of each thing that is of one alone, as rows of LAMA."""
  nouns = World().everything.nouns
  kinds = {}
  for kind in THINGS:
    for concept in nouns[kind]:
      for word in concept:
        kinds.setdefault(word, []).append(kind)
  for word, of in kinds.items():
    if len(of) == 1:
      yield {"sub_label": word, "obj_label": of[0]}


def files() -> dict[str, str]:
  """Returns the texts of the files by their names."""
  rows = [("good", "bad", "phenomenon"), *pairs()]
  template = {"relation": "kinds", "template": TEMPLATE}
  return {
    "grammar.tsv": "".join("\t".join(row) + "\n" for row in rows),
    "templates.jsonl": json.dumps(template) + "\n",
    "kinds.jsonl": "".join(json.dumps(row) + "\n" for row in facts()),
  }


def _dice(index: int) -> Dice:
  return Dice(World().seed, _STREAM, index)


if __name__ == "__main__":
  for name, text in files().items():
    (FOLDER / name).write_text(text, encoding="utf-8")
