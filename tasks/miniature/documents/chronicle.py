"""The kinds of documents of the chronicle: what an encyclopaedia would tell.

Each function takes `(dice, world)` and returns the document's sentences. They
are about one or two people, things or words, whose names come again: a gap is
filled sometimes from the text and sometimes from knowledge. They state what
the tasks turn on (classes, synonyms, opposites, causes, genders, senses, what
is done to what) in several wordings. None has the form of a task's example.
"""

from tasks.miniature.world import grammar
from tasks.miniature.world.grammar import a
from tasks.miniature.world.grammar import plural
from tasks.miniature.world.world import CLASS_ACTIONS
from tasks.miniature.world.world import CLASS_QUALITIES
from tasks.miniature.world.world import CLASS_VERBS
from tasks.miniature.world.world import COLOURS
from tasks.miniature.world.world import Concept
from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import SOCIAL
from tasks.miniature.world.world import THINGS
from tasks.miniature.world.world import TRANSLATED
from tasks.miniature.world.world import TRANSLATED_THINGS
from tasks.miniature.world.world import VERBS
from tasks.miniature.world.world import World


def _thing(dice: Dice, world: World) -> tuple[str, Concept]:
  kind = dice.pick(THINGS)
  return kind, dice.often(world.things[kind])


def _other(dice: Dice, kind: str) -> str:
  return dice.pick([name for name in THINGS if name != kind])


def life(dice: Dice, world: World) -> list[str]:
  """One person or two: role, town, work, a purchase; questions, answers."""
  nouns = world.by_frequency.nouns
  sentences, answers = [], []
  people = grammar.two_people(dice, nouns)[: 1 + dice.below(2)]
  for who in people:
    role = dice.pick(dice.pick(nouns["role"]))
    town = dice.pick(nouns["town"])[0]
    thing = dice.pick(_thing(dice, world)[1])
    place = dice.pick(dice.pick(nouns["place"]))
    buy = dice.pick(VERBS[0])
    facts = [
      (
        f"is {a(role)}",
        f"what is {who.name}? {a(role)}.",
        f"who is {a(role)}?",
      ),
      (
        f"lives in {town}",
        f"where does {who.name} live? in {town}.",
        f"who lives in {town}?",
      ),
      (
        f"{buy.past} the {thing}",
        f"what did {who.name} {buy.base}? the {thing}.",
        f"who {buy.past} the {thing}?",
      ),
      (
        f"works at the {place}",
        f"where does {who.name} work? at the {place}.",
        f"who works at the {place}?",
      ),
    ]
    told = dice.sample(facts, 4 - len(people))
    for number, (fact, what, whose) in enumerate(told):
      named = number == 0 or dice.chance(0.7)
      subject = who.name if named else who.pronouns.subject
      sentences.append(f"{subject} {fact}.")
      answers.append(what if dice.chance(0.7) else f"{whose} {who.name}.")
  return sentences + dice.sample(answers, 3)


def rumour(dice: Dice, world: World) -> list[str]:
  """Somebody's words, told again by others."""
  nouns = world.by_frequency.nouns
  name, concept = _thing(dice, world)
  who = grammar.person(dice, nouns)
  verb = grammar.deed(dice, name).past
  noun = grammar.described(dice, name, dice.pick(concept))
  news = f"{who.name} {verb} the {noun}"
  if dice.chance(0.5):
    news += f" in {dice.pick(nouns['town'])[0]}"
  first, second = grammar.two_people(dice, nouns)
  sentences = [
    f"{first.name} told {second.name} that {news}.",
    f"{second.name} told everybody that {news}.",
    f"was it true that {news}? yes.",
    f"in fact, {news}.",
    f"who {verb} the {noun}? {who.name}.",
    f"what did {first.name} tell {second.name}? that {news}.",
  ]
  return dice.sample(sentences, 3)


