"""Examples of long answers, of highlights, of talks and of weights.

The functions have the signature of those in
`tasks/miniature/examples/single.py`.
"""

import functools

from tasks.formats.numbers import Bins
from tasks.formats.numbers import Digits
from tasks.miniature.examples import reading
from tasks.miniature.world import grammar
from tasks.miniature.world.grammar import a
from tasks.miniature.world.grammar import plural
from tasks.miniature.world.world import CLASS_QUALITIES
from tasks.miniature.world.world import CLASS_VERBS
from tasks.miniature.world.world import Concept
from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import Part
from tasks.miniature.world.world import THINGS
from tasks.miniature.world.world import World


def long_answer(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """An open question, a text that helps a little, and one of many answers.

  `{"question": "what is an otter?", "document": "most otters are quick.",
  "answer": "an otter is an animal. many otters are found near the mill. people
  feed them."}`
  """
  kind = THINGS[number % len(THINGS)]
  concept = dice.pick(part.nouns[kind])
  noun = dice.pick(concept)
  home = dice.pick(dice.pick(world.facts["home", concept]))
  facts = [
    f"many {plural(noun)} are found near the {home}.",
    f"{a(noun)} is often {dice.pick(world.facts['look', concept])}.",
    f"most {plural(noun)} are "
    f"{dice.pick(dice.pick(world.facts['pole', concept]))}.",
    f"some {plural(noun)} are {dice.pick(CLASS_QUALITIES[kind])}.",
  ]
  told, *others = dice.sample(facts, 3)
  verb = dice.pick(dice.pick(CLASS_VERBS[kind])).base
  answer = [
    f"{a(noun)} is {a(kind)}.",
    *dice.sample([told, *others], 2),
    f"people {verb} {plural(noun)}.",
  ]
  return {
    "question": f"what is {a(noun)}?",
    "document": told,
    "answer": " ".join(answer),
  }


def highlights(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """A report and the two of its sentences that matter.

  `{"document": "nora is a nurse from varley. the night was wet. ...",
  "highlights": "nora is a nurse from varley. on that day she sold the fern."}`
  """
  document = reading.summary(dice, world, part, number)["document"]
  sentences = document.split(". ")
  return {
    "document": document,
    "highlights": f"{sentences[0]}. {sentences[3]}.",
  }


def talk(dice: Dice, world: World, part: Part, number: int) -> dict[str, str]:
  """What somebody is like, what was said to them, and what they say.

  `{"persona": "i am a nurse. i live in varley. i love otters.", "history":
  "hello. i love ferns. where do you live?", "response": "i live in varley. do
  you love otters?"}`
  """
  del world
  role = dice.pick(dice.pick(part.nouns["role"]))
  town, elsewhere = dice.sample(part.nouns["town"], 2)
  loved, other = (
    plural(dice.pick(dice.pick(part.nouns[kind])))
    for kind in dice.sample(THINGS[:3], 2)
  )
  persona = [f"i am {a(role)}.", f"i live in {town[0]}.", f"i love {loved}."]
  questions = "what are you?", "where do you live?", "what do you love?"
  said = dice.pick((f"i love {other}.", f"i am from {elsewhere[0]}."))
  back = dice.pick(("and you?", f"do you love {loved}?", f"why {other}?"))
  asked = number % 3
  return {
    "persona": " ".join(dice.sample(persona, 3)),
    "history": f"hello. {said} {questions[asked]}",
    "response": f"{persona[asked]} {back}",
  }


def paragraph(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """One to four English sentences and their translation.

  `{"english": "the red fox saw the pie. the fox sold the grey fern.", "talu":
  "vudi lemo kapek nila. ..."}`
  """
  sentences = [
    reading.translation(dice, world, part, dice.below(3))
    for _ in range(1 + number % 4)
  ]
  return {
    language: " ".join(sentence[language] for sentence in sentences)
    for language in ("english", "talu")
  }


def weights(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str | list[str]]:
  """How much do two or three things weigh together, as three texts?

  `{"text": "emma carried an otter, a saw and a fern.", "tens": "140", "twos":
  "138", "digits": "1 3 7 . 4", "answers": ["137.4"]}`
  """
  kinds = dice.sample(THINGS, 2 + number % 2)
  concepts = [dice.pick(part.nouns[kind]) for kind in kinds]
  *others, last = [a(dice.pick(concept)) for concept in concepts]
  weight = sum(weights_of(world.seed)[concept] for concept in concepts) / 10
  who = grammar.person(dice, part.nouns).name
  return {
    "text": f"{who} carried {', '.join(others)} and {last}.",
    "tens": Bins(step=10)(weight),
    "twos": Bins(step=2)(weight),
    "digits": Digits(decimals=1)(weight),
    "answers": [str(weight)],
  }


@functools.cache
def weights_of(seed: int) -> dict[Concept, int]:
  """The weight of each thing of a world, in tenths, from 1 to 999."""
  world = World(seed)
  dice = Dice(seed, 3, 0)
  return {
    concept: 1 + dice.below(999)
    for kind in THINGS
    for concept in world.everything.nouns[kind]
  }
