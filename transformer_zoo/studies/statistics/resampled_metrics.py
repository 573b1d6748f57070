"""Metrics of many resamples of the same examples at once.

A resample is how often it has each example: `counts_BN`, B resamples of N
examples. Most metrics of `evaluation` are means, or functions of sums, and so a
product with `counts_BN`; `of_metric` knows them and gives what the metric
itself gives for the examples that are repeated as often. Any other metric is
called on the repeated examples.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
import math

import numpy as np

from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.evaluation.metrics import question_answering
from transformer_zoo.evaluation.metrics import text_overlap
from transformer_zoo.studies.statistics import classes
from transformer_zoo.studies.statistics import correlations
from transformer_zoo.studies.statistics.sums import ratio
from transformer_zoo.studies.statistics.sums import Resampled


def of_metric(
  metric: Callable, targets: Sequence, predictions: Sequence
) -> Resampled:
  """Prepares a metric for resamples.

  Args:
    metric: (targets, predictions) -> {name: value}, or a `functools.partial`
      of one.
    targets: what it compares with, N.
    predictions: answers, or log-likelihoods for a metric of these.
  """
  function, arguments = metric, {}
  if isinstance(metric, functools.partial):
    function, arguments = metric.func, metric.keywords
  if function in _MEANS:
    values = [
      metric([t], [p]) for t, p in zip(targets, predictions, strict=True)
    ]
    return _means(values)
  if function in _PREPARED:
    return _PREPARED[function](targets, predictions, **arguments)
  return _repeated(metric, targets, predictions)


def is_known(metric: Callable) -> bool:
  """Whether resamples of a metric cost no more than sums."""
  function = getattr(metric, "func", metric)
  return function in _MEANS or function in _PREPARED


def units(metric: Callable, targets: Sequence) -> np.ndarray:
  """Returns which examples are drawn together, as numbers of units [N].

  The answers to a question of MultiRC, the targets of a query of ReCoRD and the
  choices of a question are no examples of their own.
  """
  function = getattr(metric, "func", metric)
  keys = list(range(len(targets)))
  if function is classification.rank_classification:
    keys = [tuple(map(int, index))[:-1] for index, *_ in targets]
  elif targets and isinstance(targets[0], Mapping) and "group" in targets[0]:
    keys = [question_answering.group_of(target) for target in targets]
  numbers = {}
  return np.array([numbers.setdefault(key, len(numbers)) for key in keys], int)


def _means(values: Sequence[Mapping[str, float]]) -> Resampled:
  """Means over the examples that have a value (answerable questions)."""
  names = list(dict.fromkeys(name for value in values for name in value))
  table_NK = np.array(
    [[value.get(name, math.nan) for name in names] for value in values]
  )
  there_NK = ~np.isnan(table_NK)
  table_NK = np.where(there_NK, table_NK, 0.0)

  def resampled(counts_BN):
    weights_BK = counts_BN @ there_NK
    means_BK = ratio(counts_BN @ table_NK, weights_BK)
    return dict(zip(names, means_BK.T, strict=True))

  return resampled


def _multirc(targets, predictions) -> Resampled:
  wanted = [target["value"] for target in targets]
  given = [prediction["value"] for prediction in predictions]
  f1 = classes.f1(wanted, given)
  of_unit = units(question_answering.multirc, targets)
  right_N = np.equal(wanted, given)
  all_right = np.ones(of_unit.max(initial=-1) + 1, bool)
  np.logical_and.at(all_right, of_unit, right_N)
  matches = _means(
    [
      {"exact_match": 100.0 * all_right[unit]} if first else {}
      for unit, first in zip(of_unit, _first(of_unit), strict=True)
    ]
  )
  return lambda counts_BN: f1(counts_BN) | matches(counts_BN)


def _record(targets, predictions) -> Resampled:
  firsts = _first(units(question_answering.record, targets))
  return _means(
    [
      question_answering.record([target], [prediction]) if first else {}
      for target, prediction, first in zip(
        targets, predictions, firsts, strict=True
      )
    ]
  )


def _rank_classification(targets, scores, **arguments) -> Resampled:
  of_unit = units(classification.rank_classification, targets)
  right_N, weight_N = np.zeros(len(of_unit)), np.zeros(len(of_unit))
  order = np.argsort(of_unit, kind="stable")
  starts = np.flatnonzero(np.diff(of_unit[order], prepend=-1))
  for members in np.split(order, starts[1:]):
    rows = [targets[i] for i in members]
    values = classification.rank_classification(
      rows, [scores[i] for i in members], **arguments
    )
    # The weight of a question is that of its chosen choice; they are equal.
    weight_N[members[0]] = rows[0][2]
    right_N[members[0]] = weight_N[members[0]] * values["accuracy"]
  return lambda counts_BN: {
    "accuracy": ratio(counts_BN @ right_N, counts_BN @ weight_N)
  }


def _entity_f1(targets, predictions) -> Resampled:
  """Twice the right ones among those that there are and those predicted."""
  sizes_N = np.array(
    [len(t) + len(p or ()) for t, p in zip(targets, predictions, strict=True)]
  )
  f1_N = np.array(
    [
      classification.entity_f1([t], [p])["entity_f1"]
      for t, p in zip(targets, predictions, strict=True)
    ]
  )
  return lambda counts_BN: {
    "entity_f1": ratio(counts_BN @ (f1_N * sizes_N), counts_BN @ sizes_N)
  }


def _token_accuracy(targets, predictions) -> Resampled:
  sizes_N, right_N = np.array(targets), 100.0 * np.array(predictions)
  return lambda counts_BN: {
    "token_accuracy": ratio(counts_BN @ right_N, counts_BN @ sizes_N)
  }


def _token_loss(targets, scores) -> Resampled:
  sizes_N, losses_N = np.array(targets), -np.array(scores)
  return lambda counts_BN: {
    classification.LOSS: ratio(counts_BN @ losses_N, counts_BN @ sizes_N)
  }


def _bleu(targets, predictions) -> Resampled:
  rows = [
    text_overlap.bleu_counts(t, p)
    for t, p in zip(targets, predictions, strict=True)
  ]
  table_NK = np.array(rows, float)
  return lambda counts_BN: {
    "bleu": np.array(
      [text_overlap.bleu_of_counts(sums) for sums in counts_BN @ table_NK]
    )
  }


def _repeated(metric, targets, predictions) -> Resampled:
  """NaN on resamples that the metric refuses, as those of a single class."""

  def once(counts_N):
    chosen = np.repeat(np.arange(len(targets)), counts_N.astype(int))
    try:
      return metric(
        [targets[i] for i in chosen], [predictions[i] for i in chosen]
      )
    except Exception:  # A user's own function: it may raise anything.
      return {}

  names = tuple(once(np.ones(len(targets))))

  def resampled(counts_BN):
    values = [once(counts_N) for counts_N in counts_BN]
    return {
      name: np.array([value.get(name, math.nan) for value in values], float)
      for name in names
    }

  return resampled


_MEANS = (
  classification.accuracy,
  classification.sequence_accuracy,
  question_answering.squad,
  question_answering.squad_v2,
  question_answering.span_squad,
  question_answering.trivia_qa,
  text_overlap.rouge,
)
_PREPARED = {
  classification.entity_f1: _entity_f1,
  classification.f1_and_accuracy: classes.f1_and_accuracy,
  classification.f1_score_with_invalid: classes.f1,
  classification.matthews_corrcoef: classes.matthews,
  classification.mean_multiclass_f1: classes.mean_f1,
  classification.pearson_corrcoef: correlations.pearson,
  classification.rank_classification: _rank_classification,
  classification.spearman_corrcoef: correlations.spearman,
  classification.token_accuracy: _token_accuracy,
  classification.token_loss: _token_loss,
  question_answering.multirc: _multirc,
  question_answering.record: _record,
  text_overlap.bleu: _bleu,
}


def _first(of_unit: np.ndarray) -> np.ndarray:
  """Whether each example is the first of its unit."""
  first_N = np.zeros(len(of_unit), bool)
  first_N[np.unique(of_unit, return_index=True)[1]] = True
  return first_N
