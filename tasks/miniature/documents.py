"""The unlabelled corpus: documents of any number, each from its index alone.

`documents(domain, seed=..., start=..., count=...)` writes them; `documents`
0..9 are the same whatever `start` they were asked from. Domains: `chronicle`
(people, kinds of things, incidents, a phrase book) and `review` (opinions).
Each has an unfiltered variant with the litter of the web.
"""

from collections.abc import Iterator

from tasks.miniature import chronicle
from tasks.miniature import noise
from tasks.miniature import review
from tasks.miniature.world import Dice
from tasks.miniature.world import World

# Cumulative shares of the kinds of documents.
_CHRONICLE = (
  (0.30, chronicle.life),
  (0.42, chronicle.kind),
  (0.50, chronicle.incident),
  (0.57, chronicle.wording),
  (0.61, chronicle.phrase_book),
  (0.67, chronicle.scene),
  (0.75, chronicle.report),
  (1.00, review.opinion),
)
_REVIEW = (
  (0.50, review.opinion),
  (0.80, review.purchase),
  (1.00, review.complaint),
)
DOMAINS = {
  "chronicle": (_CHRONICLE, False),
  "review": (_REVIEW, False),
  "chronicle_unfiltered": (_CHRONICLE, True),
  "review_unfiltered": (_REVIEW, True),
}
_FIRST_STREAM = 16  # the streams below are the world's and the examples'


def document(world: World, domain: str, seed: int, index: int) -> str:
  """Returns one document, 5 to 12 sentences on one line.

  Args:
    world: the words and the facts.
    domain: a key of `DOMAINS`.
    seed: another seed gives another corpus about the same world.
    index: which document.
  """
  kinds, littered = DOMAINS[domain]
  # A variant litters the very documents of its clean domain.
  stream = _FIRST_STREAM + domain.startswith("review")
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
