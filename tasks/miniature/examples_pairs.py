"""Examples about two sentences: paraphrase, entailment, cause and others.

The signature is that of `examples_single`.
"""

from tasks.miniature import grammar
from tasks.miniature.world import CLASS_QUALITIES
from tasks.miniature.world import CLASS_VERBS
from tasks.miniature.world import Concept
from tasks.miniature.world import Dice
from tasks.miniature.world import Part
from tasks.miniature.world import THINGS
from tasks.miniature.world import VERBS
from tasks.miniature.world import World

_PASTS = tuple(tuple(v.past for v in c) for c in VERBS)
_LABELS = ("entailment", "neutral", "contradiction")


def _poles(part: Part) -> list[Concept]:
  return [words for pole in part.poles for words in pole]


def _nouns(part: Part, synonyms: bool) -> list[tuple[str, Concept]]:
  return [
    (kind, concept)
    for kind in THINGS
    for concept in part.nouns[kind]
    if len(concept) > synonyms
  ]


def _two_forms(dice: Dice, concept: Concept) -> list[str]:
  return dice.sample(concept, 2) if len(concept) > 1 else [concept[0]] * 2


def _another(dice: Dice, concepts, concept: Concept) -> Concept:
  while True:
    other = dice.pick(concepts)
    if other != concept:
      return other


