"""Metrics of question answering by the rules of the official scorers.

`(targets, predictions) -> {name: value in percent}`, as in `metrics`. Sources:
the evaluation scripts of SQuAD 1.1 (Rajpurkar et al. 2016), SQuAD 2.0
(Rajpurkar et al. 2018), TriviaQA (Joshi et al. 2017), MultiRC (Khashabi et al.
2018) and ReCoRD (Zhang et al. 2018); the names of the values are as in
`t5/evaluation/metrics.py`.
"""

import collections
from collections.abc import Callable, Hashable, Mapping, Sequence
import re
import string
from typing import Any

import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.metrics import classification

_TRIVIA_QA_PUNCTUATION = string.punctuation + "‘’´`_"


def squad(
  targets: Sequence[Sequence[str]], predictions: Sequence[str]
) -> dict[str, float]:
  """Exact match and token F1 of SQuAD 1.1, the best over each one's answers.

  An empty answer (also one of articles and punctuation only) has F1 0 even
  against itself, as in the official script.

  Args:
    targets: all accepted answers of each question, at least one.
    predictions: one answer each.

  Returns:
    `em` and `f1`.

  Raises:
    ValueError: the lengths differ, or a question has no accepted answer.
  """
  return _best_over_answers(targets, predictions, normalize_squad)


def trivia_qa(
  targets: Sequence[Sequence[str]], predictions: Sequence[str]
) -> dict[str, float]:
  """Exact match and token F1 of TriviaQA.

  As `squad`, but punctuation becomes a space, and curly quotes are punctuation.

  Args:
    targets: all accepted answers of each question, at least one.
    predictions: one answer each.

  Returns:
    `em` and `f1`.

  Raises:
    ValueError: the lengths differ, or a question has no accepted answer.
  """
  return _best_over_answers(targets, predictions, _normalize_trivia_qa)


def squad_v2(
  targets: Sequence[Sequence[str]], predictions: Sequence[str]
) -> dict[str, float]:
  """Exact match and token F1 of SQuAD 2.0, with unanswerable questions.

  The empty prediction says that there is no answer. Where one of the two sides
  is empty after normalisation, F1 is 1 if both are, else 0.

  Args:
    targets: all accepted answers of each question; none if unanswerable.
    predictions: one answer each; empty for no answer.

  Returns:
    `em` and `f1` over all questions; of the answerable ones alone
    `has_answer_em` and `has_answer_f1`, of the others `no_answer_em` and
    `no_answer_f1`, each pair only where there are such questions
    (`averages.task_score` leaves these four out).

  Raises:
    ValueError: the lengths differ.
  """
  classification.check_lengths(targets, predictions)
  matches, overlaps, answerable = [], [], []
  for texts, prediction in zip(targets, predictions, strict=True):
    # An accepted answer with no word in it is none, officially.
    accepted = [a for a in map(normalize_squad, texts) if a] or [""]
    predicted = normalize_squad(prediction)
    matches.append(predicted in accepted)
    if predicted:
      overlaps.append(max(_token_f1(answer, predicted) for answer in accepted))
    else:
      overlaps.append(float(matches[-1]))
    answerable.append(len(texts) > 0)
  scores = _em_and_f1(matches, overlaps)
  for prefix, wanted in (("has_answer", True), ("no_answer", False)):
    where = [i for i, known in enumerate(answerable) if known == wanted]
    if where:
      part = _em_and_f1(
        [matches[i] for i in where], [overlaps[i] for i in where]
      )
      scores |= {f"{prefix}_{name}": value for name, value in part.items()}
  return scores


def span_squad(
  targets: Sequence[Mapping[str, Any]], predictions: Sequence[str]
) -> dict[str, float]:
  """Exact match and token F1 of SQuAD for predicted positions.

  A prediction such as `start: 3 end: 6` names the first and the last word of
  the answer, counted from 0 in the context with everything but letters, digits
  and underscores taken for a space. Any other prediction is the empty answer.

  Args:
    targets: {'answers': all accepted answers, 'context': the passage} each.
    predictions: one text each.

  Returns:
    `em` and `f1`.

  Raises:
    ValueError: the lengths differ, or a question has no accepted answer.
  """
  classification.check_lengths(targets, predictions)
  texts = [
    _text_at(positions(prediction), target["context"])
    for target, prediction in zip(targets, predictions, strict=True)
  ]
  return squad([target["answers"] for target in targets], texts)


def positions(text: str) -> tuple[int, int] | None:
  """Returns the first and last word that `start: 3 end: 6` names, else None.

  As in t5's `span_squad`: of the words of `text` the second and the fourth
  have to be whole numbers, whatever the others are.
  """
  words = re.sub(r"\W", " ", text).split()
  try:
    return int(words[1]), int(words[3])
  except (IndexError, ValueError):
    return None


