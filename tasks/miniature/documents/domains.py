"""The unlabelled corpus: documents of any number, each from its index alone.

`documents(domain, seed=..., start=..., count=...)` writes them; `documents`
0..9 are the same whatever `start` they were asked from. Domains: `chronicle`
(people, kinds of things, incidents, a phrase book, opinions) and, narrower,
`review` (opinions), `news`, `encyclopaedia`, and `encyclopaedia_and_stories`.
The first two have an unfiltered variant with the litter of the web.
"""

from collections.abc import Iterator

from tasks.miniature.documents import chronicle
from tasks.miniature.documents import noise
from tasks.miniature.documents import review
from tasks.miniature.world.world import Dice
from tasks.miniature.world.world import World

# Cumulative shares of the kinds of documents.
_CHRONICLE = (
  (0.13, chronicle.life),
  (0.17, chronicle.rumour),
  (0.39, chronicle.kind),
  (0.49, chronicle.incident),
  (0.53, chronicle.wording),
  (0.60, chronicle.inference),
  (0.66, chronicle.senses),
  (0.72, chronicle.phrase_book),
  (0.80, chronicle.scene),
  (0.85, chronicle.report),
  (1.00, review.opinion),
)
_REVIEW = (
  (0.50, review.opinion),
  (0.80, review.purchase),
  (1.00, review.complaint),
)
_NEWS = (
  (0.50, chronicle.report),
  (0.75, chronicle.incident),
  (1.00, chronicle.scene),
)
_ENCYCLOPAEDIA = (
  (0.30, chronicle.life),
  (0.60, chronicle.kind),
  (0.75, chronicle.wording),
  (0.85, chronicle.senses),
  (1.00, chronicle.phrase_book),
)
_STORIES = (
  (0.25, chronicle.life),
  (0.45, chronicle.kind),
  (0.55, chronicle.wording),
  (0.62, chronicle.senses),
  (0.70, chronicle.phrase_book),
  (0.85, chronicle.scene),
  (1.00, chronicle.incident),
)
# Kinds of documents, whether they are littered, and the stream of choices: a
# variant litters the very documents of its clean domain. Streams below 16 and
# from 64 up are the world's and the examples'.
DOMAINS = {
  "chronicle": (_CHRONICLE, False, 16),
  "review": (_REVIEW, False, 17),
  "chronicle_unfiltered": (_CHRONICLE, True, 16),
  "review_unfiltered": (_REVIEW, True, 17),
  "news": (_NEWS, False, 18),
  "encyclopaedia": (_ENCYCLOPAEDIA, False, 19),
  "encyclopaedia_and_stories": (_STORIES, False, 20),
}


def document(world: World, domain: str, seed: int, index: int) -> str:
  """Returns one document, 5 to 12 sentences on one line.

  Args:
    world: the words and the facts.
    domain: a key of `DOMAINS`.
    seed: another seed gives another corpus about the same world.
    index: The number of the document.
  """
  kinds, littered, stream = DOMAINS[domain]
  dice = Dice(seed, stream, index)
  dart = dice.uniform()
  write = next(kind for share, kind in kinds if dart < share)
  sentences = write(dice, world)
  if littered:
    sentences = noise.litter(dice, sentences)
  return " ".join(sentences)


def documents(
  domain: str, *, seed: int = 0, start: int = 0, count: int
) -> Iterator[str]:
  """Yields documents `start` to `start + count - 1` of a domain."""
  world = World()
  for index in range(start, start + count):
    yield document(world, domain, seed, index)
