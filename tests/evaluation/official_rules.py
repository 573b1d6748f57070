"""The official rules of SQuAD 1.1 and 2.0 a second time, rows, bad answers.

Nothing of `transformer_zoo` is used here, and each rule is written another way
than there: characters by their class, articles word by word, the overlap by
crossing out. Sources: the text of the evaluation pages of both versions.
"""

import fractions
import random
import string

import pytest


def words(text):
  """Lower case, ASCII punctuation out, articles out, split at whitespace."""
  kept = [c for c in text.lower() if c not in set(string.punctuation)]
  runs, run = [], ""
  for character in [*kept, " "]:
    if character.isalnum() or character == "_":
      run += character
      continue
    runs.append(" " if run in ("a", "an", "the") else run)
    runs.append(character)
    run = ""
  return "".join(runs).split()


def overlap(expected, found):
  """F1 of two lists of words as an exact fraction, by crossing out."""
  left, same = list(expected), 0
  for word in found:
    if word in left:
      left.remove(word)
      same += 1
  if not same:
    return fractions.Fraction(0)
  return fractions.Fraction(2 * same, len(expected) + len(found))


def score_v1(answers, prediction):
  """(exact match, F1) of one question of SQuAD 1.1."""
  found = words(prediction)
  return (
    max(int(words(answer) == found) for answer in answers),
    max(overlap(words(answer), found) for answer in answers),
  )


def score_v2(answers, prediction):
  """(exact match, F1) of one question of SQuAD 2.0."""
  found = words(prediction)
  gold = [words(answer) for answer in answers if words(answer)]
  if not gold:
    return (int(not found), fractions.Fraction(int(not found)))
  if not found:
    return (0, fractions.Fraction(0))
  return (
    max(int(answer == found) for answer in gold),
    max(overlap(answer, found) for answer in gold),
  )


def mean(scores):
  """The mean of exact matches and of F1 in percent."""
  matches, overlaps = zip(*scores, strict=True)
  return {
    "em": float(100 * fractions.Fraction(sum(matches), len(scores))),
    "f1": float(100 * sum(overlaps) / len(scores)),
  }


VOCABULARY = (
  "the a an The An and of in Queen Élise 1066 1,066 U.S. $5 —  naïve “fox” "
  "o'clock Bob's anthem theme a.m. re-entry ﬁn ½ _id ’twas İzmir straße"
).split(" ")
_ODD = [
  "",
  " ",
  "the",
  "The  a",
  "$$$",
  "“",
  "—",
  "İ",
  "ß",
  "a.m.",
  "U.S.",
  "_",
]


def perturb(rng: random.Random, answers, context):
  """A prediction: an accepted answer, damaged in up to three ways."""
  text = rng.choice(answers) if answers else rng.choice(_ODD)
  for _ in range(rng.randrange(4)):
    parts = text.split(" ")
    where = rng.randrange(len(parts))
    match rng.randrange(14):
      case 0:
        del parts[where]
      case 1:
        parts.insert(where, rng.choice(["the", "A", "an", "theatre", "a-an"]))
      case 2:
        parts[where] = rng.choice([parts[where].upper(), parts[where].title()])
      case 3:
        parts[where] += rng.choice([".", ",", "'s", "’s", "…", "-", "–", "_"])
      case 4:
        parts[where] = rng.choice("\"'(“«[") + parts[where]
      case 5:
        parts.insert(where, parts[where])
      case 6:
        rng.shuffle(parts)
      case 7:
        parts[where] += rng.choice([" ", "\t", "\n", "\u00a0", "\u200b", "  "])
      case 8:
        parts = context.split(" ")[where : where + rng.randrange(1, 8)]
      case 9:
        parts[where] = rng.choice(_ODD)
      case 10:
        parts = []
      case 11:
        parts[where] = parts[where][: rng.randrange(len(parts[where]) + 1)]
      case 12:
        parts = ["-".join(parts)]
      case 13:
        parts.append(rng.choice(context.split(" ")))
    text = " ".join(parts)
  return text


def generated_rows(number):
  """(accepted answers, context), some answers with no word in them."""
  rng = random.Random(0)
  for _ in range(number):
    context = " ".join(rng.choices(VOCABULARY, k=rng.randrange(1, 30)))
    parts = context.split(" ")
    starts = rng.choices(range(len(parts)), k=rng.randrange(1, 5))
    answers = [" ".join(parts[s : s + rng.randrange(1, 6)]) for s in starts]
    yield answers, context


def real_rows(shared_data, number):
  """The same of SQuAD 1.1 validation."""
  tfds = pytest.importorskip("tensorflow_datasets")
  builder = tfds.builder("squad/v1.1", data_dir=shared_data / "tfds")
  dataset = builder.as_dataset(split="validation").shuffle(number, seed=0)
  for row in dataset.take(number).as_numpy_iterator():
    answers = [text.decode() for text in row["answers"]["text"]]
    yield answers, row["context"].decode()
