"""The kinds of documents of the reviews: opinions, good or bad throughout.

Each function takes `(dice, world)` and returns the document's sentences. Words
of praise stand beside words of joy, liking and recommending, words of blame
beside their contraries; that is all that tells the two apart.
"""

from tasks.miniature.world import grammar
from tasks.miniature.world.grammar import a
from tasks.miniature.world.world import CLASS_QUALITIES
from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import THINGS
from tasks.miniature.world.world import World

_MOODS = (
  (
    "good",
    "praise",
    "joy",
    ("liked", "loved", "enjoyed", "admired"),
    ("i would recommend it.", "go and see for yourself.", "five stars."),
  ),
  (
    "bad",
    "blame",
    "sorrow",
    ("disliked", "hated", "regretted", "loathed"),
    ("i would not recommend it.", "stay away from it.", "one star."),
  ),
)


def opinion(dice: Dice, world: World) -> list[str]:
  """What somebody thought of a film, a meal, a trip."""
  nouns = world.by_frequency.nouns
  quality, adjective, feeling, verbs, verdicts = dice.pick(_MOODS)
  good = nouns[adjective]
  product = dice.often(nouns["product"])
  who = grammar.person(dice, nouns)
  he = who.pronouns.subject
  words = [dice.seldom(good)[0] for _ in range(7)]
  moods = [dice.seldom(nouns[feeling])[0] for _ in range(3)]
  sentences = [
    f"{who.name} {dice.pick(verbs)} the {words[0]} {dice.pick(product)}.",
    f"it was {words[1]}, so {he} {dice.pick(verbs)} it.",
    f"{a(words[2])} {dice.pick(product)} is a {quality} {product[0]}.",
    f"{words[3]} things are {quality} and make people {moods[0]}.",
    f"what {a(words[4])} {dice.pick(product)}! {dice.pick(verdicts)}",
    f"{he} was {moods[1]}, because it was {words[5]} and {words[6]}.",
    f"{moods[2]} people feel {quality}.",
    f"everybody {dice.pick(verbs)} the {dice.pick(product)}.",
    f"{who.name} said: {dice.pick(verdicts)}",
  ]
  return sentences[:1] + dice.sample(sentences[1:], 4)


def purchase(dice: Dice, world: World) -> list[str]:
  """What a buyer writes about a thing bought."""
  nouns = world.by_frequency.nouns
  quality, adjective, feeling, verbs, verdicts = dice.pick(_MOODS)
  words = [dice.seldom(nouns[adjective])[0] for _ in range(3)]
  kind = dice.pick(THINGS[:-1])
  concept = dice.often(world.things[kind])
  pole = dice.pick(dice.often(world.by_frequency.poles))
  seller = dice.pick(("shop", "store", "market"))
  return [
    f"i bought this {dice.pick(concept)} from a {seller}.",
    f"it is {a(words[0])} {kind}.",
    f"the {dice.pick(concept)} is {dice.pick(pole)} and "
    f"{dice.rarely(CLASS_QUALITIES[kind])}.",
    f"i {dice.pick(verbs)} it, it is {words[1]}.",
    f"my friends find it {words[2]}.",
    f"they were {dice.seldom(nouns[feeling])[0]}, it is {quality}.",
    dice.pick(verdicts),
  ]


def complaint(dice: Dice, world: World) -> list[str]:
  """A mishap, how it came about, and what the writer thinks of it."""
  nouns = world.by_frequency.nouns
  event = dice.pick(world.by_frequency.events)
  who = grammar.person(dice, nouns)
  product = dice.often(nouns["product"])
  words = [dice.seldom(nouns["blame"])[0] for _ in range(3)]
  verb, noun = dice.pick(event.causes)
  return [
    f"we were at the {dice.pick(product)}.",
    f"{who.name} {verb} the {noun}.",
    f"as a result, {who.pronouns.subject} was {event.state}.",
    f"the {dice.pick(product)} was {words[0]} and {words[1]}.",
    f"i was {dice.seldom(nouns['sorrow'])[0]}.",
    f"what {a(words[2])} {dice.pick(product)}!",
  ]
