"""Examples that are answered by text: questions, summaries, translation.

The functions have the signature of those in `single.py`.
"""

from tasks.miniature.world import grammar
from tasks.miniature.world.grammar import a
from tasks.miniature.world.world import CLASS_QUALITIES
from tasks.miniature.world.world import COLOURS
from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import Part
from tasks.miniature.world.world import SOCIAL
from tasks.miniature.world.world import THINGS
from tasks.miniature.world.world import TRANSLATED
from tasks.miniature.world.world import TRANSLATED_THINGS
from tasks.miniature.world.world import World


def _noun(dice: Dice, part: Part, kind: str) -> str:
  return dice.pick(dice.pick(part.nouns[kind]))


def span_answer(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str | list[str]]:
  """Which of the four in the context fits the question?

  `{"context": "emma had an animal, a tool, a plant and a garment.",
  "question": "which one was furry?", "answers": ["animal", "an animal"]}`
  """
  who = grammar.person(dice, world.everything.nouns)
  kinds = dice.sample(THINGS, 4)
  kind = kinds[number % 4]
  one, two, three, four = (a(name) for name in kinds)
  question = dice.pick(
    (
      f"which one was {dice.pick(part.qualities[kind])}?",
      f"which one was {dice.pick(dice.pick(part.verbs[kind])).past}?",
      f"which one was the {_noun(dice, part, kind)}?",
    )
  )
  return {
    "context": f"{who.name} had {one}, {two}, {three} and {four}.",
    "question": question,
    "answers": [kind, a(kind)],
  }


def summary(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """A report of some sentences and the one that sums it up.

  `{"document": "nora is a nurse from varley. the day was wet. ... on that day
  she sold the fern.", "summary": "nora from varley sold the fern."}`
  """
  del world, number
  who = grammar.person(dice, part.nouns)
  he, _, his, _ = who.pronouns
  town = dice.pick(part.nouns["town"])[0]
  kind = dice.pick(THINGS)
  concept = dice.pick(part.nouns[kind])
  noun = grammar.described(dice, kind, dice.pick(concept))
  deed = grammar.deed(dice, kind).past
  role = _noun(dice, part, "role")
  feeling = dice.pick(part.nouns[dice.pick(("joy", "sorrow"))])[0]
  middle = [
    f"the night was {dice.pick(('cold', 'hot', 'wet', 'dry'))}.",
    f"{he} {dice.pick(SOCIAL)[0].past} {his} friend.",
    f"{he} felt {feeling} all day.",
    f"the {dice.pick(concept)} was {dice.pick(CLASS_QUALITIES[kind])}.",
    f"many people in {town} talked about it.",
  ]
  document = [
    f"{who.name} is {a(role)} from {town}.",
    *dice.sample(middle, 2),
    f"on that day {he} {deed} the {noun}.",
    *dice.sample(middle, 1),
  ]
  return {
    "document": " ".join(document),
    "summary": f"{who.name} from {town} {deed} the {noun}.",
  }


def translation(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """An English sentence and its translation into the second language.

  `{"english": "the red fox saw the pie.", "talu": "vudi lemo kapek nila."}`
  """
  kinds = tuple(TRANSLATED_THINGS)
  subject = dice.pick(part.nouns["animal"])[0]
  thing = dice.pick(part.nouns[dice.pick(kinds)])[0]
  verb = dice.pick(TRANSLATED)[0]
  colour, other = dice.sample(COLOURS, 2)
  if number % 3 < 2:
    subject = f"{colour} {subject}"
  if number % 3 > 0:
    thing = f"{other} {thing}"
  talu = grammar.in_second_language(world.second_language, subject, verb, thing)
  return {
    "english": f"the {subject} {verb.past} the {thing}.",
    "talu": f"{talu}.",
  }
