"""Examples of named entities, of questions without an answer, of choices.

The functions have the signature of those in
`tasks/miniature/examples/single.py`.
"""

from tasks.miniature.examples import reading
from tasks.miniature.world import grammar
from tasks.miniature.world.grammar import a
from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import Part
from tasks.miniature.world.world import THINGS
from tasks.miniature.world.world import World

# People, towns, and things by their class.
ENTITIES = ("person", "town", *THINGS)
NO_ANSWER = "none"


def entities(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, list[str]]:
  """Who did what to which thing, and where? One thing in two is ambiguous.

  The verb tells in which of its senses an ambiguous word is used.

  `{"tokens": ["in", "varley", ",", "emma", "fed", "the", "bat", "."],
  "tags": ["O", "B-town", "O", "B-person", "O", "O", "B-animal", "O"]}`
  """
  del world
  who = grammar.person(dice, part.nouns).name
  town = dice.pick(part.nouns["town"])[0]
  if number % 2:
    ambiguous = dice.pick(part.ambiguous)
    kind, noun = dice.pick(ambiguous.senses), ambiguous.word
  else:
    kind = dice.pick(THINGS)
    noun = dice.pick(dice.pick(part.nouns[kind]))
  verb = dice.pick(dice.pick(part.verbs[kind])).past
  phrase = [(who, "person"), (verb, ""), ("the", "")]
  words = grammar.described(dice, kind, noun).split()
  phrase += [(word, kind) for word in words]
  place = [("in", ""), (town, "town")]
  if dice.chance(0.5):
    told = [*place, (",", ""), *phrase, (".", "")]
  else:
    told = [*phrase, *place, (".", "")]
  tags, before = [], ""
  for _, entity in told:
    begins = "I" if entity == before else "B"
    tags.append(f"{begins}-{entity}" if entity else "O")
    before = entity
  return {"tokens": [word for word, _ in told], "tags": tags}


def answerable(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str | list[str]]:
  """Which of four fits the question, if any? Half of them have no answer.

  `{"context": "emma had an animal, a tool, a plant and a garment.",
  "question": "which one was ripe?", "answers": [], "answer": "none",
  "label": "not_entailment"}`
  """
  example = reading.span_answer(dice, world, part, number)
  has_answer = number // 4 % 2 == 0
  if not has_answer:
    right = example["answers"][0]
    rest = [k for k in THINGS if f" {a(k)}" not in example["context"]]
    example["context"] = example["context"].replace(
      f" {a(right)}", f" {a(dice.pick(rest))}"
    )
    example["answers"] = []
  label = "entailment" if has_answer else "not_entailment"
  answer = example["answers"][0] if has_answer else NO_ANSWER
  return {**example, "answer": answer, "label": label}


def choice(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str | list[str]]:
  """Which of four answers fits the question about a passage?

  `{"article": "emma had an animal. it was furry.", "question": "what did emma
  have?", "choices": ["an animal", "a tool", "a plant", "a vehicle"], "label":
  "choice1"}`
  """
  who = grammar.person(dice, world.everything.nouns)
  kinds = dice.sample(THINGS, 4)
  right = number % 4
  kind = kinds[right]
  clues = [
    f"it was {dice.pick(part.qualities[kind])}.",
    f"{who.name} {dice.pick(dice.pick(part.verbs[kind])).past} it.",
    f"it was {a(dice.pick(dice.pick(part.nouns[kind])))}.",
  ]
  return {
    "article": " ".join([f"{who.name} had a thing.", dice.pick(clues)]),
    "question": f"what did {who.name} have?",
    "choices": [a(name) for name in kinds],
    "label": f"choice{right + 1}",
  }
