"""Natural Questions where all answers of one annotator have to be given.

`answer: Mary-Kate answer: Ashley`; from `t5_closed_book_qa` (Roberts et al.
2020), which follows the official evaluation but for what needs the passage.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.evaluation.metrics.question_answering import (
  normalize_squad,
)

PREFIX = "answer:"


def all_answers(
  answer: str,
  example: Mapping[str, Any] | None = None,
  is_target: bool = False,
) -> list[str] | list[list[str]]:
  """Returns the predicted answers, or those of each annotator.

  Args:
    answer: the text; what stands before the first `answer:` does not count.
    example: has `annotations`, a list of answers for each annotator.
    is_target: which of the two is asked for.
  """
  if not is_target:
    return [part.strip() for part in answer.split(PREFIX)[1:]]
  annotations = example["annotations"]
  if hasattr(annotations, "to_list"):  # a ragged tensor, out of SeqIO
    annotations = annotations.to_list()
  return [
    [text.decode("utf-8") if isinstance(text, bytes) else text for text in some]
    for some in annotations
  ]


def recall(
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
