"""A user's own rows as a text-to-text task: one call registers it.

    TextToTextTask.from_tsv(
      "my_nli",
      splits={"train": "nli/train.tsv", "validation": "nli/dev.tsv"},
      inputs="nli premise: {premise} hypothesis: {hypothesis}",
      targets="{label}",
      labels=["entailment", "neutral", "contradiction"],
      metrics=["accuracy"],
    )

    premise <tab> hypothesis <tab> label
    A man sings. <tab> Someone sings. <tab> entailment
    -> 'nli premise: A man sings. hypothesis: Someone sings.', 'entailment'

`rows.py` describes files and bad rows, `templates.py` the texts with braces.
"""

from collections.abc import Callable, Iterator, Sequence
import math
from typing import Any

import seqio
import tensorflow as tf

from tasks import vocabulary as vocabularies
from tasks.your_data import scoring_by_name
from tasks.your_data import templates
from tasks.your_data.from_files import FromFiles
from tasks.your_data.prompt_files import CHOICE
from tasks.your_data.prompt_files import Prompt
from tasks.your_data.prompted import PromptedDataSource
from tasks.your_data.registration import add_task
from tasks.your_data.rows import Row
from tasks.your_data.rows import RowFiles
from tasks.your_data.rows import RowsDataSource
from tasks.your_data.rows import TEXT
from tasks.your_data.templates import RowProblem
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError


