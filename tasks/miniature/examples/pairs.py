"""Examples about a sentence and a claim: entailment, effect, sense.

The functions have the signature of those in `single.py`.
"""

from tasks.miniature.world import grammar
from tasks.miniature.world.world import Concept
from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import Part
from tasks.miniature.world.world import THINGS
from tasks.miniature.world.world import VERBS
from tasks.miniature.world.world import World

_LABELS = ("entailment", "neutral", "contradiction")


def _nouns(part: Part, synonyms: bool) -> list[tuple[str, Concept]]:
  return [
    (kind, concept)
    for kind in THINGS
    for concept in part.nouns[kind]
    if len(concept) > synonyms
  ]


def _another(dice: Dice, concepts, concept: Concept) -> Concept:
  while True:
    other = dice.pick(concepts)
    if other != concept:
      return other


def paraphrase(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """Do both say the same? One word differs, by a synonym or by another word.

  `{"sentence1": "anna saw a huge thing.", "sentence2": "anna saw a big
  thing.", "label": "equivalent"}`
  """
  del world
  same = number % 2 == 1
  poles = [w for pole in part.poles for w in pole if len(w) > 1]
  nouns = [concept for _, concept in _nouns(part, synonyms=True)]
  things = dice.chance(0.5)
  concepts = nouns if things else poles
  concept = dice.pick(concepts)
  if same:
    words = dice.sample(concept, 2)
  else:
    other = _another(dice, concepts, concept)
    words = [dice.pick(concept), dice.pick(other)]
  name = grammar.person(dice, part.nouns).name
  one, two = (
    f"{name} saw {grammar.a(word if things else word + ' thing')}."
    for word in words
  )
  label = "equivalent" if same else "not_equivalent"
  return {"sentence1": one, "sentence2": two, "label": label}


def similarity(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """How alike are two things? 5.0: synonyms, 3.0: of one class, else 0.0.

  `{"sentence1": "clara sold the rope.", "sentence2": "clara sold the saw.",
  "label": "3.0"}`
  """
  del world
  label = ("0.0", "3.0", "5.0")[number % 3]
  name = grammar.person(dice, part.nouns).name
  verb = dice.pick(dice.pick(VERBS)).past
  nouns = _nouns(part, synonyms=False)
  if label == "5.0":
    _, noun = dice.pick(_nouns(part, synonyms=True))
    words = dice.sample(noun, 2)
  else:
    kind, noun = dice.pick(nouns)
    near = label == "3.0"
    other = _another(dice, [c for k, c in nouns if (k == kind) == near], noun)
    words = [dice.pick(noun), dice.pick(other)]
  one, two = (f"{name} {verb} the {word}." for word in words)
  return {"sentence1": one, "sentence2": two, "label": label}


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
