"""Answers that are a span of a context, over the windows of a question.

As google-research/bert's `run_squad.py`: the `N_BEST` best spans of at most
`LONGEST` pieces, and for SQuAD 2.0 the score of place 0, which says that there
is no answer. The question is unanswered where that score, the least over its
windows, exceeds the best span's by more than a threshold. Scores are sums of
two logits.
"""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any, ClassVar

import gin
import numpy as np
import scipy.special

from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.metrics import question_answering
from transformer_zoo.evaluation.scorers import heads
from transformer_zoo.evaluation.scorers.interface import Row

N_BEST = 20
LONGEST = 30


@gin.register
@dataclasses.dataclass(frozen=True)
class SpanScorer(heads.HeadScorer):
  """The best span of a context, or none.

  Attributes:
    null_threshold: The threshold, where questions may have no answer. None is
      the one with the highest F1 on the questions that are scored, which is
      what SQuAD 2.0 reports as its best F1; 0 where nothing can be tuned.
  """

  null_threshold: float | None = None
  reads_places: ClassVar[bool] = True

  def row(self, form, text, logits_PK, features, length):
    """As `HeadScorer.row`: of one window, with its `spans`, the best first."""
    del form
    log_probs = scipy.special.log_softmax(logits_PK[:length], axis=0)
    ends = [int(features[name]) for name in ("answer_starts", "answer_ends")]
    log_likelihood = (log_probs[ends[0], 0] + log_probs[ends[1], 1]) / 2
    is_right = ends == [int(np.argmax(log_probs[:, i])) for i in (0, 1)]
    return {
      "log_likelihood": float(log_likelihood),
      "correct_tokens": int(is_right),
      "target_tokens": 1,
      "null_score": float(logits_PK[0].sum()),
      "spans": _best_spans(logits_PK, text),
    }

  def joined(self, task, examples, rows):
    """As `Scorer.joined`: the windows of a question are one."""
    questions: dict[int, list[int]] = {}
    for i, example in enumerate(examples):
      questions.setdefault(example["window"]["example"], []).append(i)
    found = [[rows[i] for i in windows] for windows in questions.values()]
    asked = [examples[windows[0]] for windows in questions.values()]
    no_answer = task.form.get("no_answer")
    best = [self.best_of_windows(windows) for windows in found]
    threshold = None
    if no_answer is not None:
      threshold = self.null_threshold
      if threshold is None:
        threshold = _tuned(asked, best)
    joined = []
    for windows, row in zip(found, best, strict=True):
      if threshold is not None and row["null_score"] > threshold:
        row["prediction"] = no_answer
      for name in ("log_likelihood", "correct_tokens", "target_tokens"):
        row[name] = sum(window[name] for window in windows)
      if threshold is not None:
        row["null_threshold"] = threshold
      joined.append(row)
    return asked, joined

  def best_of_windows(self, windows: Sequence[Row]) -> Row:
    """Joins the spans of a question; `null_score` is relative to the best."""
    return _best_of_windows(windows)


@gin.register
@dataclasses.dataclass(frozen=True)
class SpanBeamScorer(SpanScorer):
  """The best span of a beam of starts and ends (`modules.span_beam`).

  The score of a span is the sum of the log-probabilities of its start and,
  given that, of its end. `null_score` is the logit of no answer, the least over
  the windows: 0 is a chance of one half.

  Attributes:
    num_ends: The number of ends that are looked at for each start.
  """

  num_ends: int = 5

  head: ClassVar[str] = "span_beam"

  def __post_init__(self):
    if self.num_ends < 1:
      raise UserError(
        f"SpanBeamScorer.num_ends is {self.num_ends}; it must be at least 1"
      )

  def row(self, form, text, logits_PK, features, length):
    """As `SpanScorer.row`."""
    del form
    log_probs = scipy.special.log_softmax(logits_PK[:length, :-1], axis=0)
    starts = np.argsort(-logits_PK[:, 0], kind="stable")
    starts = starts[: logits_PK.shape[1] - 2]
    first, last = (
      int(features[name]) for name in ("answer_starts", "answer_ends")
    )
    # The end is only known given one of the starts that were looked at.
    given = np.flatnonzero(starts == first)
    end = log_probs[last, 1 + given[0]] if len(given) else 0.0
    best_end = int(np.argmax(log_probs[:, 1]))
    return {
      "log_likelihood": float(log_probs[first, 0] + end) / 2,
      "correct_tokens": int(starts[0] == first and best_end == last),
      "target_tokens": 1,
      "null_score": float(logits_PK[0, -1]),
      "spans": _spans_of_beam(log_probs, starts, self.num_ends, text),
    }

  def best_of_windows(self, windows: Sequence[Row]) -> Row:
    """Joins the spans of a question; `null_score` is the least."""
    null = min(window["null_score"] for window in windows)
    return {**_best_of_windows(windows), "null_score": null}


