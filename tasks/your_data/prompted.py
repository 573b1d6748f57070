r"""Prompted data, as T0's (Sanh et al. 2022): rows under natural prompts.

Every template of a YAML file (`prompt_files.py` describes it) makes a task of
any rows: a user's files or a SeqIO source.

    register_prompts("my_prompts.yaml", RowFiles({"train": "nli.tsv"}, "tsv"))

A template with choices is scored by rank classification: of the splits but
`train` there is an example for each choice, and the likeliest one counts. In
`train` there is the right choice alone. A template without choices is a plain
text-to-text task.

    {'premise': 'It rained.', 'hypothesis': 'It was wet.', 'label': 0}
    -> train: 'It rained.\nDoes it follow that "It was wet."?', 'yes'
    -> validation: the same input with 'yes', is_correct, idx [0, 0], and
       with 'no', not is_correct, idx [0, 1]
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import json
from typing import Any

import seqio
import tensorflow as tf

from tasks import vocabulary as vocabularies
from tasks.sources import python_examples
from tasks.your_data import prompt_files
from tasks.your_data import scoring_by_name
from tasks.your_data.prompt_files import Prompt
from tasks.your_data.registration import add_task
from tasks.your_data.registration import checks_arguments
from tasks.your_data.rows import RowFiles
from tasks.your_data.rows import RowsDataSource
from tasks.your_data.rows import TEXT
from tasks.your_data.scoring_by_name import Metrics
from transformer_zoo.data.prepare import fingerprints
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

_TRAINING = "train"
_TEXTS = {"inputs": TEXT, "targets": TEXT}
_RANKED = _TEXTS | {
  "choice": tf.TensorSpec((), tf.int32),
  "is_correct": tf.TensorSpec((), tf.bool),
  "weight": tf.TensorSpec((), tf.float32),
}


class PromptedDataSource(seqio.DataSource):
  """Rows under a template: right choices in `train`, all choices elsewhere."""

  def __init__(
    self,
    rows: RowFiles | seqio.DataSource,
    prompt: Prompt,
    unconditional: str = "",
    template_of: str | None = None,
  ):
    """Says which rows and which template.

    Args:
      rows: files of the user's, or a SeqIO source; its lists, texts and
        numbers are the fields.
      prompt: the template.
      unconditional: As in `register_prompts`.
      template_of: The name of the set of which this is one template of several;
        None for a template alone.
    """
    self.template_of = template_of
    self._rows = rows
    self._prompt = prompt
    self.unconditional = unconditional
    self._of_files = {}
    if isinstance(rows, RowFiles):
      for split, pattern in rows.splits.items():
        self._of_files[split] = RowsDataSource(
          dataclasses.replace(rows, splits={split: pattern}),
          self._convert(split),
          signature=self._signature(split),
          fields=prompt.fields,
          settings=self._settings(),
        )
    super().__init__(splits=())

  @property
  def splits(self) -> Sequence[str]:
    return tuple(self._rows.splits)

  @property
  def supports_arbitrary_sharding(self) -> bool:
    return False

  @property
  def exists(self) -> bool:
    """Whether files of every split, or the source's data, are found."""
    if not self._of_files:
      return getattr(self._rows, "exists", True)
    try:
      return all(map(self.list_shards, self._of_files))
    except UserError:
      return False

  def list_shards(self, split: str) -> list[str]:
    return self._source(split).list_shards(split)

  def fingerprint(self) -> str:
    """Returns what the examples depend on, for `zoo prepare`."""
    if self._of_files:
      of_rows = [source.fingerprint() for source in self._of_files.values()]
    else:
      of_rows = fingerprints.describe_source(self._rows)
    return json.dumps([self._settings(), of_rows])

  def skipped_rows(self, split: str) -> list[str]:
    """Returns a sentence for each row of a split that is skipped as bad."""
    skipped = getattr(self._source(split), "skipped_rows", lambda _: [])
    return skipped(split)

  def get_dataset(
    self,
    split: str = "train",
    shuffle: bool = True,
    seed: int | None = None,
    shard_info: seqio.ShardInfo | None = None,
    **unused: Any,
  ) -> tf.data.Dataset:
    """Returns `inputs` and `targets`, and in ranked splits what ranks them.

    That is `idx` (row and choice), `is_correct` and `weight`, as from the t5
    package's `rank_classification`.

    Args:
      split: The split of the rows.
      shuffle: True to shuffle, as the source of the rows does.
      seed: The seed of the shuffling.
      shard_info: The part of the rows to read, as in the source of the rows.
      **unused: further arguments of SeqIO's.

    Raises:
      UserError: the rows lack a field, or a file is bad.
    """
    del unused
    dataset = self._source(split).get_dataset(
      split=split, shuffle=shuffle, seed=seed, shard_info=shard_info
    )
    if not self._of_files:
      dataset = self._converted(dataset, split)
    return _numbered(dataset) if self._ranks(split) else dataset

  def _source(self, split: str) -> seqio.DataSource:
    return self._of_files.get(split, self._rows)

  def _ranks(self, split: str) -> bool:
    return bool(self._prompt.choices) and split != _TRAINING

  def _signature(self, split: str) -> Mapping[str, tf.TensorSpec]:
    return _RANKED if self._ranks(split) else _TEXTS

  def _convert(self, split: str):
    if self._ranks(split):
      return self._ranked_examples
    return self._prompt.right_examples

  def _ranked_examples(
    self, row: Mapping[str, Any], may_be_empty: bool = False
  ) -> Iterator[dict[str, Any]]:
    """Yields the choices of a row, and then perhaps each without the row."""
    found = list(self._prompt.ranked_examples(row, may_be_empty))
    yield from found
    if self.unconditional:
      for number, example in enumerate(found, len(found)):
        yield {**example, "inputs": self.unconditional, "choice": number}

  def _settings(self) -> dict[str, Any]:
    settings = dataclasses.asdict(self._prompt)
    if self.unconditional:
      settings["unconditional"] = self.unconditional
    return settings

  def _converted(self, dataset: tf.data.Dataset, split: str) -> tf.data.Dataset:
    """Returns the examples of a dataset of rows."""
    known = dataset.element_spec
    for field in self._prompt.fields:
      if field not in known and field.partition(".")[0] not in known:
        raise UserError(
          f"The template {self._prompt.name!r} uses the field {field!r}, which "
          f"the rows do not have{nearest(field, known)}"
        )
    convert = self._convert(split)

    def examples():
      for row in dataset.as_numpy_iterator():
        # Published data sets have empty texts: they are part of the benchmark.
        yield from convert(row, may_be_empty=True)

    return python_examples.to_dataset(examples, self._signature(split))