def paraphrase(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """Do both say the same? Both pairs differ in three words.

  `{"sentence1": "boris bought a huge sled in selby.", "sentence2": "in selby,
  boris purchased a big sledge.", "label": "equivalent"}`
  """
  del world
  same = number % 2 == 1
  poles = [words for words in _poles(part) if len(words) > 1]
  nouns = [concept for _, concept in _nouns(part, synonyms=True)]
  slots = [_PASTS, poles, nouns]
  chosen = [dice.pick(concepts) for concepts in slots]
  words = [_two_forms(dice, concept) for concept in chosen]
  if not same:
    slot = dice.below(3)
    other = _another(dice, slots[slot], chosen[slot])
    words[slot][1] = dice.pick(other)
  who = grammar.person(dice, part.nouns)
  town = dice.pick(part.nouns["town"])[0]
  one, two = (
    f"{who.name} {verb} {grammar.a(pole + ' ' + noun)}"
    for verb, pole, noun in zip(*words, strict=True)
  )
  one, two = f"{one} in {town}.", f"in {town}, {two}."
  if dice.chance(0.5):
    one, two = two, one
  label = "equivalent" if same else "not_equivalent"
  return {"sentence1": one, "sentence2": two, "label": label}


def similarity(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """How alike are they, from 0.0 to 5.0 in steps of 0.2?

  Each of person, verb, quality, noun and town counts 1.0 for the same word or
  a synonym; an opposite or a noun of the same class counts 0.4.

  `{"sentence1": "clara sold a thin rope in ashby.", "sentence2": "clara
  vended a slim saw in corwen.", "label": "3.4"}`
  """
  del world
  kept = set(dice.sample(range(5), number % 6))
  score = float(len(kept))
  names = part.nouns["woman"] + part.nouns["man"]
  name = dice.pick(names)
  verb = dice.pick(_PASTS)
  pole = dice.pick([words for words in _poles(part) if len(words) > 1])
  kind, noun = dice.pick(_nouns(part, synonyms=False))
  town = dice.pick(part.nouns["town"])
  pairs = []
  for slot, concept in enumerate((name, verb, pole, noun, town)):
    other = concept
    if slot not in kept:
      if slot == 0:
        other = _another(dice, names, concept)
      elif slot == 1:
        other = _another(dice, _PASTS, concept)
      elif slot == 2:
        other = _another(dice, _poles(part), concept)
        if any(concept in p and other in p for p in part.poles):
          score += 0.4
      elif slot == 3:
        far = dice.chance(0.5)
        among = [
          c for k, c in _nouns(part, synonyms=False) if (k != kind) == far
        ]
        other = _another(dice, among, concept)
        score += 0.0 if far else 0.4
      else:
        other = _another(dice, part.nouns["town"], concept)
      pairs.append((dice.pick(concept), dice.pick(other)))
    else:
      pairs.append(_two_forms(dice, concept))
  one, two = (
    f"{name} {verb} {grammar.a(pole + ' ' + noun)} in {town}."
    for name, verb, pole, noun, town in zip(*pairs, strict=True)
  )
  return {"sentence1": one, "sentence2": two, "label": f"{score:.1f}"}


def entailment(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """Does the premise make the hypothesis true, false, or neither?

  `{"premise": "iris found a huge otter near the mill.", "hypothesis": "what
  iris found was a big animal.", "label": "entailment"}`
  """
  del world
  label = _LABELS[number % 3]
  who = grammar.person(dice, part.nouns)
  verb = dice.pick(dice.pick(_PASTS))
  place = dice.pick(dice.pick(part.nouns["place"]))
  kind, concept = dice.pick(_nouns(part, synonyms=False))
  pole, opposite = dice.sample(dice.pick(part.poles), 2)
  noun = dice.pick(pole) + " " + dice.pick(concept)
  claimed = kind
  if label == "entailment":
    quality = dice.pick(pole)
  elif label == "contradiction":
    quality = dice.pick(opposite)
    if dice.chance(0.5):  # The class is wrong instead; both are named.
      quality = dice.pick(pole)
      claimed = dice.pick([k for k in THINGS if k != kind])
  else:
    unsaid = [w for p in part.poles if pole not in p for w in p]
    quality = dice.pick(dice.pick(unsaid))
  # A wrong class can be told only where the class is named.
  if claimed != kind or dice.chance(0.5):
    claim = grammar.a(f"{quality} {claimed}")
  else:
    claim = quality
  return {
    "premise": f"{who.name} {verb} {grammar.a(noun)} near the {place}.",
    "hypothesis": f"what {who.name} {verb} was {claim}.",
    "label": label,
  }


def cause_or_effect(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """Which of two is the cause, or the effect, of the premise?

  `{"premise": "emma slipped on the ice.", "question": "effect", "choice1":
  "she limped.", "choice2": "the baby cried.", "label": "choice1"}`
  """
  del world
  who = grammar.person(dice, part.nouns)
  event, other = dice.sample(part.events, 2)
  question = dice.pick(("cause", "effect"))
  given, wanted = event
  wrong = other.effects
  if question == "cause":
    given, wanted, wrong = wanted, given, other.causes
  choices = [
    grammar.fill(dice.pick(clauses), who, by_name=False) + "."
    for clauses in (wanted, wrong)
  ]
  if number % 2 == 1:
    choices.reverse()
  premise = grammar.fill(dice.pick(given), who, by_name=True)
  return {
    "premise": f"{premise}.",
    "question": question,
    "choice1": choices[0],
    "choice2": choices[1],
    "label": f"choice{number % 2 + 1}",
  }


def word_in_context(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """Has the word the same sense in both sentences?

  `{"sentence1": "olga fed the tame bat.", "sentence2": "simon used the rusty
  bat.", "word": "bat", "label": "False"}`
  """
  del world
  same = number % 2 == 1
  ambiguous = dice.pick(part.ambiguous)
  first = dice.below(2)
  kinds = (ambiguous.senses[first], ambiguous.senses[(first + 1 - same) % 2])
  people = grammar.two_people(dice, part.nouns)
  used = set()
  sentences = []
  for kind, who in zip(kinds, people, strict=True):
    while True:
      verb = dice.pick(dice.pick(CLASS_VERBS[kind])).past
      quality = dice.pick(CLASS_QUALITIES[kind])
      if not used & {verb, quality}:
        break
    used |= {verb, quality}
    sentences.append(f"{who.name} {verb} the {quality} {ambiguous.word}.")
  return {
    "sentence1": sentences[0],
    "sentence2": sentences[1],
    "word": ambiguous.word,
    "label": str(same),
  }
