"""The kinds of documents of the chronicle: what an encyclopaedia would tell.

Each function takes `(dice, world)` and returns the document's sentences. They
state in passing what the tasks turn on: classes, synonyms, opposites, causes,
genders, what is done to what. None has the form of a task's example.
"""

from tasks.miniature import grammar
from tasks.miniature.grammar import a
from tasks.miniature.grammar import plural
from tasks.miniature.world import CLASS_ACTIONS
from tasks.miniature.world import CLASS_QUALITIES
from tasks.miniature.world import CLASS_VERBS
from tasks.miniature.world import COLOURS
from tasks.miniature.world import Dice
from tasks.miniature.world import SOCIAL
from tasks.miniature.world import THINGS
from tasks.miniature.world import TRANSLATED
from tasks.miniature.world import VERBS
from tasks.miniature.world import World


def _thing(dice: Dice, world: World) -> tuple[str, tuple[str, ...]]:
  kind = dice.pick(THINGS)
  return kind, dice.pick(world.things[kind])


def life(dice: Dice, world: World) -> list[str]:
  """Somebody's life: role, town, work, a purchase; questions and answers."""
  nouns = world.everything.nouns
  who = grammar.person(dice, nouns)
  role = dice.pick(nouns["role"])
  town = dice.pick(nouns["town"])[0]
  kind, thing = _thing(dice, world)
  owned = grammar.described(dice, kind, dice.pick(thing))
  workplace = dice.pick(dice.pick(nouns["place"]))
  buy = dice.pick(VERBS[0])
  facts = [
    (f"lives in {town}", f"where does {who.name} live? in {town}."),
    (
      f"{buy.past} {a(owned)}",
      f"what did {who.name} {buy.base}? {a(owned)}.",
    ),
    (
      f"works at the {workplace}",
      f"where does {who.name} work? at the {workplace}.",
    ),
  ]
  told = dice.sample(facts, 3)
  subjects = [who.name, who.pronouns.subject, f"the {role[0]}"]
  sentences = [f"{who.name} is {a(role[0])}."]
  sentences += [f"{dice.pick(subjects)} {fact}." for fact, _ in told]
  answers = [answer for _, answer in facts]
  answers.append(f"what is {who.name}? {a(role[0])}.")
  return sentences + dice.sample(answers, 2)


def kind(dice: Dice, world: World) -> list[str]:
  """One kind of thing: its class, its kin, its looks, its synonyms."""
  name, concept = _thing(dice, world)
  one, two = dice.pick(concept), dice.pick(concept)
  kin = [dice.pick(dice.pick(world.things[name])) for _ in range(3)]
  other = dice.pick([t for t in THINGS if t != name])
  sentences = [
    f"{a(one)} is {a(name)}.",
    f"{plural(one)} and {plural(kin[0])} are {plural(name)}.",
    f"like the {kin[1]} and the {kin[2]}, the {two} is a kind of {name}.",
    f"{a(two)} is {a(name)}, not {a(other)}.",
    f"some {plural(two)} are {dice.pick(CLASS_QUALITIES[name])}.",
    f"this {one} is {dice.pick(CLASS_QUALITIES[name])}.",
    f"people often {dice.pick(dice.pick(CLASS_VERBS[name])).base} "
    f"{plural(one)}.",
    f"nobody can {dice.pick(dice.pick(CLASS_VERBS[name])).base} "
    f"these {plural(two)} every day.",
  ]
  fact = ("home", concept)
  if fact in world.facts:
    home = dice.pick(dice.pick(world.facts[fact]))
    sentences += [
      f"many {plural(two)} are found near the {home}.",
      f"{a(one)} is often {dice.pick(world.facts['look', concept])}.",
      f"most {plural(one)} are "
      f"{dice.pick(dice.pick(world.facts['pole', concept]))}.",
    ]
  if ("diet", concept) in world.facts:
    food = dice.pick(dice.pick(world.facts["diet", concept]))
    sentences += [f"{plural(one)} eat {plural(food)}."]
    sentences += [f"{a(two)} eats {plural(food)}."]
  if name in CLASS_ACTIONS:
    act = dice.pick(dice.pick(CLASS_ACTIONS[name]))
    sentences += [f"{a(one)} {act.third}.", f"the {plural(two)} {act.base}."]
  if one != two:
    sentences.append(f"{one} is another word for {two}.")
  return dice.sample(sentences, 6)


def incident(dice: Dice, world: World) -> list[str]:
  """Three causes and their effects, told in several orders."""
  sentences = []
  who = grammar.person(dice, world.everything.nouns)
  events = dice.sample(world.everything.events, 3)
  for place, event in enumerate(events):
    order = dice.below(4)
    named = place == 0 and order != 2, place == 0 and order == 2
    cause = grammar.fill(dice.pick(event.causes), who, by_name=named[0])
    effect = grammar.fill(dice.pick(event.effects), who, by_name=named[1])
    if order == 0:
      sentences.append(f"{cause}, so {effect}.")
    elif order == 1:
      sentences += [f"{cause}.", f"as a result, {effect}."]
    elif order == 2:
      sentences.append(f"{effect} because {cause}.")
    else:
      sentences += [f"{cause}.", f"then {effect}."]
  feeling = dice.pick(world.everything.nouns[dice.pick(("joy", "sorrow"))])
  sentences.append(f"in the end {who.name} was {feeling[0]}.")
  return sentences