def _spans_of_beam(
  log_probs: np.ndarray,
  starts: np.ndarray,
  num_ends: int,
  text: Mapping[str, Any],
) -> list[dict]:
  """Returns the best spans of a window, as `_best_spans`."""
  first, pieces = text["window"]["place"], text["window"]["pieces"]
  spans = []
  for column, start in enumerate(starts.tolist(), 1):
    ends = np.argsort(-log_probs[:, column], kind="stable")[:num_ends]
    for end in ends.tolist():
      inside = first <= start <= end < first + pieces
      if inside and end - start < LONGEST:
        score = float(log_probs[start, 0] + log_probs[end, column])
        spans.append(_span(text, score, start - first, end - first))
  return sorted(spans, key=lambda span: -span["score"])[:N_BEST]


def _span(text: Mapping[str, Any], score: float, start: int, end: int) -> dict:
  """A span of pieces of a window, the last one included."""
  offset = text["window"]["start"]
  begin = int(text["piece_starts"][offset + start])
  words = text["context"][begin : text["piece_ends"][offset + end]]
  return {"score": score, "text": words, "start": begin}


def _best_spans(logits_P2: np.ndarray, text: Mapping[str, Any]) -> list[dict]:
  """Returns the best spans of a window: their score and text."""
  window = text["window"]
  first = window["place"]
  starts, ends = logits_P2[first : first + window["pieces"]].T
  if not len(starts):
    return []
  # [start, length]: a span of a length that the window lacks is never chosen.
  lengths = min(LONGEST, len(starts))
  padded = np.pad(ends, (0, lengths - 1), constant_values=-np.inf)
  scores = starts[:, None] + np.lib.stride_tricks.sliding_window_view(
    padded, lengths
  )
  most = min(N_BEST, scores.size)
  chosen = np.argpartition(-scores, most - 1, axis=None)[:most]
  chosen = chosen[np.argsort(-scores.flat[chosen], kind="stable")]
  spans = []
  for flat in chosen.tolist():
    start, length = divmod(flat, lengths)
    score = scores[start, length]
    if not np.isfinite(score):
      continue
    spans.append(_span(text, float(score), start, start + length))
  return spans


def _best_of_windows(windows: Sequence[Row]) -> Row:
  """Joins the spans of a question; `null_score` is relative to the best."""
  spans = sorted(
    (span for window in windows for span in window["spans"]),
    key=lambda span: -span["score"],
  )
  distinct = list({span["text"]: span for span in reversed(spans)}.values())
  distinct = sorted(distinct, key=lambda span: -span["score"])[:N_BEST]
  null = min(window["null_score"] for window in windows)
  best = distinct[0] if distinct else {"score": null, "text": ""}
  return {
    "prediction": best["text"],
    "null_score": null - best["score"],
    "spans": distinct,
  }


def _tuned(examples: Sequence[Mapping[str, Any]], best: Sequence[Row]) -> float:
  """Returns the threshold with the highest F1, 0 where none has an answer.

  `find_best_thresh` of SQuAD 2.0's `evaluate-v2.0.py`.
  """
  answers = [list(example["answers"]) for example in examples]
  if all(answers) or not any(answers):
    return 0.0
  gains = np.array(
    [
      question_answering.squad_v2([accepted], [row["prediction"]])["f1"]
      - question_answering.squad_v2([accepted], [""])["f1"]
      for accepted, row in zip(answers, best, strict=True)
    ]
  )
  nulls = np.array([row["null_score"] for row in best])
  order = np.argsort(nulls, kind="stable")
  # Answering the first n of this order gains the sum of their gains; equal
  # scores are answered together.
  totals = np.append(0.0, np.cumsum(gains[order]))
  last = np.append(True, np.append(np.diff(nulls[order]) > 0, True))
  chosen = int(np.argmax(np.where(last, totals, -np.inf)))
  if not chosen:
    return float(nulls[order[0]] - 1.0)
  return float(nulls[order[chosen - 1]])
