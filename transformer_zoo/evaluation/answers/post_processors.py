"""Answers: decoded text turned into what a metric compares.

SeqIO's signature: `(answer, example=None, is_target=False, **kwargs)`, called
once with the model's text and once, with `is_target=True`, with the target's.
`example` is the whole example; its strings may be bytes. A task gives the
keyword-only arguments with `functools.partial`. From t5
`data/postprocessors.py`.
"""

from collections.abc import Mapping, Sequence
import math
import re
from typing import Any

from transformer_zoo.data.storage import function_references
from transformer_zoo.evaluation.answers import tagged_text

# The text before each answer of Natural Questions.
ANSWER_PREFIX = "answer:"
# t5/data/postprocessors.py:95, `wsc_simple`.
_DETERMINERS = frozenset(
  "a an few her his each every many much my our some that the their these this "
  "those which whose your".split()
)


def string_label_to_class_id(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
  *,
  label_classes: Sequence[str],
  default: int = -1,
) -> int:
  """Returns the index of `answer` in `label_classes`, else `default`."""
  del example, is_target
  classes = list(label_classes)
  return classes.index(answer) if answer in classes else default


def string_to_float(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
  *,
  default: float = -1.0,
) -> float:
  """Returns the number `answer` spells, else `default`.

  `nan` and `inf` give `default` as well: t5 lets them through, and one such
  prediction would make the whole correlation undefined.
  """
  del example, is_target
  try:
    number = float(answer)
  except ValueError:
    return default
  return number if math.isfinite(number) else default


def spelled_number(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
  *,
  default: float = 0.0,
) -> float:
  """Returns the number that `answer` spells, in one word or digit by digit.

  The target is the number itself, the first of the example's `answers`, from
  which texts in bins may differ.

  Args:
    answer: The text, as '2.6' or '- 1 3 4 . 5'.
    example: The example.
    is_target: Whether the text is the target's.
    default: The number of a text that spells none.
  """
  if is_target and example is not None:
    return float(example["answers"][0])
  return string_to_float("".join(answer.split()), default=default)


def right_to_left(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
) -> str:
  """Returns the text of an answer that is written from its last word on."""
  del example, is_target
  return " ".join(reversed(answer.split()))


def spelled_number_right_to_left(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
  *,
  default: float = 0.0,
) -> float:
  """As `spelled_number`, of an answer that begins with its last digit."""
  turned = right_to_left(answer)
  return spelled_number(turned, example, is_target, default=default)


def lower_text(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
) -> str:
  """Returns `answer` in lower case."""
  del example, is_target
  return answer.lower()


def qa(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
) -> str | list[str]:
  """Returns the prediction, or every accepted answer of the target.

  Args:
    answer: the text.
    example: has `answers`, the accepted ones.
    is_target: True to return the answer of the target.
  """
  if is_target:
    return [_as_text(accepted) for accepted in example["answers"]]
  return answer


def all_answers(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
) -> list[str] | list[list[str]]:
  """Returns the predicted answers, or each annotator's answers.

  Args:
    answer: the text; what stands before the first `answer:` does not count.
    example: has `annotations`, a list of answers for each annotator.
    is_target: True to return the answer of the target.
  """
  if not is_target:
    return [part.strip() for part in answer.split(ANSWER_PREFIX)[1:]]
  annotations = example["annotations"]
  if hasattr(annotations, "to_list"):  # a ragged tensor, out of SeqIO
    annotations = annotations.to_list()
  return [
    [text.decode("utf-8") if isinstance(text, bytes) else text for text in some]
    for some in annotations
  ]


def multirc(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
) -> dict[str, Any]:
  """Returns whether a candidate answer of MultiRC is said to be right.

  Args:
    answer: the text.
    example: has `idx/question`, whose answers are scored together.
    is_target: True to return the answer of the target.

  Returns:
    {'value': 0 for `False`, 1 for `True`, -1 for anything else}; for a target
    also `group`, the question's number.
  """
  value = string_label_to_class_id(answer, label_classes=("False", "True"))
  if is_target:
    return {"value": value, "group": example["idx/question"]}
  return {"value": value}


def record(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
) -> dict[str, Any]:
  """Returns the entity predicted for ReCoRD, or every accepted one.

  Args:
    answer: the text.
    example: has `answers`, the accepted ones, `idx/passage` and `idx/query`;
      the examples of one query are scored as one.
    is_target: True to return the answer of the target.

  Returns:
    {'value': text}; for a target {'value': texts, 'group': (passage, query)}.
  """
  if is_target:
    return {
      "value": [_as_text(accepted) for accepted in example["answers"]],
      "group": (example["idx/passage"], example["idx/query"]),
    }
  return {"value": answer}


def first_answer(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
) -> str | list[str]:
  """Returns the prediction, or the target as the only accepted answer."""
  del example
  return [answer] if is_target else answer


def squad_v2(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
  *,
  no_answer: str,
) -> str | list[str]:
  """Returns the prediction, empty if it declines, or the accepted answers.

  Args:
    answer: the text.
    example: has `answers`, none of them for an unanswerable question.
    is_target: True to return the answer of the target.
    no_answer: the text that says there is no answer; case, and spaces and full
      stops around it, do not matter.
  """
  if is_target:
    return [_as_text(accepted) for accepted in example["answers"]]
  return "" if answer.strip(" .").lower() == no_answer else answer


