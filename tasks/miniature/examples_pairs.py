"""Examples about a sentence and a claim: entailment, effect, sense.

The signature is that of `examples_single`.
"""

from tasks.miniature import grammar
from tasks.miniature.world import Dice
from tasks.miniature.world import Part
from tasks.miniature.world import THINGS
from tasks.miniature.world import VERBS
from tasks.miniature.world import World

_LABELS = ("entailment", "neutral", "contradiction")


def entailment(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """Does the premise make the hypothesis true, false, or neither?

  `{"premise": "iris found a huge otter.", "hypothesis": "it was an animal.",
  "label": "entailment"}`
  """
  del world
  label = _LABELS[number % 3]
  who = grammar.person(dice, part.nouns)
  verb = dice.pick(dice.pick(VERBS)).past
  kind = dice.pick(THINGS)
  pole = dice.pick(dice.pick(part.poles))
  noun = dice.pick(pole) + " " + dice.pick(dice.pick(part.nouns[kind]))
  if label == "entailment":
    claim = grammar.a(kind)
  elif label == "contradiction":
    claim = grammar.a(dice.pick([name for name in THINGS if name != kind]))
  else:
    unsaid = [w for p in part.poles if pole not in p for w in p]
    claim = dice.pick(dice.pick(unsaid))
  return {
    "premise": f"{who.name} {verb} {grammar.a(noun)}.",
    "hypothesis": f"it was {claim}.",
    "label": label,
  }


def cause_or_effect(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """Which of two is the effect of the premise on the person?

  `{"premise": "emma saw the ghost.", "choice1": "good", "choice2": "bad",
  "label": "bad"}`
  """
  good = number % 2 == 1
  who = grammar.person(dice, world.everything.nouns)
  event = dice.pick([event for event in part.events if event.good == good])
  if dice.chance(0.3):
    premise = f"{who.name} was {event.state}."
  else:
    verb, noun = dice.pick(event.causes)
    premise = f"{who.name} {verb} the {noun}."
  choices = dice.sample(("good", "bad"), 2)
  return {
    "premise": premise,
    "choice1": choices[0],
    "choice2": choices[1],
    "label": "good" if good else "bad",
  }


def word_in_context(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """In which of its two senses is the word used?

  `{"sentence": "olga fed the bat.", "word": "bat", "sense1": "tool", "sense2":
  "animal", "label": "animal"}`
  """
  ambiguous = dice.pick(part.ambiguous)
  kind = ambiguous.senses[number % 2]
  verb = dice.pick(dice.pick(part.verbs[kind])).past
  name = grammar.person(dice, world.everything.nouns).name
  quality = dice.pick(part.qualities[kind])
  thing = ambiguous.word if dice.chance(0.5) else f"{quality} {ambiguous.word}"
  one, two = dice.sample(ambiguous.senses, 2)
  return {
    "sentence": f"{name} {verb} the {thing}.",
    "word": ambiguous.word,
    "sense1": one,
    "sense2": two,
    "label": kind,
  }
