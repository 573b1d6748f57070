"""Examples about one sentence: acceptability, sentiment, pronoun referent.

Like every example writer here, each function takes `(dice, world, part,
number)`: `part` is the split's share of the words, `number` counts the
examples of the split, so that `number % 2` balances two labels. It returns the
raw example, a dict of strings.
"""

from tasks.miniature.world import grammar
from tasks.miniature.world.world import CLASS_ACTIONS
from tasks.miniature.world.world import CLASS_QUALITIES
from tasks.miniature.world.world import CLASS_VERBS
from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import Part
from tasks.miniature.world.world import THINGS
from tasks.miniature.world.world import World


def _noun(dice: Dice, part: Part, kind: str) -> str:
  return dice.pick(dice.pick(part.nouns[kind]))


def acceptability(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """Is the sentence grammatical? Five kinds of faults, half without fault.

  `{"sentence": "the badger sleep near the old mill.", "label":
  "unacceptable"}`
  """
  del world
  good = number % 2 == 1
  fault = dice.below(5)
  who = grammar.person(dice, part.nouns)
  place = _noun(dice, part, "place")
  quality = dice.pick(CLASS_QUALITIES["place"])
  if fault == 0:  # The verb agrees with its subject in number.
    kind = dice.pick(tuple(CLASS_ACTIONS))
    act = dice.pick(dice.pick(CLASS_ACTIONS[kind]))
    noun = _noun(dice, part, kind)
    many = dice.chance(0.5)
    noun = grammar.plural(noun) if many else noun
    verb = act.base if many == good else act.third
    sentence = f"the {noun} {verb} near the {quality} {place}."
  elif fault == 1:  # The determiner agrees with its noun.
    kind = dice.pick(THINGS)
    noun = _noun(dice, part, kind)
    many = dice.chance(0.5)
    noun = grammar.plural(noun) if many else noun
    this = "these" if many == good else "this"
    verb = dice.pick(dice.pick(CLASS_VERBS[kind])).past
    sentence = f"{who.name} {verb} {this} {noun} at the {place}."
  elif fault == 2:  # The verb takes this class of objects.
    kind, other = dice.sample(THINGS, 2)
    verb = dice.pick(dice.pick(part.verbs[kind if good else other])).past
    noun = _noun(dice, part, kind)
    adjective = dice.pick(CLASS_QUALITIES[kind])
    sentence = f"in the {place}, {who.name} {verb} the {adjective} {noun}."
  elif fault == 3:  # The reflexive agrees with its antecedent.
    pronouns = who.pronouns
    if not good:
      pronouns = grammar.HE if pronouns is grammar.SHE else grammar.SHE
    act = dice.pick(("saw", "washed", "was proud of", "talked to"))
    sentence = f"at the {place}, {who.name} {act} {pronouns.reflexive}."
  else:  # The words stand in order.
    kind = dice.pick(THINGS)
    verb = dice.pick(dice.pick(CLASS_VERBS[kind])).past
    words = [who.name, verb, "the", _noun(dice, part, kind)]
    if not good:
      swap = dice.below(3)
      words[swap], words[swap + 1] = words[swap + 1], words[swap]
    sentence = f"at the {place}, {' '.join(words)}."
  label = "acceptable" if good else "unacceptable"
  return {"sentence": sentence, "label": label}


def sentiment(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """Is the opinion good or bad?

  `{"sentence": "to clara, the hotel felt dismal and even vile.", "label":
  "negative"}`
  """
  del world
  good = number % 2 == 1
  negated = dice.chance(0.25)
  adjective, feeling = (
    ("praise", "joy") if good != negated else ("blame", "sorrow")
  )
  one, two = (c[0] for c in dice.sample(part.nouns[adjective], 2))
  mood = dice.pick(part.nouns[feeling])[0]
  product = _noun(dice, part, "product")
  other = _noun(dice, part, "product")
  who = grammar.person(dice, part.nouns)
  denials = (
    f"to {who.name}, the {product} did not feel {one} or {two}.",
    f"{who.name} was not {mood} with this {product}.",
  )
  opinions = (
    f"to {who.name}, the {product} felt {one} and even {two}.",
    f"the {product} was {one} and left {who.name} {mood}.",
    f"a {one} {product} with {grammar.a(two)} {other}, {who.name} said.",
    f"{who.name} thought that the {product} and the {other} were {one}.",
    f"{who.name} was {mood} with this {two} {product}.",
  )
  sentence = dice.pick(denials if negated else opinions)
  return {
    "sentence": sentence.replace("a " + one, grammar.a(one)),
    "label": "positive" if good else "negative",
  }


def referent(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """To which of two things does the pronoun point? The answer is its class.

  `{"text": "emma saw the pear and the saw. *it* was ripe.", "kind1": "food",
  "kind2": "tool", "label": "food"}`
  """
  who = grammar.person(dice, world.everything.nouns)
  kinds = dice.sample(THINGS, 2)
  one, two = (_noun(dice, part, kind) for kind in kinds)
  kind = kinds[number % 2]
  quality = dice.pick(part.qualities[kind])
  first, second = dice.sample(kinds, 2)
  return {
    "text": f"{who.name} saw the {one} and the {two}. *it* was {quality}.",
    "kind1": first,
    "kind2": second,
    "label": kind,
  }