def span_qa(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
  *,
  gaps_count: bool = False,
) -> str | dict[str, Any]:
  """Returns the predicted place, or the accepted answers and the passage.

  The places in t5's targets count the gaps between neighbouring spaces as
  words, the places in its metric do not: on real rows, places that are all
  right have an exact match of 12 %. With `gaps_count` an underscore, which
  scoring removes from answers, stands in each gap for the metric to count.

  Args:
    answer: a place such as `start: 3 end: 6`.
    example: has `answers` and `context`.
    is_target: True to return the answer of the target.
    gaps_count: True to count the gaps between neighbouring spaces.
  """
  if not is_target:
    return answer
  context = _as_text(example["context"])
  if gaps_count:
    pieces = re.sub("[^0-9A-Za-z_]", " ", context).split(" ")
    context = " ".join(piece or "_" for piece in pieces)
  return {
    "answers": [_as_text(accepted) for accepted in example["answers"]],
    "context": context,
  }


def rank_classification(
  answer: Any,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
) -> Any:
  """Returns the score, or what `metrics.rank_classification` ranks it by.

  Args:
    answer: the log-likelihood of the targets; their text for a target.
    example: has `idx` (row and choice), `is_correct`, the ids `targets`, and
      perhaps `weight` (1 by default).
    is_target: True to return the answer of the target.

  Returns:
    For a target ((row, choice), is_correct, weight, number of target tokens).
  """
  if not is_target:
    return answer
  return (
    tuple(int(number) for number in example["idx"]),
    bool(example["is_correct"]),
    float(example.get("weight", 1.0)),
    len(example["targets"]),
  )


def bracketed_entities(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
) -> list[tuple[str, int, int]] | None:
  """Returns the entities of a sentence, of its tags or of the brackets.

  Args:
    answer: the sentence with its entities in brackets.
    example: has `tokens`, and for a target their `tags`.
    is_target: take the tags.

  Returns:
    (type, index of the first word, index after the last word) of each; None
    for a prediction that has no word of the sentence.
  """
  if is_target:
    return tagged_text.entities([_as_text(tag) for tag in example["tags"]])
  tokens = [_as_text(token) for token in example["tokens"]]
  return tagged_text.find_entities(answer, tokens)


def wsc_simple(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
) -> int:
  """Returns whether `answer` names the referent of the Winograd schema.

  Case, determiners and possessive pronouns are set aside; then the words of one
  side must be among the words of the other (`fuzzy bunny` is `bunny`), unless
  exactly one side has an apostrophe (`Bob` is not `Bob's hat`).

  Args:
    answer: the text.
    example: has `label` (0 or 1; -1 unknown) and, for a prediction, the
      referent as `targets_pretokenized`.
    is_target: return the label.

  Returns:
    1 or 0; -1 for a prediction with nothing in it, which is always wrong.
  """
  if is_target:
    return int(example["label"])
  predicted = _content(answer)
  if not predicted:
    return -1
  referent = _content(_as_text(example["targets_pretokenized"]))
  if ("'" in predicted) != ("'" in referent):
    return 0
  words, others = set(predicted.split(" ")), set(referent.split(" "))
  return int(words <= others or others <= words)


def _content(text: str) -> str:
  """Returns the lower-case words of `text` that are no determiners.

  Divided at single spaces, as t5 does: further ones make an empty word.
  """
  words = text.strip().lower().split(" ")
  return " ".join(word for word in words if word not in _DETERMINERS)


def _as_text(value: str | bytes) -> str:
  """Returns `value` as a string; SeqIO keeps an example's strings as bytes."""
  return value.decode("utf-8") if isinstance(value, bytes) else value


def without_sentinels(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
  *,
  sentinels: str,
  postprocess: Mapping[str, Any] | None = None,
) -> Any:
  """Returns what the task makes of the text after its sentinels.

  A text that does not begin with them is taken as it is. From SeqIO's
  `experimental.add_task_with_sentinels`.

  Args:
    answer: the text.
    example: the whole example.
    is_target: whether the text is the target's.
    sentinels: The sentinels as the vocabulary writes them, `<extra_id_0>` for
      one.
    postprocess: reference to the task's own function, {'function':
      'module:name', 'kwargs': {...}}; None where it has none.
  """
  # The pieces of some vocabularies have no space before a sentinel.
  marks = r"\s*".join(map(re.escape, sentinels.split()))
  if begin := re.match(marks, answer):
    answer = answer[begin.end() :].strip()
  if postprocess is None:
    return answer
  function = function_references.resolve_post_processing(postprocess)
  return function(answer, example=example, is_target=is_target)


def without_reference(
  postprocess: Mapping[str, Any] | None,
) -> Mapping[str, Any] | None:
  """Returns the reference to a task's own function, unwrapped if it is."""
  here = f"{__name__}:{without_sentinels.__name__}"
  if postprocess and postprocess["function"] == here:
    return postprocess["kwargs"]["postprocess"]
  return postprocess
