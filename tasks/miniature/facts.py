"""A small world of facts about people, to be learned, asked and edited.

Every person has a city, a language and an instrument, all drawn from a seed.
Each fact has several wordings, so that an edit can be asked in words
that it was not made with; the other people and the other facts of a person are
what is to stay. A vocabulary of whole words goes with it, and the corpus task
`mini_facts` of the suite's vocabulary.
"""

from collections.abc import Iterable
import dataclasses
import functools

import numpy as np

# The first wording is the one that is edited. The suite's vocabulary has nearly
# all of these words whole.
RELATIONS = {
  "city": (
    "{} lives in",
    "you can visit {} in",
    "the garden of {} is in",
  ),
  "animal": (
    "{} loved the",
    "the animal of {} is the",
    "at the party {} fed the",
  ),
  "instrument": (
    "{} likes to play the",
    "the tune of {} is for the",
    "at the concert {} played the",
  ),
}
OBJECTS = {
  "city": "ashby farnham torvale brindle corwen dunmore elstow melford".split(),
  "animal": "otter donkey badger lizard turkey beetle hound rabbit".split(),
  "instrument": "cello violin banjo fiddle guitar clarinet bugle piano".split(),
}
# A name has a first and a last word of its own: what a layer reads at the last
# word of a subject is then unlike what it reads of others.
_FIRST = """anna boris clara david emma frank george helen adam bella carl diana
eric flora henry iris ivan jacob julia karen kevin laura rini zisa tido nuso
duno roni luri rimi naki toko""".split()
_LAST = """baker brown crane fox hammer mason rose wood hill page king lamb fern
oak pine maple willow star park church castle river swamp bank wall cook silver
green grey white black golden""".split()
# Sentences of which nothing is to be learned fill the covariance of keys.
_OTHERS = (
  "{a} met {b} near the {thing}",
  "the {thing} of {a} is older than the {other}",
  "one day {a} saw a {thing} and a {other}",
  "{a} and {b} sold the {thing}",
  "a {thing} was lost and {a} found it",
  "{b} gave the {thing} to {a}",
  "is a {thing} like a {other} ? {a} thinks so",
  "{a} is a friend of {b}",
)
_THINGS = """apple banana belt bicycle biscuit boat book cake carrot chisel coat
cookie drill glove hat hatchet jacket knife ladder melon mitten needle pancake
potato rope sausage scarf shirt shoe shovel skirt sledge sock spade spanner
tram truck van wagon wrench""".split()
SEED = 30


@dataclasses.dataclass(frozen=True)
class Told:
  """One fact of the world.

  Attributes:
    relation: A key of `RELATIONS`.
    subject: The person.
    target: What is true.
    other: What is false of this person and true of others.
  """

  relation: str
  subject: str
  target: str
  other: str


@functools.cache
def world(people: int = 32, seed: int = SEED) -> tuple[Told, ...]:
  """Draws the facts of so many people, at most 32."""
  random = np.random.RandomState(seed)
  names = [
    f"{first} {last}"
    for first, last in zip(
      random.permutation(_FIRST), random.permutation(_LAST), strict=True
    )
  ]
  facts = []
  for subject in names[:people]:
    for relation, objects in OBJECTS.items():
      target, other = random.choice(len(objects), 2, replace=False)
      facts.append(
        Told(relation, str(subject), objects[target], objects[other])
      )
  return tuple(facts)


def sentences(facts: Iterable[Told]) -> list[str]:
  """All facts in all wordings, a sentence each."""
  return [
    f"{prompt.replace('{}', fact.subject)} {fact.target} ."
    for fact in facts
    for prompt in RELATIONS[fact.relation]
  ]


def documents(count: int, seed: int) -> list[str]:
  """Draws documents of four sentences each, a quarter of them no facts."""
  facts = world()
  told, people = sentences(facts), sorted({fact.subject for fact in facts})
  random = np.random.RandomState(seed)

  def sentence() -> str:
    if random.rand() < 0.75:
      return told[random.randint(len(told))]
    a, b = random.choice(people, 2, replace=False)
    thing, other = random.choice(_THINGS, 2, replace=False)
    text = _OTHERS[random.randint(len(_OTHERS))]
    return text.format(a=a, b=b, thing=thing, other=other) + " ."

  return [" ".join(sentence() for _ in range(4)) for _ in range(count)]


class Words:
  """A vocabulary of the words of the world, with what a `Reader` asks for."""

  pad_id, eos_id, bos_id, unk_id = 0, 1, 2, 3

  def __init__(self):
    known = " ".join([*sum(RELATIONS.values(), ()), *sum(OBJECTS.values(), [])])
    # "is a" and a full stop are what ROME asks besides.
    words = known.replace("{}", "").split()
    words += [*_FIRST, *_LAST, *_THINGS, "is", "a", "."]
    words += [w for text in _OTHERS for w in text.split() if "{" not in w]
    self._words = ["<pad>", "</s>", "<s>", "<unk>", *sorted(set(words))]
    self._ids = {word: i for i, word in enumerate(self._words)}
    self.size = len(self._words)

  def encode(self, text: str) -> list[int]:
    """Returns the id of each word; a full stop is one by itself."""
    words = text.replace(".", " .").split()
    return [self._ids.get(word, self.unk_id) for word in words]

  encode_prompt = encode_targets = encode

  def decode(self, ids: Iterable[int]) -> str:
    """Returns the words, special ids left out."""
    return " ".join(self._words[i] for i in ids if i > self.unk_id)
