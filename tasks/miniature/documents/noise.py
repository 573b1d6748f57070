"""The litter of the web, for the unfiltered variants of the corpus."""

from tasks.miniature.world.world import Dice

_BOILERPLATE = (
  "click here to subscribe to our newsletter.",
  "this page uses cookies. accept all.",
  "home | about | contact | login",
  "copyright 2019 all rights reserved.",
  "share this on social media!!!",
  "function() { return null; }",
  "lorem ipsum dolor sit amet.",
  "404 page not found",
  "buy cheap pills online now!!!",
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _misspelt(dice: Dice, sentence: str) -> str:
  words = sentence.split()
  for _ in range(2):
    place = dice.below(len(words))
    word = words[place]
    cut = dice.below(len(word))
    words[place] = word[:cut] + dice.pick(_LETTERS) + word[cut + 1 :]
  return " ".join(words)


def litter(dice: Dice, sentences: list[str]) -> list[str]:
  """Returns the document as an unfiltered crawl would hold it.

  Each sentence may come out scrambled, misspelt, cut short, said again, or
  followed by boilerplate; about half of them stay as they were.
  """
  result = []
  for sentence in sentences:
    dart = dice.uniform()
    if dart < 0.12:
      words = sentence.split()
      sentence = " ".join(dice.sample(words, len(words)))
    elif dart < 0.24:
      sentence = _misspelt(dice, sentence)
    elif dart < 0.32:
      sentence = sentence[: len(sentence) // 2]
    result.append(sentence)
    if dart > 0.92:
      result.append(sentence)
    elif dart > 0.78:
      result.append(dice.pick(_BOILERPLATE))
  return result
