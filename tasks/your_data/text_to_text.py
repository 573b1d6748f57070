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

`rows.py` describes the files and what a bad row is, `templates.py` what may
stand in braces.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import seqio
import tensorflow as tf

from tasks import vocabulary as vocabularies
from tasks.your_data import scoring_by_name
from tasks.your_data import templates
from tasks.your_data.row_examples import RowExamples
from tasks.your_data.rows import MAX_ROW_BYTES
from tasks.your_data.rows import RowFiles
from tasks.your_data.rows import RowsDataSource
from transformer_zoo.errors import UserError

Metrics = Sequence[str | Callable[..., Any]]
# Other words for the splits that `zoo train` reads, which it would not find.
_MISNAMED = {
  "training": "train",
  "dev": "validation",
  "eval": "validation",
  "val": "validation",
  "valid": "validation",
}


class TextToTextTask(seqio.Task):
  """A task over rows of files; made and registered by `from_...`.

  Arguments of all three:
    name: the task's, of letters, digits and `_ . :`.
    splits: a glob pattern per split, absolute or relative to a data folder or
      to the current one. `zoo` trains on `train` and scores `validation`.
    inputs: the input text, with `{field}` for what the row has there.
    targets: the target text, in the same way.
    metrics: names of metrics (`scoring_by_name.py`) or functions; the
      post-processing follows from them.
    labels: the closed set of targets of a classification, in the order of their
      class ids; `targets` is then one field. A row has the label, or its index
      where no label is a number.
    answers: all accepted answers, for the metrics squad and trivia_qa: one or
      several texts with fields. A text that is one `{field}` may name a list,
      which gives its elements. By default the targets.
    may_be_empty: fields that may be empty or null.
    vocabulary: a SentencePiece model, a WordPiece list, a byte-level BPE or
      'bytes' (`transformer_zoo.data.vocabularies`); by default T5's.
    extra_ids: the sentinels beside its pieces; by default as is usual for the
      kind, 100 for SentencePiece.
    max_row_bytes: a longer row is a bad one.

  Of TSV and CSV:
    columns: names of the columns; by default the first line of a file.

  Each raises UserError where the arguments cannot be meant; bad files are told
  when the task is read.
  """

  @classmethod
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


def register(
  name: str,
  files: RowFiles,
  *,
  inputs: str,
  targets: str,
  metrics: Metrics = (),
  labels: Sequence[str] | None = None,
  answers: str | Sequence[str] | None = None,
  may_be_empty: Sequence[str] = (),
  vocabulary: str | None = None,
  extra_ids: int | None = None,
) -> TextToTextTask:
  """Registers a task over `files`; the arguments are those of the class."""
  if labels is not None:
    labels = [templates.spell(label) for label in labels]
  functions, post_processing, kind = scoring_by_name.scoring(metrics, labels)
  if answers is None and kind == scoring_by_name.ANSWERS:
    answers = targets
  examples = RowExamples(
    name,
    inputs=inputs,
    targets=targets,
    labels=labels,
    answers=[answers] if isinstance(answers, str) else answers,
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
    features=vocabularies.features(vocabulary, extra_ids),
    metric_fns=functions,
    postprocess_fn=post_processing,
    task_cls=TextToTextTask,
  )


def add_task(
  name: str,
  source: seqio.DataSource,
  *,
  features: Mapping[str, seqio.Feature],
  before: Sequence[Callable[..., tf.data.Dataset]] = (),
  **options: Any,
) -> Any:
  """Registers a task whose examples are text, and returns it.

  Args:
    name: the task's.
    source: of examples, with `inputs` and `targets` after `before`.
    features: `inputs` and `targets`.
    before: steps before the tokenisation.
    **options: of `seqio.TaskRegistry.add`.

  Raises:
    UserError: the name is taken or no name; a split has a name that `zoo`
      would not look for.
  """
  if name in seqio.TaskRegistry.names():
    raise UserError(f"A task {name!r} exists already; give another name.")
  if not source.splits:
    raise UserError(
      f"Task {name!r} has no split; give splits={{'train': 'FILE', ...}}."
    )
  for split in source.splits:
    if split in _MISNAMED:
      raise UserError(
        f"Task {name!r} has a split {split!r}; call it {_MISNAMED[split]!r}, "
        "which is where `zoo` looks."
      )
  try:
    return seqio.TaskRegistry.add(
      name,
      source=source,
      preprocessors=[
        *before,
        seqio.preprocessors.tokenize,
        seqio.CacheDatasetPlaceholder(),
        seqio.preprocessors.append_eos_after_trim,
      ],
      output_features=features,
      **options,
    )
  except ValueError as error:
    raise UserError(f"Task {name!r} cannot be registered: {error}") from error
