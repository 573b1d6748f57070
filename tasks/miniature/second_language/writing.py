"""Documents and examples in talu: the verb first, no articles.

the red fox saw the pie.      vudi lemo kapek nila.
the fox was an animal.        tova lemo zanum.
was it an animal? yes.        su zanum? dai.
"""

from collections.abc import Sequence
import functools

from tasks.miniature.documents import chronicle
from tasks.miniature.documents import review
from tasks.miniature.world import grammar
from tasks.miniature.world.world import COLOURS
from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import Part
from tasks.miniature.world.world import TRANSLATED
from tasks.miniature.world.world import TRANSLATED_THINGS
from tasks.miniature.world.world import World

KINDS = tuple(TRANSLATED_THINGS)
LABELS = ("entailment", "neutral", "contradiction")
# Was, is it, yes, nobody knows, no.
WAS, IS_IT = "tova", "su"
YES, UNKNOWN, NO = "dai", "soro", "nem"
# A choice of classes of documents; none of them has a word of talu.
_ENGLISH = (
  (0.15, chronicle.life),
  (0.40, chronicle.kind),
  (0.55, chronicle.incident),
  (0.65, chronicle.inference),
  (0.75, chronicle.scene),
  (0.90, chronicle.report),
  (1.00, review.opinion),
)
# Streams of choices that no other corpus of the suite has.
_STREAMS = {"english": 24, "talu": 25}


@functools.cache
def class_words(world: World) -> dict[str, str]:
  """Class of things -> its word in talu."""
  dice = Dice(world.seed, 3, 0)
  taken = set(world.second_language.values())
  words = {}
  for kind in KINDS:
    word = ""
    while not word or word in taken:
      word = dice.pick("bdgklmnprstvz") + dice.pick("aeiou")
      word += dice.pick("dgklmnprstvz") + "um"
    taken.add(word)
    words[kind] = word
  return words


def document(world: World, language: str, seed: int, index: int) -> str:
  """Returns one document on one line.

  Args:
    world: The words and the facts.
    language: "english" or "talu".
    seed: Another seed gives another corpus about the same world.
    index: The number of the document.
  """
  dice = Dice(seed, _STREAMS[language], index)
  if language == "talu":
    return " ".join(_of_talu(dice, world))
  dart = dice.uniform()
  write = next(kind for share, kind in _ENGLISH if dart < share)
  return " ".join(write(dice, world))


def _of_talu(dice: Dice, world: World) -> list[str]:
  """What somebody did to a thing, and what is known of both."""
  nouns = world.by_frequency.nouns
  words, classes = world.second_language, class_words(world)
  subject = dice.often(nouns["animal"])
  kind = dice.pick(KINDS)
  thing = dice.often(nouns[kind])
  colour = words[dice.pick(COLOURS)]
  looks = [words[look] for look in world.facts["look", thing]]
  unsaid = dice.pick([words[c] for c in COLOURS if words[c] != colour])
  other = dice.pick([k for k in KINDS if k != kind])
  verb = words[dice.pick(TRANSLATED)[0].past]
  deed = f"{verb} {words[subject[0]]} {words[thing[0]]}"
  sentences = [
    f"{WAS} {words[subject[0]]} {classes['animal']}.",
    f"{WAS} {words[thing[0]]} {classes[kind]}.",
    f"{WAS} {words[thing[0]]} {dice.pick(looks)}.",
    f"{IS_IT} {classes[kind]}? {YES}.",
    f"{IS_IT} {classes[other]}? {NO}.",
    f"{IS_IT} {unsaid}? {UNKNOWN}.",
    f"{IS_IT} {colour}? {YES}.",
  ]
  return [f"{deed} {colour}.", *dice.sample(sentences, 5)]


def entailment(
  dice: Dice, world: World, part: Part, number: int
) -> dict[str, str]:
  """Does the premise make the claim true, false, or neither? In two languages.

  `{"english": "the fox saw the red pie.", "claim": "a food", "talu": "vudi lemo
  nila kapek.", "talu_claim": "kolum", "label": "entailment"}`
  """
  words, classes = world.second_language, class_words(world)
  label = LABELS[number % 3]
  subject = dice.pick(part.nouns["animal"])[0]
  kind = dice.pick(KINDS)
  thing = dice.pick(part.nouns[kind])[0]
  verb = dice.pick(TRANSLATED)[0]
  colour, unsaid = dice.sample(COLOURS, 2)
  claimed = kind
  if label == "contradiction":
    claimed = dice.pick([other for other in KINDS if other != kind])
  claim, talu_claim = grammar.a(claimed), classes[claimed]
  if label == "neutral":
    claim, talu_claim = unsaid, words[unsaid]
  talu = grammar.in_second_language(words, subject, verb, f"{colour} {thing}")
  return {
    "english": f"the {subject} {verb.past} the {colour} {thing}.",
    "claim": claim,
    "talu": f"{talu}.",
    "talu_claim": talu_claim,
    "label": label,
  }


def documents(
  language: str, *, seed: int = 0, start: int = 0, count: int
) -> Sequence[str]:
  """Returns documents `start` to `start + count - 1` of a language."""
  world = World()
  return [
    document(world, language, seed, index)
    for index in range(start, start + count)
  ]
