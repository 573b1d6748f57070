"""Rows into text-to-text examples, checked field by field."""

from collections.abc import Iterator, Sequence
import math
from typing import Any

import tensorflow as tf

from tasks.your_data import templates
from tasks.your_data.rows import Row
from tasks.your_data.templates import RowProblem
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

TEXT = tf.TensorSpec((), tf.string)


class RowExamples:
  """Makes the example of a row: `inputs`, `targets`, and perhaps `answers`.

  Attributes:
    fields: The fields of a row that are used.
    signature: The tensor specification of an example.
    settings: JSON of all that the examples depend on.
  """

  def __init__(
    self,
    name: str,
    *,
    inputs: str,
    targets: str,
    labels: Sequence[str] | None,
    answers: Sequence[str] | None,
    no_answer: str | None,
    has_numbers: bool,
    may_be_empty: Sequence[str],
  ):
    self._inputs = templates.Template(inputs, "inputs")
    self._targets = templates.Template(targets, "targets")
    self._answers = answers and [
      templates.Template(answer, "answers") for answer in answers
    ]
    self._no_answer = no_answer
    self._labels = labels
    self._has_numbers = has_numbers
    self._may_be_empty = tuple(may_be_empty)
    self.settings = [
      inputs,
      targets,
      labels,
      answers,
      no_answer,
      has_numbers,
      self._may_be_empty,
    ]
    used = [self._inputs, self._targets, *(self._answers or ())]
    self.fields = tuple(
      dict.fromkeys(field for template in used for field in template.fields)
    )
    self.signature = {"inputs": TEXT, "targets": TEXT}
    if self._answers:
      self.signature["answers"] = tf.TensorSpec((None,), tf.string)
    if not self._inputs.fields:
      raise UserError(
        f"Task {name!r} has inputs without a field: {inputs!r}; name fields in "
        "braces."
      )
    if not self._targets.fields:
      raise UserError(
        f"Task {name!r} has targets without a field: {targets!r}; name fields "
        "in braces."
      )
    for field in self._may_be_empty:
      if field not in self.fields:
        raise UserError(
          f"Task {name!r} does not use the field {field!r} of may_be_empty="
          + nearest(field, self.fields)
        )
    if labels is not None:
      _check_labels(name, labels, self._targets)

  def __call__(self, row: Row) -> Iterator[dict[str, Any]]:
    example = {
      "inputs": self._inputs.fill(row, self._may_be_empty),
      "targets": self._target(row),
    }
    if self._labels is not None:
      example["targets"] = _label(
        example["targets"], self._labels, self._targets.fields[0]
      )
    if self._has_numbers and not _is_number(example["targets"]):
      raise RowProblem(
        f"has the targets {example['targets']!r}, which are no number"
      )
    if self._answers:
      accepted = [
        text for answer in self._answers for text in self._accepted(answer, row)
      ]
      if not accepted and self._no_answer is None:
        raise RowProblem("has no accepted answer")
      example["answers"] = accepted
    yield example

  def _target(self, row: Row) -> str:
    """Returns the target text: of a list of answers, the first."""
    if not (self._answers and self._targets.is_field):
      return self._targets.fill(row, self._may_be_empty)
    texts = self._accepted(self._targets, row)
    if not texts and self._no_answer is None:
      raise RowProblem("has no accepted answer")
    return texts[0] if texts else self._no_answer

  def _accepted(self, template: templates.Template, row: Row) -> list[str]:
    """Returns the answers that a template gives for a row."""
    if template.is_field:
      declines = self._no_answer is not None
      return templates.read_list(row, template.fields[0], declines)
    return [template.fill(row)]


def _check_labels(
  name: str, labels: Sequence[str], targets: templates.Template
) -> None:
  """Raises UserError where the labels are no set, or the targets no field."""
  if isinstance(labels, str):
    raise UserError(
      f"Task {name!r} has the labels {labels!r}; list them, as "
      "('entailment', 'neutral')."
    )
  if not labels:
    raise UserError(f"Task {name!r} has an empty list of labels.")
  twice = [label for label in labels if labels.count(label) > 1]
  if twice:
    raise UserError(f"Task {name!r} has the label {twice[0]!r} twice.")
  if not targets.is_field:
    raise UserError(
      f"Task {name!r} has labels, so that its targets are one field, such as "
      f"'{{label}}', not {targets.text!r}."
    )


def _label(value: str, labels: Sequence[str], field: str) -> str:
  """Returns the label that a row names, by its word or by its index."""
  if value in labels:
    return value
  by_index = value.isdecimal() and not any(map(_is_number, labels))
  if by_index and int(value) < len(labels):
    return labels[int(value)]
  if by_index:
    raise RowProblem(
      f"has the label {value} in the field {field!r}, out of the range 0 to "
      f"{len(labels) - 1} of the {len(labels)} labels"
    )
  raise RowProblem(
    f"has the label {value!r} in the field {field!r}, which is none of the "
    f"labels{nearest(value, labels)}"
  )


def _is_number(text: str) -> bool:
  try:
    return math.isfinite(float(text))
  except ValueError:
    return False
