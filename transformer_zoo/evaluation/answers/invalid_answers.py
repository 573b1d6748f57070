"""Predictions that are no possible answer, counted beside the scores."""

from collections.abc import Mapping, Sequence
import math
from typing import Any

from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import question_answering

# Function of `answers` -> (its prediction, its keyword arguments, the predicted
# text) -> no answer? A right answer may spell the default number.
_IS_INVALID = {
  "bracketed_entities": lambda prediction, *_: prediction is None,
  "multirc": lambda prediction, *_: prediction["value"] not in (0, 1),
  "span_qa": lambda prediction, *_: (
    question_answering.positions(prediction) is None
  ),
  "spelled_number": lambda _, __, text: math.isnan(
    post_processors.spelled_number(text, default=math.nan)
  ),
  "spelled_number_right_to_left": lambda _, __, text: math.isnan(
    post_processors.spelled_number_right_to_left(text, default=math.nan)
  ),
  "string_label_to_class_id": lambda prediction, kwargs, _: (
    not 0 <= prediction < len(kwargs["label_classes"])
  ),
  "string_to_float": lambda _, __, text: math.isnan(
    post_processors.string_to_float(text, default=math.nan)
  ),
  "wsc_simple": lambda prediction, *_: prediction == -1,
}


def count_invalid(
  postprocess: Mapping[str, Any] | None,
  predictions: Sequence[Any],
  texts: Sequence[str],
) -> int | None:
  """Returns how many predictions are no possible answer, such as no class.

  All of them count as wrong in the task's metrics.

  Args:
    postprocess: the manifest's reference {'function': 'module:name', 'kwargs':
      {...}} of the task's answer function.
    predictions: The results of that function for the predicted texts.
    texts: The predicted texts.

  Returns:
    The number of class ids of no class, of numbers that stand for unreadable
    text, of referents with nothing in them, of spans without positions, of
    sentences without a word of the input. None where every text is a possible
    answer, and for a function that is not of `answers`.
  """
  own = post_processors.without_reference(postprocess)
  if own is not postprocess:
    sentinels = postprocess["kwargs"]["sentinels"]
    texts = [
      post_processors.without_sentinels(text, sentinels=sentinels)
      for text in texts
    ]
  postprocess = own
  module, _, name = (postprocess or {}).get("function", "").partition(":")
  if module != post_processors.__name__ or name not in _IS_INVALID:
    return None
  is_invalid, kwargs = _IS_INVALID[name], postprocess["kwargs"]
  return sum(
    is_invalid(prediction, kwargs, text)
    for prediction, text in zip(predictions, texts, strict=True)
  )