class RowExamples:
  """Makes the example of a row: `inputs`, `targets`, and perhaps `answers`.

  Attributes:
    fields: The fields of a row that are used.
    signature: The tensor specification of an example.
    no_answer: The target text of rows without an answer, or None.
    may_be_empty: The fields that may be empty.
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
    numbers: Callable[[float], str] | None = None,
    may_be_empty: Sequence[str],
  ):
    self._inputs = templates.Template(inputs, "inputs")
    self._targets = templates.Template(targets, "targets")
    self._answers = answers and [
      templates.Template(answer, "answers") for answer in answers
    ]
    self.no_answer = no_answer
    self._labels = labels
    self._has_numbers = has_numbers
    self._numbers = numbers
    self.may_be_empty = tuple(may_be_empty)
    self.settings = [
      inputs,
      targets,
      labels,
      answers,
      no_answer,
      has_numbers,
      self.may_be_empty,
    ]
    if numbers is not None:
      self.settings.append(repr(numbers))
    used = [self._inputs, self._targets, *(self._answers or ())]
    self.fields = tuple(
      dict.fromkeys(field for template in used for field in template.fields)
    )
    self.signature = {"inputs": TEXT, "targets": TEXT}
    if self._answers or numbers is not None:
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
    for field in self.may_be_empty:
      if field not in self.fields:
        raise UserError(
          f"Task {name!r} does not use the field {field!r} of may_be_empty="
          + nearest(field, self.fields)
        )
    if labels is not None:
      _check_labels(name, labels, self._targets)

  def __call__(self, row: Row) -> Iterator[dict[str, Any]]:
    example = {
      "inputs": self._inputs.fill(row, self.may_be_empty),
      "targets": self._target(row),
    }
    if self._labels is not None:
      example["targets"] = find_label(
        example["targets"], self._labels, self._targets.fields[0]
      )
    if self._has_numbers and not _is_number(example["targets"]):
      raise RowProblem(
        f"has the targets {example['targets']!r}, which are no number"
      )
    if self._numbers is not None:
      example["answers"] = [example["targets"]]
      example["targets"] = self._numbers(float(example["targets"]))
    if self._answers:
      accepted = [
        text for answer in self._answers for text in self._accepted(answer, row)
      ]
      if not accepted and self.no_answer is None:
        raise RowProblem("has no accepted answer")
      example["answers"] = accepted
    yield example

  def _target(self, row: Row) -> str:
    """Returns the target text: of a list of answers, the first."""
    if not (self._answers and self._targets.is_field):
      return self._targets.fill(row, self.may_be_empty)
    texts = self._accepted(self._targets, row)
    if not texts and self.no_answer is None:
      raise RowProblem("has no accepted answer")
    return texts[0] if texts else self.no_answer

  def _accepted(self, template: templates.Template, row: Row) -> list[str]:
    """Returns the answers that a template gives for a row."""
    if template.is_field:
      declines = self.no_answer is not None
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


def find_label(value: str, labels: Sequence[str], field: str) -> str:
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


def register(
  name: str,
  files: RowFiles,
  *,
  inputs: str,
  targets: str,
  metrics: scoring_by_name.Metrics = (),
  labels: Sequence[str] | None = None,
  answers: str | Sequence[str] | None = None,
  no_answer: str = "unanswerable",
  choices: str | None = None,
  length_normalized: bool = False,
  numbers: Callable[[float], str] | None = None,
  may_be_empty: Sequence[str] = (),
  vocabulary: str | None = None,
  extra_ids: int | None = None,
) -> "TextToTextTask":
  """Registers a task over `files`; the class documents the arguments."""
  features = vocabularies.features(vocabulary, extra_ids)
  if choices is not None:
    _check_choices(name, targets, choices, metrics, labels, answers, numbers)
    prompt = Prompt(
      name=name,
      input=inputs,
      target=f"{{{CHOICE}}}",
      choices=(choices,),
      words={},
      label=templates.Template(targets).fields[0],
      labels=(),
      weight=None,
      may_be_empty=tuple(may_be_empty),
    )
    functions, post_processing = scoring_by_name.ranking(length_normalized)
    source = PromptedDataSource(files, prompt)
  else:
    examples, functions, post_processing = make_examples(
      name,
      inputs=inputs,
      targets=targets,
      metrics=metrics,
      labels=labels,
      answers=answers,
      no_answer=no_answer,
      numbers=numbers,
      may_be_empty=may_be_empty,
    )
    source = RowsDataSource(
      files,
      examples,
      signature=examples.signature,
      fields=examples.fields,
      settings=examples.settings,
    )
  return add_task(
    name,
    source,
    features=features,
    metric_fns=functions,
    postprocess_fn=post_processing,
    task_cls=TextToTextTask,
  )


def make_examples(
  name: str,
  *,
  inputs: str,
  targets: str,
  metrics: scoring_by_name.Metrics,
  labels: Sequence[str] | None,
  answers: str | Sequence[str] | None,
  no_answer: str,
  numbers: Callable[[float], str] | None = None,
  may_be_empty: Sequence[str],
) -> tuple[RowExamples, list[Callable[..., Any]], Callable[..., Any] | None]:
  """Returns what makes and what scores the examples of a task.

  Args:
    name: The name of the task.
    inputs: As in `TextToTextTask`, as are all that follow.
    targets: The target text.
    metrics: The metrics.
    labels: The closed set of targets.
    answers: The accepted answers.
    no_answer: The target text of rows without an answer.
    numbers: The spelling of numbers.
    may_be_empty: The fields that may be empty.

  Returns:
    The maker of examples, the metrics and the post-processing.
  """
  if labels is not None:
    labels = [templates.spell(label) for label in labels]
  functions, post_processing, kind = scoring_by_name.scoring(
    metrics,
    labels,
    has_answers=answers is not None,
    no_answer=no_answer,
    spelled=numbers is not None,
  )
  declines = kind == scoring_by_name.ANSWERS_OR_NONE
  if answers is None and (declines or kind == scoring_by_name.ANSWERS):
    answers = targets
  examples = RowExamples(
    name,
    inputs=inputs,
    targets=targets,
    labels=labels,
    answers=[answers] if isinstance(answers, str) else answers,
    no_answer=no_answer if declines else None,
    has_numbers=kind == scoring_by_name.NUMBERS,
    numbers=numbers,
    may_be_empty=may_be_empty,
  )
  return examples, functions, post_processing


class TextToTextTask(FromFiles, seqio.Task):
  """A task over rows of files, made and registered by `from_...`.

  Arguments of all:
    name: The name of the task, of letters, digits and `_ . :`.
    splits: A glob pattern for each split, absolute or relative to a data folder
      or the current folder; of `from_arrow` also a folder that `datasets` saved
      (`save_to_disk`), with one split or several. `zoo` trains on `train` and
      scores `validation`.
    inputs: The input text, with `{field}` for the value of a field.
    targets: The target text, written the same way. With several accepted
      answers it may name the field with their list: the first is the target.
    metrics: Names of metrics (`scoring_by_name.py`) or functions; the
      post-processing follows from them.
    labels: The closed set of targets of a classification, in the order of their
      class ids; `targets` is then one field. A row has the label, or its index
      if no label is a number.
    answers: All accepted answers (squad, squad_v2, trivia_qa) or references
      (bleu, rouge): one or several texts with fields. A text that is one
      `{field}` may name a list. The default is `targets`.
    no_answer: The target text of rows whose list of answers is empty, for the
      metric squad_v2.
    choices: A field such as "{choices}" with a list of texts, of which the
      likeliest is the answer; `targets` is then the field with the index or the
      text of the right one. Scored by rank classification.
    length_normalized: True to divide the log-likelihood of a choice by its
      number of tokens.
    numbers: The spelling of targets that are numbers, of any range:
      `tasks.formats.numbers.Bins(step=0.2, least=0, most=5)`, the nearest
      multiple of a step, or `Digits(decimals=1)`, digit by digit; scored
      against the number itself. As they are written by default.
    may_be_empty: Fields that may be empty or null.
    vocabulary: A SentencePiece model, a WordPiece list, a byte-level BPE or
      'bytes' (`transformer_zoo.data.vocabularies`); T5's by default.
    extra_ids: The number of sentinels beside the pieces; the usual number of
      the kind by default, 100 for SentencePiece.
    max_row_bytes: The size from which a row is a bad row.

  Arguments of `from_tsv` and `from_csv`:
    columns: The names of the columns; by default the first line of each file.

  Each raises UserError for impossible arguments; bad files are reported when
  the task is read.
  """

  _register = staticmethod(register)


def _check_choices(
  name: str,
  targets: str,
  choices: str,
  metrics: Sequence[str | Callable[..., Any]],
  labels: Sequence[str] | None,
  answers: str | Sequence[str] | None,
  numbers: Callable[[float], str] | None,
) -> None:
  """Raises UserError for arguments that do not go with `choices=`."""
  for argument, text in (("choices", choices), ("targets", targets)):
    if not templates.Template(text, argument).is_field:
      raise UserError(
        f"Task {name!r} has choices=, so that {argument}= is one field, such "
        f"as '{{label}}', not {text!r}."
      )
  given = {"labels": labels, "answers": answers, "numbers": numbers}
  for argument, value in given.items():
    if value is not None:
      raise UserError(
        f"Task {name!r} has choices= and {argument}=; the choices of a row are "
        f"ranked by likelihood, so leave {argument}= out."
      )
  if list(metrics) not in ([], ["accuracy"]):
    raise UserError(
      f"Task {name!r} has choices= and metrics={metrics!r}; choices are scored "
      "by accuracy alone."
    )
