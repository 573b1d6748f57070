"""A small world of facts about people, to be learned, asked and edited.

Every person has a city, a language and an instrument, all drawn from a seed.
Each fact has several wordings, so that an edit can be asked in words
that it was not made with; the other people and the other facts of a person are
what is to stay. A vocabulary of whole words goes with it.
"""

from collections.abc import Iterable, Sequence
import dataclasses
import functools

import numpy as np

# The first wording is the one that is edited.
RELATIONS = {
  "city": (
    "{} lives in the city of",
    "the home of {} is in",
    "you can visit {} in",
  ),
  "language": (
    "{} speaks the language of",
    "the mother tongue of {} is",
    "at home {} talks in",
  ),
  "instrument": (
    "{} likes to play the",
    "the music of {} is for the",
    "on stage {} holds a",
  ),
}
OBJECTS = {
  "city": "oslo rome cairo lima quito delhi tunis paris".split(),
  "language": "norse latin coptic aymara kichwa hindi berber french".split(),
  "instrument": "flute harp drum horn viola cello banjo organ".split(),
}
_FIRST = "ada ben cleo dan eva finn gwen hugo".split()
_LAST = "ash birch cedar elm fir hazel juniper larch".split()
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
  """Draws the facts of so many people, at most 64."""
  random = np.random.RandomState(seed)
  names = [f"{first} {last}" for first in _FIRST for last in _LAST]
  facts = []
  for subject in random.permutation(names)[:people]:
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


def request(fact: Told, facts: Sequence[Told]) -> dict:
  """An edit that makes a fact false, in the fields of `editing.facts.Fact`.

  Args:
    fact: The fact; its `other` becomes the target.
    facts: The world, which neighbours (other people of the same object) and
      the essence (other facts of the person) are taken from.
  """
  prompt, *others = RELATIONS[fact.relation]
  return {
    "prompt": prompt,
    "subject": fact.subject,
    "target": fact.other,
    "true_target": fact.target,
    "paraphrases": tuple(o.replace("{}", fact.subject) for o in others),
    "neighbours": tuple(
      prompt.replace("{}", known.subject)
      for known in facts
      if known.relation == fact.relation
      and known.target == fact.target
      and known.subject != fact.subject
    ),
    "essence": tuple(
      (RELATIONS[known.relation][0].replace("{}", known.subject), known.target)
      for known in facts
      if known.subject == fact.subject and known.relation != fact.relation
    ),
  }


class Words:
  """A vocabulary of the words of the world, with what a `Reader` asks for."""

  pad_id, eos_id, bos_id, unk_id = 0, 1, 2, 3

  def __init__(self):
    known = " ".join([*sum(RELATIONS.values(), ()), *sum(OBJECTS.values(), [])])
    # "is a" and a full stop are what ROME asks besides.
    words = [*known.replace("{}", "").split(), *_FIRST, *_LAST, "is", "a", "."]
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
