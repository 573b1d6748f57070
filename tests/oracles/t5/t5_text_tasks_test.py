"""Questions, translation and summaries against the t5 package, row by row.

As `t5_package_test`, for data sets with nested features.
"""

import random
from typing import Any

import pytest

from tests.oracles.t5 import odd_rows
from tests.oracles.t5 import row_by_row
from tests.oracles.t5 import text_to_text_rows

_SQUAD_TASKS = (
  "squad_v010_allanswers",
  "squad_v010_context_free",
  "squad_v010_allanswers_span",
)
_TRANSLATIONS_AND_SUMMARIES = [
  ("wmt14_ende_v003", "wmt14_translate/de-en:1.0.0"),
  ("wmt14_enfr_v003", "wmt14_translate/fr-en:1.0.0"),
  ("wmt15_enfr_v003", "wmt15_translate/fr-en:1.0.0"),
  ("wmt16_enro_v003", "wmt16_translate/ro-en:1.0.0"),
  ("wmt19_ende_v003", "wmt19_translate/de-en:1.0.0"),
  ("wmt_t2t_ende_v003", "wmt_t2t_translate/de-en:1.0.0"),
  ("cnn_dailymail_v002", "cnn_dailymail:3.4.0"),
]
# What damages a text: spaces, signs and letters of every kind.
_PIECES = (
  "",
  " ",
  "  ",
  "\t",
  "\n",
  "\v",
  "\u00a0",
  "\u200b",
  "\u2028",
  ".",
  "-",
  "'",
) + (
  "“",
  "(",
  "[",
  "\\",
  "*",
  "_",
  "$",
  "é",
  "İ",
  "☃",
  "漢字",
  "🙂",
  "a",
  "A 1",
)


@pytest.mark.parametrize("task", _SQUAD_TASKS)
def test_splits_of_squad(task, t5_package, shared_data):
  """All of validation; of train a part: t5 finds spans ten times as slowly."""
  for split in ("train[:15%]", "validation"):
    request = {"task": task, "dataset": "squad/v1.1:3.0.0", "split": split}
    count, _ = row_by_row.compare(request, t5_package, shared_data)
    assert count > 10_000


@pytest.mark.parametrize("task", _SQUAD_TASKS)
def test_damaged_rows_of_squad(task, t5_package, shared_data):
  rows = _squad_rows(shared_data)
  generator = random.Random(0)
  damaged = []
  for _ in range(1_000):
    row = generator.choice(rows)
    texts = row["answers"]["text"]
    damaged.append(
      row
      | {
        "question": _damage(row["question"], generator),
        "context": _damage(row["context"], generator),
        "answers": {
          "text": [texts[0], *(_damage(text, generator) for text in texts)],
          "answer_start": row["answers"]["answer_start"],
        },
      }
    )
  request = {"task": task, "dataset": "squad/v1.1:3.0.0", "rows": damaged}
  count, failed = row_by_row.compare(request, t5_package, shared_data)
  assert not failed
  assert count > 200


def test_trivia_qa_over_passages_of_squad(t5_package, shared_data):
  rows = []
  for i, row in enumerate(_squad_rows(shared_data)):
    answers = {
      text.lower() for text in row["answers"]["text"] if _has_no_sign(text)
    }
    sources = {
      "entity_pages": {"wiki_context": [row["context"], row["question"]]},
      "search_results": {"search_context": [row["context"]] * (i % 2)},
    }
    rows.append(
      _filled("trivia_qa/rc:1.1.0", sources)
      | {"question": row["question"]}
      | {"answer": _answer(sorted(answers) + ["the", "no such words"])}
    )
  request = {
    "task": "trivia_qa_v010",
    "dataset": "trivia_qa/rc:1.1.0",
    "rows": rows,
  }
  count, failed = row_by_row.compare(request, t5_package, shared_data)
  assert not failed
  assert count > len(rows)


@pytest.mark.parametrize("task, dataset", _TRANSLATIONS_AND_SUMMARIES)
def test_odd_rows(task, dataset, t5_package, shared_data):
  rows = odd_rows.odd_rows(dataset)
  request = {"task": task, "dataset": dataset, "rows": rows}
  count, failed = row_by_row.compare(request, t5_package, shared_data)
  assert (count, failed) == (len(rows), 0)


def _squad_rows(shared_data) -> list[dict[str, Any]]:
  data_dir = str(shared_data / "tfds")
  dataset = "squad/v1.1:3.0.0"
  return text_to_text_rows.raw_rows(dataset, "validation", data_dir)[:500]


def _damage(text: str, generator: random.Random) -> str:
  for _ in range(3):
    at = generator.randrange(len(text) + 1)
    until = at + generator.choice((0, 0, 1, 4))
    text = text[:at] + generator.choice(_PIECES) + text[until:]
  return text


def _has_no_sign(text: str) -> bool:
  return all(c.isalnum() or c == " " for c in text)


def _filled(dataset: str, given: dict[str, dict[str, list[str]]]):
  """Returns the nested lists of a row, those not given filled up."""
  spec = text_to_text_rows.features(dataset).get_tensor_spec()
  row = {}
  for name, columns in given.items():
    (count,) = {len(values) for values in columns.values()}
    row[name] = {
      column: columns.get(column, [0 if inner.dtype.is_integer else ""] * count)
      for column, inner in spec[name].items()
    }
  return row | {"question_id": "", "question_source": ""}


def _answer(aliases: list[str]) -> dict[str, Any]:
  texts = dict.fromkeys(
    (
      "matched_wiki_entity_name",
      "normalized_matched_wiki_entity_name",
      "normalized_value",
      "type",
      "value",
    ),
    aliases[0],
  )
  return texts | {"aliases": aliases, "normalized_aliases": aliases}