def multirc(
  targets: Sequence[Mapping[str, Any]], predictions: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
  """F1 over all answers (F1a) and exact match per question of MultiRC.

  Args:
    targets: {'group': the question, 'value': 1 for a right answer, else 0} for
      each candidate answer.
    predictions: {'value': 0, 1, or -1 for neither, which is wrong} each;
      further keys are ignored.

  Returns:
    `f1`, and `exact_match`: the share of questions with every answer right.

  Raises:
    ValueError: the lengths differ.
  """
  classification.check_lengths(targets, predictions)
  questions = collections.defaultdict(list)
  for target, prediction in zip(targets, predictions, strict=True):
    right = target["value"] == prediction["value"]
    questions[group_of(target)].append(right)
  matches = [all(candidates) for candidates in questions.values()]
  f1 = classification.f1_score_with_invalid(
    [target["value"] for target in targets],
    [prediction["value"] for prediction in predictions],
  )
  return f1 | {"exact_match": classification.percentage(matches)}


def record(
  targets: Sequence[Mapping[str, Any]], predictions: Sequence[Any]
) -> dict[str, float]:
  """Exact match and token F1 of ReCoRD, each query counted once.

  Rows of one query are the same question with another target, so the first of
  them stands for all.

  Args:
    targets: {'group': the query, 'value': all accepted answers} each.
    predictions: one text each, or {'value': the text}.

  Returns:
    `em` and `f1`.

  Raises:
    ValueError: the lengths differ, or a query has no accepted answer.
  """
  classification.check_lengths(targets, predictions)
  queries = {}
  for target, prediction in zip(targets, predictions, strict=True):
    if isinstance(prediction, Mapping):
      prediction = prediction["value"]
    queries.setdefault(group_of(target), (target["value"], prediction))
  return squad(
    [accepted for accepted, _ in queries.values()],
    [prediction for _, prediction in queries.values()],
  )


def group_of(target: Mapping[str, Any]) -> Hashable:
  """Returns the group of a target; a JSON list or an array as a tuple."""
  group = target["group"]
  return tuple(group) if isinstance(group, (list, np.ndarray)) else group


def _text_at(span: tuple[int, int] | None, context: str) -> str:
  """Returns the words of `context` from the first to the last of `span`."""
  if span is None:
    return ""
  first, last = span
  return " ".join(re.sub(r"\W", " ", context).split()[first : last + 1])


def normalize_squad(text: str) -> str:
  """Returns an answer as SQuAD's scorers compare it."""
  return _normalize(text, string.punctuation, "")


def _normalize_trivia_qa(text: str) -> str:
  return _normalize(text, _TRIVIA_QA_PUNCTUATION, " ")


def _normalize(text: str, punctuation: str, replacement: str) -> str:
  """Lowers case and removes punctuation, articles and extra whitespace.

  The steps have the order of the official evaluation scripts.
  """
  text = "".join(
    replacement if character in punctuation else character
    for character in text.lower()
  )
  return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _token_f1(target: str, prediction: str) -> float:
  """Returns the F1 of the two bags of words, between 0 and 1."""
  target_words, predicted_words = target.split(), prediction.split()
  common = collections.Counter(target_words) & collections.Counter(
    predicted_words
  )
  num_same = sum(common.values())
  if not num_same:
    return 0.0
  precision = num_same / len(predicted_words)
  recall = num_same / len(target_words)
  return 2 * precision * recall / (precision + recall)


def _best_over_answers(
  targets: Sequence[Sequence[str]],
  predictions: Sequence[str],
  normalize: Callable[[str], str],
) -> dict[str, float]:
  """Returns exact match `em` and token `f1`, the best over the answers."""
  classification.check_lengths(targets, predictions)
  matches, overlaps = [], []
  for i, (texts, prediction) in enumerate(
    zip(targets, predictions, strict=True)
  ):
    if not len(texts):
      raise ValueError(
        f"question {i} has no accepted answer; question_answering.squad_v2 is "
        "the metric for questions without one"
      )
    predicted = normalize(prediction)
    accepted = [normalize(text) for text in texts]
    matches.append(predicted in accepted)
    overlaps.append(max(_token_f1(answer, predicted) for answer in accepted))
  return _em_and_f1(matches, overlaps)


def _em_and_f1(
  matches: Sequence[bool], overlaps: Sequence[float]
) -> dict[str, float]:
  return {
    "em": classification.percentage(matches),
    "f1": classification.percentage(overlaps),
  }


def natural_questions_recall(
  targets: Sequence[Sequence[Sequence[str]]],
  predictions: Sequence[Sequence[str]],
  *,
  min_annotators: int = 2,
) -> dict[str, float]:
  """The share of questions of which one annotator's answers are all given.

  Answers are compared as a set, normalised as SQuAD's.

  Args:
    targets: the answers of each annotator for each question.
    predictions: the answers given to each question.
    min_annotators: questions that fewer annotators answer do not count.

  Returns:
    `recall`, in percent.

  Raises:
    ValueError: the lengths differ.
    UserError: no question counts.
  """
  classification.check_lengths(targets, predictions)
  matches = []
  for annotations, prediction in zip(targets, predictions, strict=True):
    accepted = [_as_set(answers) for answers in annotations if len(answers)]
    if len(accepted) >= min_annotators:
      matches.append(_as_set(prediction) in accepted)
  if not matches:
    raise UserError(
      f"None of the {len(targets)} questions has the answers of "
      f"{min_annotators} annotators, so that no recall can be given; evaluate "
      "more of them."
    )
  return {"recall": classification.percentage(matches)}


def _as_set(answers: Sequence[str]) -> frozenset[str]:
  return frozenset(map(normalize_squad, answers))