@checks_arguments
def register_prompts(
  path: str,
  rows: RowFiles | seqio.DataSource,
  *,
  suffix: str = "",
  length_normalized: bool = False,
  unconditional: str = "",
  metrics: Metrics = (),
  vocabulary: str | None = None,
  extra_ids: int | None = None,
  features: Mapping[str, seqio.Feature] | None = None,
) -> list[seqio.Task]:
  """Registers a task for every template of a file, and their mixture.

  Args:
    path: a YAML file, or the name of one in `tasks/prompts`.
    rows: files of the user's, or a SeqIO source.
    suffix: The end of the names of the tasks and of the mixture, where one file
      has the templates of several sets.
    length_normalized: divide the log-likelihood of a choice by its number of
      tokens before choices are compared.
    unconditional: inputs without a row, as "Answer:"; the log-likelihood of a
      choice behind them is subtracted before choices are compared (Brown et al.
      2020, section 2.4). "" subtracts nothing.
    metrics: The metrics of templates without choices, by name or as functions.
    vocabulary: The path of a vocabulary of any kind; T5's by default.
    extra_ids: The number of sentinels; the usual number of the kind by default.
    features: The features of the tasks, in place of both.

  Returns:
    The tasks.

  Raises:
    UserError: the file is not there or not as it should be, or a name is taken.
  """
  file = prompt_files.read(path)
  mixture = file.mixture and file.mixture + suffix
  tasks = [
    _register(
      dataclasses.replace(prompt, name=prompt.name + suffix),
      rows,
      mixture,
      length_normalized,
      unconditional,
      metrics,
      features or vocabularies.features(vocabulary, extra_ids),
    )
    for prompt in file.prompts
  ]
  if mixture:
    try:
      # Each task has all rows, so that equal rates are proportional ones.
      seqio.MixtureRegistry.add(
        mixture,
        [
          (task.name, prompt.share)
          for task, prompt in zip(tasks, file.prompts, strict=True)
        ],
      )
    except ValueError as error:
      raise UserError(
        f"The mixture {mixture!r} of the prompt file {path!r} cannot be "
        f"registered: {error}"
      ) from error
  return tasks


def _register(
  prompt: Prompt,
  rows: RowFiles | seqio.DataSource,
  template_of: str | None,
  length_normalized: bool,
  unconditional: str,
  metrics: Metrics,
  features: Mapping[str, seqio.Feature],
) -> seqio.Task:
  if unconditional and length_normalized:
    raise UserError(
      "unconditional= and length_normalized= are two ways to compare choices "
      "of different lengths; give one of them."
    )
  if prompt.choices:
    functions, post_processing = scoring_by_name.ranking(
      length_normalized, unconditional=bool(unconditional)
    )
  else:
    functions, post_processing, _ = scoring_by_name.scoring(metrics, None)
  return add_task(
    prompt.name,
    PromptedDataSource(rows, prompt, unconditional, template_of),
    features=features,
    metric_fns=functions,
    postprocess_fn=post_processing,
  )


def _numbered(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Returns the examples with `idx`, the number of the row and of the choice.

  A row begins with its choice 0.
  """

  def number(row, example):
    choice = example.pop("choice")
    row += tf.cast(tf.equal(choice, 0), tf.int32)
    return row, {"idx": tf.stack([row, choice]), **example}

  return dataset.scan(tf.constant(-1), number)
