"""Metrics by name, each with the post-processing that it needs."""

from collections.abc import Callable, Sequence
import functools
from typing import Any

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.answers import (
  post_processors as answer_functions,
)
from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.evaluation.metrics import perplexity
from transformer_zoo.evaluation.metrics import question_answering
from transformer_zoo.evaluation.metrics import text_overlap

# What a metric compares: a task has one post-processing for all of its metrics.
CLASSES, NUMBERS, ANSWERS, TEXTS = "class ids", "numbers", "answers", "texts"
ANSWERS_OR_NONE = "answers or none"
Metrics = Sequence[str | Callable[..., Any]]
_METRICS = {
  "accuracy": (classification.accuracy, None),
  "sequence_accuracy": (classification.sequence_accuracy, None),
  "matthews_corrcoef": (classification.matthews_corrcoef, CLASSES),
  "f1_score_with_invalid": (classification.f1_score_with_invalid, CLASSES),
  "f1_and_accuracy": (classification.f1_and_accuracy, CLASSES),
  "mean_multiclass_f1": (classification.mean_multiclass_f1, CLASSES),
  "pearson_corrcoef": (classification.pearson_corrcoef, NUMBERS),
  "spearman_corrcoef": (classification.spearman_corrcoef, NUMBERS),
  "squad": (question_answering.squad, ANSWERS),
  "squad_v2": (question_answering.squad_v2, ANSWERS_OR_NONE),
  "trivia_qa": (question_answering.trivia_qa, ANSWERS),
  "bleu": (text_overlap.bleu, TEXTS),
  "perplexity": (perplexity.perplexity, None),
  "rouge": (text_overlap.rouge, TEXTS),
}
# They compare one text with one: several answers equal none of them.
_OF_EQUALS = ("accuracy", "sequence_accuracy")
# They compare a text with one reference or with several.
_OF_REFERENCES = ("bleu", "rouge")
_BINARY = ("f1_score_with_invalid", "f1_and_accuracy")


def scoring(
  names: Metrics,
  labels: Sequence[str] | None,
  *,
  has_answers: bool = False,
  no_answer: str = "",
  spelled: bool = False,
) -> tuple[list[Callable[..., Any]], Callable[..., Any] | None, str | None]:
  """Returns the metrics, their post-processing, and what they compare.

  Args:
    names: Names of metrics, or functions `(targets, predictions) -> {name:
      value}` that compare the same things as the others: class ids if there are
      labels, else texts.
    labels: The target words of a classification, or None.
    has_answers: True if rows have a list of answers or references.
    no_answer: The text that declines to answer, for squad_v2.
    spelled: True if numbers are spelled in bins or digit by digit.

  Raises:
    UserError: No metric has a name, one needs labels, or two metrics compare
      different things.
  """
  if isinstance(names, str):
    raise UserError(f"metrics={names!r} is no list; write [{names!r}].")
  functions, kinds = [], {}
  for name in names:
    if callable(name):
      functions.append(name)
      continue
    if name not in _METRICS:
      raise UserError(f"No metric is named {name!r}{nearest(name, _METRICS)}")
    function, kind = _METRICS[name]
    if has_answers and name in _OF_REFERENCES:
      kind = ANSWERS
    if kind is not None:
      kinds.setdefault(kind, name)
    if kind == CLASSES and labels is None:
      raise UserError(
        f"The metric {name!r} compares classes: give their names with labels=."
      )
    if name in _BINARY and len(labels) != 2:
      raise UserError(
        f"The metric {name!r} is for two classes, the second one the positive; "
        f"labels= has {len(labels)}."
      )
    if name == "mean_multiclass_f1":
      function = functools.partial(function, num_classes=len(labels))
    functions.append(function)
  if labels is not None:
    kinds.setdefault(CLASSES, "labels=")
  if ANSWERS in kinds or ANSWERS_OR_NONE in kinds:
    for name in (name for name in names if name in _OF_EQUALS):
      kinds.setdefault(TEXTS, name)
  if len(kinds) > 1:
    (one, first), (other, second) = list(kinds.items())[:2]
    raise UserError(
      f"{first!r} compares {one} and {second!r} compares {other}; register two "
      "tasks, one for each."
    )
  kind = next(iter(kinds), None)
  if spelled and kind != NUMBERS:
    raise UserError(
      "numbers= spells the targets of a regression; metrics= has to name "
      "'pearson_corrcoef' or 'spearman_corrcoef'."
    )
  if spelled:
    return functions, answer_functions.spelled_number, kind
  return functions, _post_processing(kind, labels, no_answer), kind


def ranking(
  length_normalized: bool, *, unconditional: bool = False
) -> tuple[list[Callable[..., Any]], Callable[..., Any]]:
  """Returns the metric of ranked choices, in a list, and its post-processing.

  Args:
    length_normalized: True to divide the log-likelihood of a choice by its
      number of tokens before choices are compared.
    unconditional: True if the choices come once more without their question.
  """
  if unconditional:
    return (
      [classification.rank_unconditional],
      answer_functions.rank_classification,
    )
  metric = functools.partial(
    classification.rank_classification, length_normalized=length_normalized
  )
  return [metric], answer_functions.rank_classification


def _post_processing(
  kind: str | None, labels: Sequence[str] | None, no_answer: str
) -> Callable[..., Any] | None:
  if kind == CLASSES:
    return functools.partial(
      answer_functions.string_label_to_class_id, label_classes=list(labels)
    )
  if kind == NUMBERS:
    return answer_functions.string_to_float
  if kind == ANSWERS:
    return answer_functions.qa
  if kind == ANSWERS_OR_NONE:
    return functools.partial(
      answer_functions.squad_v2, no_answer=no_answer.strip(" .").lower()
    )
  return None
