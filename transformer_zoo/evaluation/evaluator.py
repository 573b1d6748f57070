"""Scores a model on prepared tasks: decode, post-process, measure."""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
import functools
import importlib
from typing import Any

import jax
import numpy as np

from transformer_zoo.data import loader
from transformer_zoo.data import manifest

# (params, [B, M] ids) -> [B, L] ids.
Generate = Callable[[Any, jax.Array], jax.Array]
# (params, batch) -> sums with `loss_sum`, `correct_sum` and `weight_sum`.
Sums = Callable[[Any, Mapping[str, jax.Array]], dict[str, jax.Array]]
Put = Callable[[dict[str, np.ndarray]], dict[str, jax.Array]]


@dataclasses.dataclass(frozen=True)
class TaskResult:
  """What a model does on one split of a task.

  Attributes:
    loss: teacher-forced negative log-likelihood per target token, in nats.
    accuracy: share of target tokens predicted with teacher forcing.
    scores: the task's metrics; empty where it has none.
    predictions: one dictionary per example: `inputs`, `targets` and
      `prediction` as text; empty where the task has no metric.
  """

  loss: float
  accuracy: float
  scores: dict[str, float]
  predictions: list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Evaluator:
  """Evaluates parameters on tasks.

  Attributes:
    generate: decodes a batch.
    sums: teacher-forced sums of a batch.
    put: lays a batch of the host out on the devices.
    lengths: feature -> length that examples are trimmed and padded to.
    batch_size: examples a batch.
    max_examples: the most examples of a split; all if None.
  """

  generate: Generate
  sums: Sums
  put: Put
  lengths: Mapping[str, int]
  batch_size: int
  max_examples: int | None = None

  def check(self, task: manifest.PreparedTask, split: str) -> None:
    """Looks at a split before anything is compiled.

    Raises:
      UserError: what a call would raise.
    """
    self._batches(task, split)

  def __call__(
    self, params, task: manifest.PreparedTask, split: str
  ) -> TaskResult:
    """Evaluates `params` on a split of `task`.

    Raises:
      UserError: the task has no such split, or its files are damaged.
    """
    decodes = task.scoring is not None and bool(task.scoring.metrics)
    totals, examples, outputs = [], [], []
    for batch, texts in self._batches(task, split):
      batch = self.put(batch)
      totals.append(self.sums(params, batch))
      if decodes:
        ids_BL = self.generate(params, batch["encoder_input_tokens"])
        examples += texts
        outputs.append((ids_BL, len(texts)))
    total = {
      name: float(np.sum([np.float64(sums[name]) for sums in totals]))
      for name in ("loss_sum", "correct_sum", "weight_sum")
    }
    texts = [
      task.vocabulary.decode(ids)
      for ids_BL, count in outputs
      for ids in np.asarray(ids_BL)[:count].tolist()
    ]
    scores, predictions = {}, []
    if decodes:
      scores = score(task.scoring, examples, texts)
      predictions = [
        {
          "inputs": example.get("inputs_pretokenized", ""),
          "targets": example.get("targets_pretokenized", ""),
          "prediction": text,
        }
        for example, text in zip(examples, texts, strict=True)
      ]
    weight = max(total["weight_sum"], 1.0)
    return TaskResult(
      loss=total["loss_sum"] / weight,
      accuracy=total["correct_sum"] / weight,
      scores=scores,
      predictions=predictions,
    )

  def _batches(self, task, split):
    return loader.evaluation_batches(
      task,
      split=split,
      lengths=self.lengths,
      batch_size=self.batch_size,
      max_examples=self.max_examples,
    )


def score(
  scoring: manifest.Scoring,
  examples: Iterable[Mapping[str, Any]],
  texts: Iterable[str],
) -> dict[str, float]:
  """Applies a task's post-processing and metrics to decoded texts.

  Args:
    scoring: references to the functions.
    examples: the texts of each example, `targets_pretokenized` among them.
    texts: the decoded prediction for each.

  Returns:
    All metrics by name.
  """
  examples, texts = list(examples), list(texts)
  answer = _function(scoring.postprocess) if scoring.postprocess else _as_it_is
  targets = [
    answer(example["targets_pretokenized"], example=example, is_target=True)
    for example in examples
  ]
  predictions = [
    answer(text, example=example, is_target=False)
    for text, example in zip(texts, examples, strict=True)
  ]
  scores = {}
  for reference in scoring.metrics:
    scores.update(_function(reference)(targets, predictions))
  return {name: float(value) for name, value in scores.items()}


def _as_it_is(text: str, **_) -> str:
  return text


def _function(reference: Mapping[str, Any]) -> Callable[..., Any]:
  """The function that a manifest refers to, with its keyword arguments."""
  module, _, name = reference["function"].partition(":")
  function = getattr(importlib.import_module(module), name)
  return functools.partial(function, **reference["kwargs"])
