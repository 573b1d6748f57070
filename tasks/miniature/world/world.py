"""The miniature world: its words, its facts, and its parts for each split.

Everything is a pure function of a seed. `World` holds the lexicon as tuples of
concepts (a concept is a tuple of interchangeable forms, the usual one first),
the second language, and facts that hold for a kind of thing: what an animal
eats, where a role works, how big a tool is. `World.part(split)` keeps a
disjoint share of every open class, so that no word of an open class that
occurs in a training example occurs in a validation or a test example.
"""

from collections.abc import Sequence
import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np

from tasks.miniature.world import events
from tasks.miniature.world import lexicon

SEED = 20
SPLITS = ("train", "validation", "test")
_SHARES = (0.5, 0.75, 1.0)  # cumulative shares of every open class
_BUFFER = 128  # uniform numbers drawn at once

THINGS = (
  "animal",
  "food",
  "tool",
  "garment",
  "vehicle",
  "instrument",
  "plant",
  "place",
)
# Classes whose words are translated, and the ending of the translations.
TRANSLATED_THINGS = {
  "animal": "o",
  "food": "a",
  "tool": "an",
  "garment": "un",
}
Concept = tuple[str, ...]


class Verb(NamedTuple):
  """One verb: base form (`eat`), third person (`eats`), past (`ate`)."""

  base: str
  third: str
  past: str


class Pole(NamedTuple):
  """One quality: its words and the words of its opposite."""

  words: Concept
  opposite: Concept


class Event(NamedTuple):
  """One schema: causes, each a verb and its noun, and the state they cause.

  `good` tells whether one would wish for it.
  """

  causes: tuple[tuple[str, str], ...]
  state: str
  good: bool


class Ambiguous(NamedTuple):
  """A word with two senses, each in a class of things."""

  word: str
  senses: tuple[str, str]


class Dice:
  """Fast choices; the sequence is a pure function of (seed, stream, index)."""

  def __init__(self, seed: int, stream: int, index: int):
    key = np.array([(seed << 16) + stream, index], np.uint64)
    self._generator = np.random.Generator(np.random.Philox(key=key))
    self._numbers = []

  def uniform(self) -> float:
    """Returns a number in [0, 1)."""
    if not self._numbers:
      self._numbers = self._generator.random(_BUFFER).tolist()
    return self._numbers.pop()

  def below(self, limit: int) -> int:
    """Returns an integer in [0, limit)."""
    return int(self.uniform() * limit)

  def chance(self, probability: float) -> bool:
    """Returns True with the given probability."""
    return self.uniform() < probability

  def pick(self, items: Sequence):
    """Returns one of `items`."""
    return items[int(self.uniform() * len(items))]

  def often(self, items: Sequence):
    """Returns one of `items`, the nth about 1/n as often as the first."""
    return items[int((len(items) + 1) ** self.uniform()) - 1]

  def seldom(self, items: Sequence):
    """Returns one of `items`, the nth about 1/n^1.5 as often as the first."""
    rest = 1 - self.uniform() * (1 - (len(items) + 1) ** -0.5)
    return items[int(rest**-2) - 1]

  def rarely(self, items: Sequence):
    """Returns one of `items`, each 2.25 times as often as the one after it."""
    rest = 1 - self.uniform() * (1 - 2.25 ** -len(items))
    return items[int(-math.log(rest, 2.25))]

  def sample(self, items: Sequence, count: int) -> list:
    """Returns `count` different ones of `items`, in random order."""
    rest = list(items)
    return [rest.pop(self.below(len(rest))) for _ in range(count)]


@dataclasses.dataclass(frozen=True)
class Part:
  """The words that one split may use (all of them for the corpus).

  Attributes:
    nouns: class -> concepts, for the open classes of the lexicon.
    poles: the qualities with an opposite.
    events: the schemas of cause and effect.
    ambiguous: the words with two senses.
    verbs: class -> what people do to its members.
    qualities: class -> how its members are.
  """

  nouns: dict[str, tuple[Concept, ...]]
  poles: tuple[Pole, ...]
  events: tuple[Event, ...]
  ambiguous: tuple[Ambiguous, ...]
  verbs: dict[str, tuple[tuple[Verb, ...], ...]]
  qualities: dict[str, tuple[str, ...]]


def concepts(words: str) -> tuple[Concept, ...]:
  """Returns `a/b c` as `(("a", "b"), ("c",))`."""
  return tuple(tuple(w.split("/")) for w in words.split())


def verb(entry: str) -> Verb:
  """Returns the forms of `eat:ate` or of a regular `paint`."""
  base, _, past = entry.partition(":")
  if base.endswith(("s", "sh", "ch", "x", "o")):
    third = base + "es"
  elif base.endswith("y") and base[-2] not in "aeou":
    third = base[:-1] + "ies"
  else:
    third = base + "s"
  if not past:
    doubled = ("pet", "grip", "trim", "stop", "strum", "skid")
    if base.endswith("e"):
      past = base + "d"
    elif base.endswith("y") and base[-2] not in "aeou":
      past = base[:-1] + "ied"
    elif base in doubled:
      past = base + base[-1] + "ed"
    else:
      past = base + "ed"
  return Verb(base, third, past)


def verbs(words: str) -> tuple[tuple[Verb, ...], ...]:
  """Returns the verb concepts of one line of the lexicon."""
  return tuple(tuple(verb(v) for v in c) for c in concepts(words))


