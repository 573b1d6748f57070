"""The evaluator of a model on prepared tasks: score, answer, measure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import json
import math
import typing
from typing import Any

import jax
import numpy as np

from transformer_zoo.data.features import converters
from transformer_zoo.data.loader import evaluation_split
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

# Tasks without scores, as unlabelled text, load no metrics; scorers are made by
# those that have a model.
if typing.TYPE_CHECKING:
  from transformer_zoo.evaluation import task_scores
  from transformer_zoo.evaluation.journal import Journal
  from transformer_zoo.evaluation.scorers.interface import Put
  from transformer_zoo.evaluation.scorers.interface import Scorer

# What scores a task that has no metrics of its own.
_METRICS = "transformer_zoo.evaluation.metrics.classification"
OF_TOKENS = manifest.Scoring(
  postprocess=None,
  metrics=({"function": f"{_METRICS}:token_accuracy", "kwargs": {}},),
  score_metrics=({"function": f"{_METRICS}:token_loss", "kwargs": {}},),
)


@dataclasses.dataclass(frozen=True)
class TaskResult:
  """The results of a model on one split of a task.

  Attributes:
    loss: teacher-forced negative log-likelihood per target token, in nats.
    accuracy: share of target tokens predicted with teacher forcing.
    scores: the task's metrics; empty where it has none.
    predictions: one dictionary per example, in the split's order: `inputs` and
      `targets` as text; `log_likelihood` of the targets, summed over their
      `target_tokens`; `target_answer`, what the metrics compare with; and where
      something was decoded `prediction`, its text, and `answer`, what became of
      it. Where the task has no metric, what `token_accuracy` compares:
      `target_answer`, the number of target tokens, and `answer`, how many of
      them are predicted with teacher forcing.
    num_examples: The number of examples that were evaluated.
    truncated: feature -> how many of them are longer than the given length.
    invalid: The number of predictions that are no possible answer of the task;
      None if every text is a possible answer.
    signature: BLEU's, where it is among the metrics.
    scoring: refers to the functions that make scores of the predictions.
    answers: The answers that the decoded texts became; empty if nothing was
      decoded.
    examples: the untokenised rest of each example.
    template_of: The name of the set of which the task is a template, or None.
  """

  loss: float
  accuracy: float
  scores: dict[str, float]
  predictions: list[dict[str, Any]]
  num_examples: int = 0
  truncated: dict[str, int] = dataclasses.field(default_factory=dict)
  invalid: int | None = None
  signature: str | None = None
  scoring: manifest.Scoring | None = None
  answers: list[Any] = dataclasses.field(default_factory=list)
  examples: list[dict[str, Any]] = dataclasses.field(default_factory=list)
  template_of: str | None = None


@dataclasses.dataclass(frozen=True)
class Evaluator:
  """Evaluates parameters on tasks.

  Attributes:
    scorer: computes what the model makes of a batch.
    put: lays a batch of the host out on the devices.
    fetch: brings an array back.
    lengths: feature -> length that examples are trimmed and padded to.
    batch_size: examples a batch.
    max_examples: the most examples of a split; all if None.
    corruption: The corruption of unlabelled tasks, in place of their own.
    converter: lays examples out as the model reads them.
  """

  scorer: "Scorer"
  put: "Put"
  fetch: Callable[[jax.Array], np.ndarray]
  lengths: Mapping[str, int]
  batch_size: int
  max_examples: int | None = None
  corruption: Callable | None = None
  converter: converters.Converter = converters.ENCODER_DECODER

  def open(
    self, task: manifest.PreparedTask, split: str
  ) -> evaluation_split.EvaluationSplit:
    """Opens a split, before anything is compiled.

    Raises:
      UserError: the task has no such split, its files are damaged, or it is
        scored with a function that is not there, or by texts that the model
        does not write.
    """
    if task.scoring is not None:
      from transformer_zoo.evaluation import task_scores

      task_scores.check(task.scoring)
      if task.scoring.metrics and not getattr(self.scorer, "generate", True):
        raise UserError(
          f"task {task.name!r} is scored by the texts that a model writes, and "
          "this one gives likelihoods alone; choose a task that perplexity "
          "scores, as 'mini_xsum', or EVAL_PERIOD=0"
        )
    return evaluation_split.EvaluationSplit(
      task,
      split,
      self.lengths,
      self.batch_size,
      corruption=self.corruption,
      converter=self.converter,
      max_examples=self.max_examples,
    )

  def names(self, task: manifest.PreparedTask, split: str) -> set[str]:
    """Names of what an evaluation of a split gives, before anything is done.

    A metric names its values where it is called: on the first examples here,
    whose targets are their predictions.

    Args:
      task: the prepared task.
      split: one of its splits, which has examples.

    Returns:
      `loss` and the others; nothing where the examples are too few for a
      metric of the task.
    """
    known = {"loss", "token_accuracy"}
    if task.scoring is None:
      return known
    from transformer_zoo.evaluation import task_scores

    batch = next(iter(self.open(task, split)))
    examples = [
      scored_example(text, ids, task)
      for text, ids in zip(batch.texts, batch.ids, strict=True)
    ]
    scored = task_scores.names(task.scoring, examples, task.name)
    return known | scored if scored is not None else set()

  def __call__(
    self,
    params,
    task: manifest.PreparedTask,
    split: str,
    *,
    journal: "Journal | None" = None,
    report: Callable[[int], None] = lambda done: None,
    measured: bool = True,
  ) -> TaskResult:
    """Evaluates `params` on a split of `task`.

    Args:
      params: The parameters of the model.
      task: the prepared task.
      split: one of its splits.
      journal: holds the batches that an interrupted evaluation has done, and
        gets the others.
      report: called with the number of examples done.
      measured: False where the targets are not known, as in a benchmark's test
        split: texts are decoded and nothing is scored.

    Raises:
      UserError: what `open` raises.
    """
    data = self.open(task, split)
    scoring = task.scoring
    decoded = decodes(task, measured)
    rows = [None] * data.num_examples
    examples = [None] * data.num_examples
    known = sum(map(len, journal.batches)) if journal else 0
    done = 0
    for batch, computed in self._batches(params, task, data, decoded, journal):
      for place, text, ids, row in zip(
        batch.places, batch.texts, batch.ids, computed, strict=True
      ):
        examples[place] = scored_example(text, ids, task)
        rows[place] = row
      done += len(computed)
      if done > known:
        report(done)
    examples, rows = self.scorer.joined(task, examples, rows)
    weight = max(sum(row["target_tokens"] for row in rows), 1)
    log_likelihoods = [row["log_likelihood"] for row in rows]
    result = TaskResult(
      # No "-0.0" of answers that have no likelihood.
      loss=(0.0 - math.fsum(log_likelihoods)) / weight,
      accuracy=math.fsum(row["correct_tokens"] for row in rows) / weight,
      scores={},
      predictions=[],
      num_examples=len(examples),
      truncated=data.truncated,
      examples=examples,
      template_of=task.template_of,
    )
    if not decoded and (scoring is None or not scoring.score_metrics):
      return dataclasses.replace(
        result,
        predictions=[counted_line(row) for row in rows],
        scoring=OF_TOKENS,
      )
    from transformer_zoo.evaluation import task_scores

    if "target_words" in task_scores.counts_asked(scoring):
      for example, row in zip(examples, rows, strict=True):
        scored = task.vocabulary.decode(example["targets"].tolist())
        row["target_words"] = len(scored.split())
    texts = [row["prediction"] for row in rows] if decoded else None
    found = task_scores.post_process(scoring, examples, texts)
    return dataclasses.replace(
      result,
      scores=task_scores.measure(
        scoring,
        found,
        log_likelihoods,
        task.name,
        task_scores.columns(rows),
      )
      if measured
      else {},
      predictions=prediction_lines(examples, rows, found),
      invalid=found.invalid,
      signature=task_scores.signature(scoring, found),
      scoring=scoring,
      answers=found.predictions or [],
    )

  def _batches(
    self, params, task, data, decoded, journal
  ) -> Iterator[tuple[evaluation_split.EvaluationBatch, list[dict[str, Any]]]]:
    """Yields each batch with what was computed of its examples.

    The next batch is dispatched before the results of the last one are read.
    """
    known = journal.batches if journal else []
    pending = None
    for number, batch in enumerate(data):
      if number < len(known):
        yield batch, known[number]
        continue
      outputs = self.scorer.compute(params, batch, self.put, answered=decoded)
      if pending is not None:
        yield self._finish(task, journal, *pending)
      pending = (batch, outputs)
    if pending is not None:
      yield self._finish(task, journal, *pending)

  def _finish(self, task, journal, batch, outputs):
    """Reads what the devices computed and writes it into the journal."""
    rows = self.scorer.rows(task, batch, jax.tree.map(self.fetch, outputs))
    if journal:
      journal.append(rows)
    return batch, rows


def decodes(task: manifest.PreparedTask, measured: bool) -> bool:
  """Whether an evaluation of a task generates text.

  Args:
    task: the task.
    measured: False where predictions are wanted without scores.
  """
  return bool(task.scoring and (task.scoring.metrics or not measured))


def scored_example(
  text: Mapping[str, Any],
  ids: Mapping[str, np.ndarray],
  task: manifest.PreparedTask,
) -> dict[str, Any]:
  """Returns the example that post-processing gets, as from SeqIO."""
  made = dict(text)
  for feature, some in ids.items():
    # A task over ready-made ids has no texts.
    if f"{feature}_pretokenized" not in made and task.scoring is not None:
      made[f"{feature}_pretokenized"] = task.vocabulary.decode(some.tolist())
    made[feature] = some
  return made


def prediction_lines(
  examples: Sequence[Mapping[str, Any]],
  rows: Sequence[Mapping[str, Any]],
  found: "task_scores.Answers",
) -> list[dict[str, Any]]:
  """A line for each example (`evaluator.TaskResult.predictions`).

  Args:
    examples: The examples, as `scored_example` returns them.
    rows: The computed values of each example.
    found: The answers that the texts became.
  """
  written = []
  for place, (some, row) in enumerate(zip(examples, rows, strict=True)):
    line = {
      "inputs": some.get("inputs_pretokenized", ""),  # may have none
      "targets": some["targets_pretokenized"],
    }
    if found.predictions is not None:
      line["prediction"] = row["prediction"]
      line |= _if_json("answer", found.predictions[place])
    line |= _if_json("target_answer", found.targets[place])
    line["log_likelihood"] = row["log_likelihood"]
    line |= {n: row[n] for n in ("target_tokens", "target_words") if n in row}
    written.append(line)
  return written


def counted_line(row: Mapping[str, Any]) -> dict[str, Any]:
  """A line of an example whose tokens alone are counted."""
  return {
    "target_answer": row["target_tokens"],
    "answer": row["correct_tokens"],
    **row,
  }


def _if_json(name: str, value: Any) -> dict[str, Any]:
  try:
    json.dumps(value)
  except (TypeError, ValueError):
    return {}
  return {name: value}


Rows = list[dict[str, Any]]
