"""Spans: the best of all windows, and when there is none."""

import types

import numpy as np
import pytest
import scipy.special

from tests.evaluation.scorers.heads_test import batch
from transformer_zoo.evaluation.scorers import spans

WORDS = "the cat sat on a mat".split()
CONTEXT = " ".join(WORDS)
STARTS = [0, 4, 8, 12, 15, 17]
ENDS = [3, 7, 11, 14, 16, 20]
PLACE = 4  # [CLS] where ? [SEP]


def window(number, start, pieces, count=2, example=0, answers=("mat",)):
  return {
    "context": CONTEXT,
    "piece_starts": STARTS,
    "piece_ends": ENDS,
    "answers": list(answers),
    "window": {
      "example": example,
      "number": number,
      "count": count,
      "start": start,
      "pieces": pieces,
      "place": PLACE,
    },
  }


def scored(texts, logits, no_answer=None, threshold=None, prompt_length=0):
  scorer = spans.SpanScorer(None, threshold)
  task = types.SimpleNamespace(form={"no_answer": no_answer})
  rows = scorer.rows(
    task,
    batch(
      texts,
      [PLACE + text["window"]["pieces"] + 1 for text in texts],
      prompt_length,
      answer_starts=np.full(len(texts), prompt_length),
      answer_ends=np.full(len(texts), prompt_length + 2),
    ),
    logits,
  )
  return rows, scorer.joined(task, texts, rows)


def random_logits(number, length=12):
  return np.random.RandomState(0).randn(number, length, 2)


def test_a_prompt_before_a_window_changes_nothing():
  texts = [window(0, 0, 4), window(1, 2, 4)]
  logits = random_logits(2)
  behind = np.concatenate([np.full((2, 3, 2), 9.0), logits], axis=1)
  assert scored(texts, behind, prompt_length=3) == scored(texts, logits)


def test_the_best_span_of_all_windows():
  texts = [window(0, 0, 4), window(1, 2, 4)]
  logits = random_logits(2)
  rows, (examples, joined) = scored(texts, logits)
  expected = {}
  for text, each in zip(texts, logits, strict=True):
    inside = text["window"]
    for first in range(inside["pieces"]):
      for last in range(first, inside["pieces"]):
        score = each[PLACE + first, 0] + each[PLACE + last, 1]
        places = first + inside["start"], last + inside["start"]
        words = CONTEXT[STARTS[places[0]] : ENDS[places[1]]]
        expected[words] = max(score, expected.get(words, -np.inf))
  best = sorted(expected, key=expected.get, reverse=True)
  assert len(examples) == len(joined) == 1
  assert joined[0]["prediction"] == best[0]
  found = joined[0]["spans"]
  assert [span["text"] for span in found] == best[: spans.N_BEST]
  assert found[0]["score"] == pytest.approx(expected[best[0]])
  nulls = logits[:, 0].sum(axis=1)
  assert joined[0]["null_score"] == pytest.approx(
    nulls.min() - expected[best[0]]
  )
  log_probs = scipy.special.log_softmax(logits[:, : PLACE + 5], axis=1)
  assert joined[0]["log_likelihood"] == pytest.approx(
    (log_probs[:, 0, 0] + log_probs[:, 2, 1]).sum() / 2
  )
  assert joined[0]["target_tokens"] == 2
  assert rows[0]["null_score"] == pytest.approx(nulls[0])
  # Both ends are right, one of them, none; the targets are the places 0 and 2.
  texts = [window(i, 0, 4, count=3) for i in range(3)]
  logits = np.zeros((3, 12, 2))
  logits[[0, 1, 2], [0, 0, 3], 0] = logits[[0, 1, 2], [2, 3, 3], 1] = 5.0
  rows, _ = scored(texts, logits)
  assert [row["correct_tokens"] for row in rows] == [1, 0, 0]


def test_no_span_is_longer_than_the_longest(monkeypatch):
  monkeypatch.setattr(spans, "LONGEST", 2)
  logits = np.full((1, 12, 2), -5.0)
  logits[0, PLACE, 0] = logits[0, PLACE + 3, 1] = 5.0
  _, (_, joined) = scored([window(0, 0, 6, 1)], logits)
  found = [span["text"] for span in joined[0]["spans"]]
  assert "the cat sat on" not in found
  assert max(len(text.split()) for text in found) == 2


@pytest.mark.parametrize("threshold", [-100.0, 100.0])
def test_a_threshold_decides_whether_there_is_an_answer(threshold):
  _, (_, joined) = scored(
    [window(0, 0, 6, 1)], random_logits(1), "unanswerable", threshold
  )
  assert (joined[0]["prediction"] == "unanswerable") == (threshold < 0)
  assert joined[0]["null_threshold"] == threshold


def test_the_threshold_has_the_highest_f1():
  """Of all that can be told apart; here by looking at each of them."""
  random = np.random.RandomState(1)
  texts, logits = [], []
  for i in range(40):
    has = random.rand() < 0.5
    answers = ["cat", "the cat"] if has else []
    texts.append(window(0, 0, 6, 1, example=i, answers=answers))
    each = random.randn(12, 2)
    if has:
      each[PLACE + 1] += 2.0
    else:
      each[0] += 1.5
    logits.append(each)
  logits = np.array(logits)

  def f1(threshold):
    _, (examples, joined) = scored(texts, logits, "unanswerable", threshold)
    predictions = [
      "" if row["prediction"] == "unanswerable" else row["prediction"]
      for row in joined
    ]
    answers = [example["answers"] for example in examples]
    return spans.question_answering.squad_v2(answers, predictions)["f1"]

  _, (_, joined) = scored(texts, logits, "unanswerable")
  tuned = joined[0]["null_threshold"]
  candidates = [row["null_score"] for row in joined]
  assert f1(tuned) == max(map(f1, [*candidates, min(candidates) - 1]))
  assert f1(tuned) > f1(0.0) - 1e-9


def test_a_context_without_pieces_has_no_answer():
  _, (_, joined) = scored([window(0, 0, 0, 1)], random_logits(1))
  assert joined[0]["prediction"] == "" and joined[0]["spans"] == []