def wording(dice: Dice, world: World) -> list[str]:
  """The same told twice in other words, and words with their opposites."""
  sentences = []
  nouns = world.everything.nouns
  for _ in range(2):
    name, concept = _thing(dice, world)
    pole = dice.pick(world.everything.poles)
    words, opposite = pole if dice.chance(0.5) else (pole[1], pole[0])
    verb = dice.pick(VERBS)
    who = grammar.person(dice, nouns)
    told = [
      f"{dice.pick(verb).past} {a(dice.pick(words) + ' ' + noun)}"
      for noun in (dice.pick(concept), dice.pick(concept))
    ]
    sentences += [
      f"{who.name} {told[0]}.",
      f"in other words, {who.name} {told[1]}.",
      f"the {dice.pick(concept)} was {dice.pick(words)}, "
      f"not {dice.pick(opposite)}.",
    ]
    one, two = dice.sample(words, 2) if len(words) > 1 else words * 2
    sentences.append(
      f"what is {one} is {two}."
      if dice.chance(0.5)
      else f"what is {one} cannot be {dice.pick(opposite)}."
    )
  return sentences


def phrase_book(dice: Dice, world: World) -> list[str]:
  """Words and phrases with their translation into the second language."""
  nouns = world.everything.nouns
  words = world.second_language
  things = nouns["animal"], nouns["food"]
  sentences = []
  for _ in range(3):
    subject = dice.pick(nouns["animal"])[0]
    thing = dice.pick(dice.pick(things))[0]
    verb = dice.pick(TRANSLATED)[0]
    if dice.chance(0.5):
      subject = dice.pick(COLOURS) + " " + subject
    if dice.chance(0.5):
      thing = dice.pick(COLOURS) + " " + thing
    foreign = grammar.in_second_language(words, subject, verb, thing)
    sentences.append(
      f"the {subject} {verb.past} the {thing}: in talu, {foreign}."
    )
  for _ in range(3):
    word = dice.pick(dice.pick(things))[0]
    sentences.append(f"the talu word for {word} is {words[word]}.")
  return sentences


def scene(dice: Dice, world: World) -> list[str]:
  """Two people and what they do to things and to each other."""
  nouns = world.everything.nouns
  first, second = grammar.two_people(dice, nouns)
  name, concept = _thing(dice, world)
  other, beside = _thing(dice, world)
  noun, near = dice.pick(concept), dice.pick(beside)
  social = dice.pick(dice.pick(SOCIAL)).past
  act = dice.pick(dice.pick(CLASS_ACTIONS["role"]))
  role = dice.pick(dice.pick(nouns["role"]))
  sentences = [
    f"{first.name} {grammar.deed(dice, name).past} the "
    f"{grammar.described(dice, name, noun)}.",
    f"{first.pronouns.subject} put it near the {near}, because it was "
    f"{dice.pick(CLASS_QUALITIES[name])}.",
    f"the {near} was {dice.pick(CLASS_QUALITIES[other])}.",
    f"{second.name} {social} {first.name}, because "
    f"{second.pronouns.subject} knew {first.pronouns.object}.",
    f"{second.name} saw {second.pronouns.reflexive} in the mirror.",
    f"then {first.name} was proud of {first.pronouns.reflexive}.",
    f"these {plural(role)} {act.base} while this {role} {act.third}.",
    f"{second.name} {grammar.deed(dice, other).past} "
    f"{first.pronouns.possessive} {near}.",
  ]
  return dice.sample(sentences, 6)


def report(dice: Dice, world: World) -> list[str]:
  """News about one person, and the gist of it in the last sentence."""
  nouns = world.everything.nouns
  who = grammar.person(dice, nouns)
  he, _, his, _ = who.pronouns
  role, town = dice.pick(nouns["role"]), dice.pick(nouns["town"])[0]
  name, concept = _thing(dice, world)
  deed = grammar.deed(dice, name)
  noun = grammar.described(dice, name, dice.pick(concept))
  feeling = dice.pick(nouns[dice.pick(("joy", "sorrow"))])[0]
  middle = [
    f"the day was {dice.pick(('cold', 'hot', 'wet', 'dry'))}.",
    f"{he} {dice.pick(SOCIAL)[0].past} {his} neighbour.",
    f"{he} was {feeling} about it.",
    f"the {dice.pick(concept)} was {dice.pick(CLASS_QUALITIES[name])}.",
    f"nobody in {town} was surprised.",
  ]
  return [
    f"{who.name} is {a(dice.pick(role))} from {town}.",
    *dice.sample(middle, 2),
    f"on that day {he} {deed.past} the {noun}.",
    *dice.sample(middle, 1),
    f"in short, {who.name} from {town} {deed.past} the {noun}.",
  ]