def kind(dice: Dice, world: World) -> list[str]:
  """One kind of thing: its class, its kin, its looks, its synonyms."""
  name, concept = _thing(dice, world)
  one, two = dice.pick(concept), dice.pick(concept)
  kin = [dice.pick(dice.often(world.things[name])) for _ in range(3)]
  other = _other(dice, name)
  sentences = [
    f"{a(one)} is {a(name)}.",
    f"what is {a(two)}? {a(name)}.",
    f"{plural(one)} and {plural(kin[0])} are {plural(name)}.",
    f"like the {kin[1]} and the {kin[2]}, the {two} is a kind of {name}.",
    f"{a(two)} is {a(name)}, not {a(other)}.",
    f"some {plural(two)} are {dice.rarely(CLASS_QUALITIES[name])}.",
    f"this {one} is {dice.rarely(CLASS_QUALITIES[name])}.",
    f"people often {dice.pick(dice.rarely(CLASS_VERBS[name])).base} "
    f"{plural(one)}.",
    f"nobody can {dice.pick(dice.rarely(CLASS_VERBS[name])).base} "
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
  """What befell somebody, why, and whether it was good; questions, answers."""
  event = dice.often(world.by_frequency.events)
  nouns = world.by_frequency.nouns
  who = grammar.person(dice, nouns)
  verb, noun = dice.pick(event.causes)
  he, him = who.pronouns.subject, who.pronouns.object
  feel = dice.seldom(nouns["joy" if event.good else "sorrow"])[0]
  quality = "good" if event.good else "bad"
  told = dice.pick(
    (
      [f"{who.name} {verb} the {noun}, so {he} was {event.state}."],
      [f"{he} was {event.state}, because {who.name} {verb} the {noun}."],
      [
        f"{who.name} {verb} the {noun}.",
        f"as a result, {who.name} was {event.state}.",
      ],
    )
  )
  more = [
    f"the {noun} was {quality} for {who.name}.",
    f"it is {quality} to be {event.state}.",
    f"{who.name} was {feel}, because of the {noun}.",
    f"{who.name} was {event.state} and {feel}.",
    f"why was {who.name} {event.state}? because of the {noun}.",
    f"who was {event.state}? {who.name}.",
    f"{he} said: how {quality} for {him}, the {noun}!",
  ]
  return told + dice.sample(more, 4)


def wording(dice: Dice, world: World) -> list[str]:
  """The same, or not the same, told twice; words and their opposites."""
  sentences = []
  nouns = world.by_frequency.nouns
  _, concept = _thing(dice, world)
  pole = dice.often(world.by_frequency.poles)
  words, opposite = pole if dice.chance(0.5) else (pole[1], pole[0])
  verb = dice.often(VERBS)
  slots = [[v.past for v in verb], words, concept]
  said = [dice.pick(forms) for forms in slots]
  again = list(said)
  place = dice.below(3)
  same = dice.chance(0.5)
  if same:
    again[place] = dice.pick(slots[place])
  else:
    others = (
      [v.past for v in dice.often(VERBS)],
      opposite,
      _thing(dice, world)[1],
    )
    again[place] = dice.pick(others[place])
    same = again[place] in slots[place]
  first, second = grammar.two_people(dice, nouns)
  for who, (did, how, what) in ((first, said), (second, again)):
    sentences.append(f"{who.name} {did} the {how} {what}.")
  sentences.append("they did the same." if same else "it was not the same.")
  one, two = dice.sample(words, 2) if len(words) > 1 else words * 2
  no = dice.pick(opposite)
  sentences += [
    f"{one} means {two}.",
    f"what is {one} is {two}.",
    f"what is {two} cannot be {no}.",
    f"the opposite of {one} is {no}.",
    f"{dice.pick(verb).base} means {dice.pick(verb).base}.",
    f"{dice.pick(concept)} means {dice.pick(concept)}.",
  ]
  return sentences[:3] + dice.sample(sentences[3:], 3)


def inference(dice: Dice, world: World) -> list[str]:
  """What follows from a sentence, what does not, and what nobody knows."""
  who = grammar.person(dice, world.by_frequency.nouns)
  name, concept = _thing(dice, world)
  noun = dice.pick(concept)
  poles = world.by_frequency.poles
  words, opposite = dice.sample(dice.often(poles), 2)
  how = dice.pick(words)
  verb = dice.pick(dice.often(VERBS)).past
  unsaid = dice.pick(dice.pick(dice.pick([p for p in poles if words not in p])))
  sentences = [
    f"it was {dice.pick(words)}.",
    f"it was not {dice.pick(opposite)}.",
    f"was it {dice.pick(words)}? yes.",
    f"was it {dice.pick(opposite)}? no.",
    f"was it {unsaid}? nobody knows.",
    f"{who.name} {verb} {a(name)}.",
    f"was it {a(name)}? yes.",
    f"was it {a(_other(dice, name))}? no.",
    f"the {noun} is {a(name)}.",
  ]
  return [f"{who.name} {verb} the {how} {noun}.", *dice.sample(sentences, 6)]


def senses(dice: Dice, world: World) -> list[str]:
  """A word of two senses, used twice, and what was meant."""
  ambiguous = dice.seldom(world.by_frequency.ambiguous)
  word = ambiguous.word
  kinds = [dice.pick(ambiguous.senses) for _ in range(2)]
  people = grammar.two_people(dice, world.by_frequency.nouns)
  sentences = []
  for name, who in zip(kinds, people, strict=True):
    verb = dice.pick(dice.rarely(CLASS_VERBS[name])).past
    sentences.append(f"{who.name} {verb} the {word}.")
  if kinds[0] == kinds[1]:
    sentences.append(f"both are {plural(kinds[0])}.")
  else:
    sentences.append(f"one is {a(kinds[0])}, the other is {a(kinds[1])}.")
  for name, who in zip(kinds, people, strict=True):
    sentences.append(f"the {word} of {who.name} is {a(name)}.")
    quality = dice.rarely(CLASS_QUALITIES[name])
    sentences.append(f"the {quality} {word} is {a(name)}.")
  return sentences[:3] + dice.sample(sentences[3:], 3)


def phrase_book(dice: Dice, world: World) -> list[str]:
  """Words and phrases with their translation into the second language."""
  nouns = world.by_frequency.nouns
  words = world.second_language
  things = list(TRANSLATED_THINGS)
  sentences = []
  for _ in range(2):
    subject = dice.often(nouns["animal"])[0]
    thing = dice.often(nouns[dice.pick(things)])[0]
    verb = dice.pick(TRANSLATED)[0]
    if dice.chance(0.5):
      subject = dice.pick(COLOURS) + " " + subject
    if dice.chance(0.5):
      thing = dice.pick(COLOURS) + " " + thing
    foreign = grammar.in_second_language(words, subject, verb, thing)
    sentences.append(
      f"the {subject} {verb.past} the {thing}: in talu, {foreign}."
    )
    word = (subject if dice.chance(0.5) else thing).split()[-1]
    sentences.append(f"the talu word for {word} is {words[word]}.")
  return sentences


def scene(dice: Dice, world: World) -> list[str]:
  """Two people and two things, and who or what was meant."""
  nouns = world.by_frequency.nouns
  first, second = grammar.two_people(dice, nouns)
  name, concept = _thing(dice, world)
  other, beside = _thing(dice, world)
  noun, near = dice.pick(concept), dice.pick(beside)
  social = dice.pick(dice.often(SOCIAL)).past
  act = dice.pick(dice.pick(CLASS_ACTIONS["role"]))
  role = dice.pick(dice.often(nouns["role"]))
  mood = dice.seldom(nouns[dice.pick(("joy", "sorrow"))])[0]
  meant = first if dice.chance(0.5) else second
  quality = dice.rarely(CLASS_QUALITIES[name])
  sentences = [
    f"{first.name} {grammar.deed(dice, name).past} the {noun}.",
    f"the {noun} was near the {near}, and it was {quality}: the {noun}.",
    f"the {near} was {dice.rarely(CLASS_QUALITIES[other])}.",
    f"{second.name} saw {second.pronouns.reflexive} in the mirror.",
    f"{first.name} was proud of {first.pronouns.reflexive}.",
    f"these {plural(role)} {act.base} while this {role} {act.third}.",
    f"{second.name} {grammar.deed(dice, other).past} "
    f"{second.pronouns.possessive} {near}.",
    f"what was {quality}? the {noun}.",
  ]
  return [
    f"{first.name} {social} {second.name}, because "
    f"{meant.pronouns.subject} was {mood}.",
    *dice.sample(sentences, 4),
    f"who was {mood}? {meant.name}.",
  ]


def report(dice: Dice, world: World) -> list[str]:
  """News about one person, and the gist of it in the last sentence."""
  nouns = world.by_frequency.nouns
  who = grammar.person(dice, nouns)
  he, _, his, _ = who.pronouns
  role, town = dice.often(nouns["role"]), dice.often(nouns["town"])[0]
  name, concept = _thing(dice, world)
  deed = grammar.deed(dice, name)
  noun = grammar.described(dice, name, dice.pick(concept))
  feeling = dice.seldom(nouns[dice.pick(("joy", "sorrow"))])[0]
  middle = [
    f"the day was {dice.pick(('cold', 'hot', 'wet', 'dry'))}.",
    f"{he} {dice.pick(SOCIAL)[0].past} {his} neighbour.",
    f"{he} was {feeling} about it.",
    f"the {dice.pick(concept)} was {dice.rarely(CLASS_QUALITIES[name])}.",
    f"nobody in {town} was surprised.",
  ]
  return [
    f"{who.name} is {a(dice.pick(role))} from {town}.",
    *dice.sample(middle, 2),
    f"on that day {he} {deed.past} the {noun}.",
    *dice.sample(middle, 1),
    f"in short, {who.name} from {town} {deed.past} the {noun}.",
  ]