@dataclasses.dataclass(frozen=True)
class World:
  """All that there is; build it by `World(seed)`.

  Attributes:
    seed: decides the facts, the second language and the parts.
  """

  seed: int = SEED

  @functools.cached_property
  def everything(self) -> Part:
    """The whole lexicon, in the order in which the parts are cut."""
    order = np.random.Generator(np.random.Philox(key=self.seed)).permutation

    def shuffled(items):
      return tuple(items[i] for i in order(len(items)))

    nouns = {k: shuffled(concepts(v)) for k, v in lexicon.OPEN.items()}
    poles = []
    for entry in lexicon.POLES.split():
      one, other = (tuple(p.split("/")) for p in entry.split("|"))
      poles.append(Pole(one, other))
    schemas = []
    pairs = zip(
      events.GOOD.strip().split("\n"),
      events.BAD.strip().split("\n"),
      strict=True,
    )
    for pair in pairs:
      both = []
      for good, schema in zip((True, False), pair, strict=True):
        causes, state = schema.split(" => ")
        causes = tuple(tuple(cause.split(":")) for cause in causes.split())
        both.append(Event(causes, state, good))
      schemas.append(tuple(both))
    ambiguous = []
    for entry in lexicon.SENSES.split():
      word, *senses = entry.split(":")
      ambiguous.append(Ambiguous(word, tuple(senses)))
    return Part(
      nouns,
      shuffled(poles),
      tuple(event for pair in shuffled(schemas) for event in pair),
      shuffled(ambiguous),
      {kind: shuffled(words) for kind, words in CLASS_VERBS.items()},
      {kind: shuffled(words) for kind, words in CLASS_QUALITIES.items()},
    )

  @functools.cached_property
  def by_frequency(self) -> Part:
    """The whole lexicon, in the order in which `Dice` ranks it.

    The order is independent of the order of `everything`, so that each part has
    frequent and rare words.
    """
    order = np.random.Generator(np.random.Philox(key=self.seed + 1)).permutation

    def shuffled(items):
      return tuple(items[i] for i in order(len(items)))

    whole = self.everything
    return Part(
      {name: shuffled(items) for name, items in whole.nouns.items()},
      shuffled(whole.poles),
      shuffled(whole.events),
      shuffled(whole.ambiguous),
      whole.verbs,
      whole.qualities,
    )

  def part(self, split: str) -> Part:
    """Returns the words of one split; the three are disjoint."""
    index = SPLITS.index(split)
    start = _SHARES[index - 1] if index else 0.0
    stop = _SHARES[index]

    def cut(items):
      return items[round(start * len(items)) : round(stop * len(items))]

    whole = self.everything
    return Part(
      {name: cut(items) for name, items in whole.nouns.items()},
      cut(whole.poles),
      cut(whole.events),
      cut(whole.ambiguous),
      {name: cut(items) for name, items in whole.verbs.items()},
      {name: cut(items) for name, items in whole.qualities.items()},
    )

  @functools.cached_property
  def facts(self) -> dict[tuple[str, Concept], tuple]:
    """(fact, concept) -> concepts: `("diet", ("otter",))` -> two foods.

    Facts: `diet` (animal: foods), `home` (thing: places), `look` (thing:
    colours), `pole` (thing: qualities), `trade` (role: tools).
    """
    dice = Dice(self.seed, 1, 0)
    whole = self.everything
    facts = {}
    for kind in THINGS:
      for concept in whole.nouns[kind]:
        facts["home", concept] = dice.sample(whole.nouns["place"], 2)
        facts["look", concept] = dice.sample(COLOURS, 2)
        facts["pole", concept] = [
          p.words if dice.chance(0.5) else p.opposite
          for p in dice.sample(whole.poles, 2)
        ]
    for concept in whole.nouns["animal"]:
      facts["diet", concept] = dice.sample(whole.nouns["food"], 2)
    for concept in whole.nouns["role"]:
      facts["home", concept] = dice.sample(whole.nouns["place"], 2)
      facts["trade", concept] = dice.sample(whole.nouns["tool"], 2)
    return facts

  @functools.cached_property
  def second_language(self) -> dict[str, str]:
    """Word -> word of the second language, for what can be translated."""
    dice = Dice(self.seed, 2, 0)
    whole = self.everything
    taken = {f for cs in whole.nouns.values() for c in cs for f in c}

    def coin(ending):
      while True:
        word = dice.pick("bdgklmnprstvz") + dice.pick("aeiou")
        word += dice.pick("dgklmnprstvz") + ending
        if word not in taken:
          taken.add(word)
          return word

    words = {}
    for kind in TRANSLATED_THINGS:
      ending = TRANSLATED_THINGS[kind]
      for concept in whole.nouns[kind]:
        words[concept[0]] = coin(ending)
    for colour in COLOURS:
      words[colour] = coin("ek")
    for forms in verbs(lexicon.TRANSLATED_VERBS):
      words[forms[0].past] = coin("i")
    return words

  @functools.cached_property
  def things(self) -> dict[str, tuple[Concept, ...]]:
    """Class of things -> its concepts, the ambiguous words last."""
    return {
      kind: self.by_frequency.nouns[kind]
      + tuple((a.word,) for a in self.everything.ambiguous if kind in a.senses)
      for kind in THINGS
    }


COLOURS = tuple(lexicon.COLOURS.split())
VERBS = verbs(lexicon.VERBS)
SOCIAL = verbs(lexicon.SOCIAL)
TRANSLATED = verbs(lexicon.TRANSLATED_VERBS)
CLASS_VERBS = {k: verbs(v) for k, v in lexicon.CLASS_VERBS.items()}
CLASS_ACTIONS = {k: verbs(v) for k, v in lexicon.CLASS_ACTIONS.items()}
CLASS_QUALITIES = {
  k: tuple(v.split()) for k, v in lexicon.CLASS_QUALITIES.items()
}
