"""Rows that no benchmark has: what may go wrong in a task, in every field."""

import random
from typing import Any

import tensorflow_datasets as tfds

from tests.oracles.t5 import text_to_text_rows

_TEXTS = (
  "",
  " ",
  "one line\nand another",
  "a tab\tin it",
  " two  spaces  ",
  "naïve ☃ 漢字 🙂 e\u0301 \u200b \u00a0",
  "İ ß ǅ",
  "<br><b>bold</b>< br>",
  "back\\slash \\1 \\0 \\\\",
  "( * ) [ + ] {2} ? ^ $ |",
  "Bob's \"quote\" 'single'",
  " X Y X ",
  "A.\n@highlight\nB\n@highlight\nC'\n@highlight\nD!\n@highlight\n",
  "a zero \0 byte",
  "<unk> </s> <extra_id_0> <pad>",
  "He gave it to her, and she to him.",
)
_LABELS = (0, 1, -1, 2, 7, -2)


def odd_rows(dataset: str) -> list[dict[str, Any]]:
  """Returns rows of a TFDS dataset with odd texts and labels in every field."""
  spec = text_to_text_rows.features(dataset)
  count = 2 * len(_TEXTS)
  return [_fill(spec, number) for number in range(count)]


def damaged(
  rows: list[dict[str, Any]], count: int, seed: int = 0
) -> list[dict[str, Any]]:
  """Returns rows with a few characters or numbers of theirs changed."""
  generator = random.Random(seed)
  return [_damage(generator.choice(rows), generator) for _ in range(count)]


def _fill(feature: Any, number: int) -> Any:
  if isinstance(feature, tfds.features.FeaturesDict):
    return {
      name: _fill(inner, number + 5 * i)
      for i, (name, inner) in enumerate(feature.items())
    }
  if isinstance(feature, tfds.features.Sequence):
    length = feature.get_tensor_spec().shape[0]
    length = number % 4 if length is None else length
    return [_fill(feature.feature, number + i) for i in range(length)]
  if isinstance(feature, tfds.features.Text):
    return _TEXTS[number % len(_TEXTS)]
  if isinstance(feature, tfds.features.ClassLabel):
    return _LABELS[number % len(_LABELS)]
  return number % 5


def _damage(row: dict[str, Any], generator: random.Random) -> dict[str, Any]:
  new = dict(row)
  for name in generator.sample(sorted(row), k=min(2, len(row))):
    value = row[name]
    if isinstance(value, str):
      at = generator.randrange(len(value) + 1)
      until = at + generator.choice((0, 0, 1, 4))
      put = generator.choice(
        ("", " ", "  ", ".", ",", "?", "'s", "'", "\n", "\t", "\\", "(", "*")
        + (" it ", " her", "They ", " the ", "X", " X ", "é", "☃", "a.b")
      )
      new[name] = value[:at] + put + value[until:]
    elif isinstance(value, int):
      new[name] = value + generator.choice((-2, -1, 1, 2, 40))
  return new
