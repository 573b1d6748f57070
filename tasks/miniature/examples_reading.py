"""Examples that are answered by text: questions, summaries, translation.

The signature is that of `examples_single`.
"""

from tasks.miniature import grammar
from tasks.miniature.grammar import a
from tasks.miniature.world import CLASS_QUALITIES
from tasks.miniature.world import COLOURS
from tasks.miniature.world import Dice
from tasks.miniature.world import Part
from tasks.miniature.world import SOCIAL
from tasks.miniature.world import THINGS
from tasks.miniature.world import TRANSLATED
from tasks.miniature.world import VERBS
from tasks.miniature.world import World


def _noun(dice: Dice, part: Part, kind: str) -> str:
  return dice.pick(dice.pick(part.nouns[kind]))


def span_answer(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str | list[str]]:
  """A question about one of two people; the answer is a span of the context.

  `{"context": "emma is a cook. she lives in ashby. ...", "question": "where
  does emma live?", "answers": ["ashby", "in ashby"]}`
  """
  del world
  people = grammar.two_people(dice, part.nouns)
  towns = [c[0] for c in dice.sample(part.nouns["town"], 2)]
  roles = [dice.pick(c) for c in dice.sample(part.nouns["role"], 2)]
  things = []
  for kind in dice.sample(THINGS[:-1], 2):
    noun = _noun(dice, part, kind)
    things.append(grammar.described(dice, kind, noun))
  places = [dice.pick(c) for c in dice.sample(part.nouns["place"], 2)]
  buy = dice.pick(VERBS[0])
  context = []
  for who, town, role, thing, place in zip(
    people, towns, roles, things, places, strict=True
  ):
    he = who.pronouns.subject
    told = [
      f"{he} lives in {town}.",
      f"{he} {buy.past} {a(thing)}.",
      f"{he} works at the {place}.",
    ]
    context += [f"{who.name} is {a(role)}.", *dice.sample(told, 3)]
  which = dice.below(2)
  who, town, role = people[which], towns[which], roles[which]
  thing, place = things[which], places[which]
  asked = number % 4
  if asked == 0:
    question = f"where does {who.name} live?"
    answers = [town, f"in {town}"]
  elif asked == 1:
    question = f"what did {who.name} {dice.pick(VERBS[0]).base}?"
    answers = [thing, a(thing), thing.split()[-1]]
  elif asked == 2:
    question = f"where does {who.name} work?"
    answers = [place, f"at the {place}", f"the {place}"]
  else:
    question = f"what is {who.name}?"
    answers = [role, a(role)]
  return {
    "context": " ".join(context),
    "question": question,
    "answers": list(dict.fromkeys(answers)),
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
  animals, foods = part.nouns["animal"], part.nouns["food"]
  subject, thing = dice.pick(animals)[0], dice.pick(foods)[0]
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
