"""The grammar: articles, plurals, pronouns, clauses, the second language."""

from typing import NamedTuple

from tasks.miniature.world.world import CLASS_QUALITIES
from tasks.miniature.world.world import CLASS_VERBS
from tasks.miniature.world.world import COLOURS
from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import Verb
from tasks.miniature.world.world import VERBS

_VOWELS = frozenset("aeiou")
_PLURALS = {"knife": "knives", "wolf": "wolves", "scarf": "scarves"}


class Pronouns(NamedTuple):
  """The pronouns of one gender."""

  subject: str
  object: str
  possessive: str
  reflexive: str


class Person(NamedTuple):
  """Somebody in a document: a name and the pronouns that go with it."""

  name: str
  pronouns: Pronouns


SHE = Pronouns("she", "her", "her", "herself")
HE = Pronouns("he", "him", "his", "himself")


def a(noun: str) -> str:
  """Returns the noun (or its phrase) with its indefinite article."""
  vowel = noun[0] in _VOWELS and not noun.startswith("uku")
  return ("an " if vowel else "a ") + noun


def plural(noun: str) -> str:
  """Returns the plural of a noun of the lexicon."""
  if noun in _PLURALS:
    return _PLURALS[noun]
  if noun.endswith(("s", "x", "ch", "sh", "potato", "tomato", "mango")):
    return noun + "es"
  if noun.endswith("y") and noun[-2] not in "aeou":
    return noun[:-1] + "ies"
  return noun + "s"


def person(dice: Dice, nouns: dict) -> Person:
  """Returns somebody from the names of a part of the world."""
  if dice.chance(0.5):
    return Person(dice.pick(nouns["woman"])[0], SHE)
  return Person(dice.pick(nouns["man"])[0], HE)


def two_people(dice: Dice, nouns: dict) -> tuple[Person, Person]:
  """Returns two people of different names, of any gender."""
  first = person(dice, nouns)
  while True:
    second = person(dice, nouns)
    if second.name != first.name:
      return first, second


def described(dice: Dice, kind: str, noun: str) -> str:
  """Returns the noun, half of the time with a quality or a colour."""
  dart = dice.uniform()
  if dart < 0.3:
    return dice.rarely(CLASS_QUALITIES[kind]) + " " + noun
  if dart < 0.5:
    return dice.pick(COLOURS) + " " + noun
  return noun


def deed(dice: Dice, kind: str) -> Verb:
  """Returns a verb for an object of a class, mostly one proper to it."""
  if dice.chance(0.7) or kind == "place":
    return dice.pick(dice.rarely(CLASS_VERBS[kind]))
  return dice.pick(dice.pick(VERBS))


def in_second_language(
  words: dict[str, str], subject: str, verb: Verb, thing: str
) -> str:
  """Translates `the <subject> <verb, past> the <thing>`.

  The second language puts the verb first, the adjective after its noun, and
  has no article: `the red fox saw the pie` -> `vudi lemo kapek nila`.

  Args:
    words: word -> word of the second language.
    subject: a noun, or a colour and a noun.
    verb: the verb.
    thing: a noun, or a colour and a noun.
  """

  def phrase(english):
    return " ".join(words[w] for w in reversed(english.split()))

  return f"{words[verb.past]} {phrase(subject)} {phrase(thing)}"
