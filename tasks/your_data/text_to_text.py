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

from collections.abc import Callable, Mapping, Sequence
import functools
from typing import Any

import seqio

from tasks import vocabulary as vocabularies
from tasks.your_data import scoring_by_name
from tasks.your_data import templates
from tasks.your_data.prompt_files import CHOICE
from tasks.your_data.prompt_files import Prompt
from tasks.your_data.prompted import PromptedDataSource
from tasks.your_data.registration import add_task
from tasks.your_data.registration import checks_arguments
from tasks.your_data.row_examples import RowExamples
from tasks.your_data.rows import MAX_ROW_BYTES
from tasks.your_data.rows import RowFiles
from tasks.your_data.rows import RowsDataSource
from transformer_zoo.errors import UserError


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
  may_be_empty: Sequence[str] = (),
  vocabulary: str | None = None,
  extra_ids: int | None = None,
) -> "TextToTextTask":
  """Registers a task over `files`; the arguments are those of the class."""
  features = vocabularies.features(vocabulary, extra_ids)
  if choices is not None:
    _check_choices(name, targets, choices, metrics, labels, answers)
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
    if labels is not None:
      labels = [templates.spell(label) for label in labels]
    functions, post_processing, kind = scoring_by_name.scoring(
      metrics, labels, has_answers=answers is not None, no_answer=no_answer
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


_checked = functools.partial(checks_arguments, options_of=register)


class TextToTextTask(seqio.Task):
  """A task over rows of files, made and registered by `from_...`.

  Arguments of all three:
    name: The name of the task, of letters, digits and `_ . :`.
    splits: A glob pattern for each split, absolute or relative to a data folder
      or the current folder. `zoo` trains on `train` and scores `validation`.
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
    may_be_empty: Fields that may be empty or null.
    vocabulary: A SentencePiece model, a WordPiece list, a byte-level BPE or
      'bytes' (`transformer_zoo.data.vocabularies`); T5's by default.
    extra_ids: The number of sentinels beside the pieces; the usual number of
      the kind by default, 100 for SentencePiece.
    max_row_bytes: The size from which a row is a bad row.

  Arguments of TSV and CSV:
    columns: The names of the columns; by default the first line of each file.

  Each raises UserError for impossible arguments; bad files are reported when
  the task is read.
  """

  @classmethod
  @_checked
  def from_tsv(
    cls,
    name: str,
    splits: Mapping[str, str],
    *,
    columns: Sequence[str] | None = None,
    max_row_bytes: int = MAX_ROW_BYTES,
    **options: Any,
  ) -> "TextToTextTask":
    """Registers a task over tab-separated files, which have no quoting."""
    columns = None if columns is None else tuple(columns)
    files = RowFiles(splits, "tsv", columns, max_row_bytes=max_row_bytes)
    return register(name, files, **options)

  @classmethod
  @_checked
  def from_csv(
    cls,
    name: str,
    splits: Mapping[str, str],
    *,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
    max_row_bytes: int = MAX_ROW_BYTES,
    **options: Any,
  ) -> "TextToTextTask":
    """Registers a task over CSV files, separated by `delimiter`."""
    columns = None if columns is None else tuple(columns)
    files = RowFiles(splits, "csv", columns, delimiter, max_row_bytes)
    return register(name, files, **options)

  @classmethod
  @_checked
  def from_jsonl(
    cls,
    name: str,
    splits: Mapping[str, str],
    *,
    max_row_bytes: int = MAX_ROW_BYTES,
    **options: Any,
  ) -> "TextToTextTask":
    """Registers a task over JSON Lines files."""
    files = RowFiles(splits, "jsonl", max_row_bytes=max_row_bytes)
    return register(name, files, **options)


def _check_choices(
  name: str,
  targets: str,
  choices: str,
  metrics: Sequence[str | Callable[..., Any]],
  labels: Sequence[str] | None,
  answers: str | Sequence[str] | None,
) -> None:
  """Raises UserError for arguments that do not go with `choices=`."""
  for argument, text in (("choices", choices), ("targets", targets)):
    if not templates.Template(text, argument).is_field:
      raise UserError(
        f"Task {name!r} has choices=, so that {argument}= is one field, such "
        f"as '{{label}}', not {text!r}."
      )
  for argument, value in (("labels", labels), ("answers", answers)):
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
