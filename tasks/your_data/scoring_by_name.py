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
from transformer_zoo.evaluation.metrics import question_answering
from transformer_zoo.evaluation.metrics import text_overlap

# What a metric compares: a task has one post-processing for all of its metrics.
CLASSES, NUMBERS, ANSWERS, TEXTS = "class ids", "numbers", "answers", "texts"
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
  "trivia_qa": (question_answering.trivia_qa, ANSWERS),
  "bleu": (text_overlap.bleu, TEXTS),
  "rouge": (text_overlap.rouge, TEXTS),
}
# Of one text with one: a target that is several answers equals none of them.
_OF_EQUALS = ("accuracy", "sequence_accuracy")
_BINARY = ("f1_score_with_invalid", "f1_and_accuracy")


def scoring(
  names: Sequence[str | Callable[..., Any]], labels: Sequence[str] | None
) -> tuple[list[Callable[..., Any]], Callable[..., Any] | None, str | None]:
  """Returns the metrics, their post-processing, and what they compare.

  Args:
    names: of metrics, or functions `(targets, predictions) -> {name: value}`
      that compare what the others do: class ids where there are labels, else
      texts.
    labels: the target words of a classification, or None.

  Raises:
    UserError: there is no such metric, it needs labels, or two metrics compare
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
  if ANSWERS in kinds:
    for name in (name for name in names if name in _OF_EQUALS):
      kinds.setdefault(TEXTS, name)
  if len(kinds) > 1:
    (one, first), (other, second) = list(kinds.items())[:2]
    raise UserError(
      f"{first!r} compares {one} and {second!r} compares {other}; register two "
      "tasks, one for each."
    )
  kind = next(iter(kinds), None)
  return functions, _post_processing(kind, labels), kind


def _post_processing(
  kind: str | None, labels: Sequence[str] | None
) -> Callable[..., Any] | None:
  if kind == CLASSES:
    return functools.partial(
      answer_functions.string_label_to_class_id, label_classes=list(labels)
    )
  if kind == NUMBERS:
    return answer_functions.string_to_float
  if kind == ANSWERS:
    return answer_functions.qa
  return None
