"""Metrics of many resamples of the same examples at once.

A resample is how often it has each example: `counts_BN`, B resamples of N
examples. Most metrics of `evaluation` are means, or functions of sums, and so a
product with `counts_BN`; `of_metric` knows them and gives what the metric
itself gives for the examples that are repeated as often. Any other metric is
called on the repeated examples. A call of scikit-learn for each resample would
take a hundred times as long: 7.6 s for the Matthews correlation of 1,000
examples on 1,000 resamples, which takes 0.06 s here.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
import math

import numpy as np

from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.evaluation.metrics import perplexity
from transformer_zoo.evaluation.metrics import question_answering
from transformer_zoo.evaluation.metrics import text_overlap

# counts_BN, how often each of B resamples has each of N examples -> metric ->
# its values [B].
Resampled = Callable[[np.ndarray], dict[str, np.ndarray]]


def of_metric(
  metric: Callable, targets: Sequence, predictions: Sequence
) -> Resampled:
  """Prepares a metric for resamples.

  Args:
    metric: A function (targets, predictions) -> {name: value}, or a
      `functools.partial` of one.
    targets: The targets, N.
    predictions: The answers or log-likelihoods that the metric compares, N.
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
  """Returns whether a metric is evaluated on many resamples at once."""
  function = getattr(metric, "func", metric)
  return function in _MEANS or function in _PREPARED


def units(metric: Callable, targets: Sequence) -> np.ndarray:
  """Returns the number of the unit of each example, [N]; units are drawn whole.

  The answers to a question of MultiRC, the targets of a query of ReCoRD and the
  choices of a question are no examples of their own.
  """
  function = getattr(metric, "func", metric)
  keys = list(range(len(targets)))
  if function in _RANKED:
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


def _accuracy_by_kind(targets, predictions) -> Resampled:
  """NaN of a kind that a resample has none of."""
  kinds = list(dict.fromkeys(targets))
  is_kind_NK = np.array(
    [[target == kind for kind in kinds] for target in targets]
  )
  right_NK = is_kind_NK * np.asarray(predictions)[:, None]

  def resampled(counts_BN):
    numbers_BK = counts_BN @ is_kind_NK
    values_BK = 100 * ratio(counts_BN @ right_NK, numbers_BK)
    values_BK[numbers_BK == 0] = math.nan
    return dict(zip(kinds, values_BK.T, strict=True))

  return resampled


def _multirc(targets, predictions) -> Resampled:
  wanted = [target["value"] for target in targets]
  given = [prediction["value"] for prediction in predictions]
  f1 = _f1(wanted, given)
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


def _rank_classification(
  targets, scores, metric=classification.rank_classification, **arguments
) -> Resampled:
  of_unit = units(metric, targets)
  right_N, weight_N = np.zeros(len(of_unit)), np.zeros(len(of_unit))
  order = np.argsort(of_unit, kind="stable")
  starts = np.flatnonzero(np.diff(of_unit[order], prepend=-1))
  for members in np.split(order, starts[1:]):
    rows = [targets[i] for i in members]
    values = metric(rows, [scores[i] for i in members], **arguments)
    # A question has the weight of its chosen choice; they are equal.
    weight_N[members[0]] = rows[0][2]
    right_N[members[0]] = weight_N[members[0]] * values["accuracy"]
  return lambda counts_BN: {
    "accuracy": ratio(counts_BN @ right_N, counts_BN @ weight_N)
  }


def _entity_f1(targets, predictions) -> Resampled:
  """Twice the right entities over the sum of targets and predictions."""
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
  """NaN on resamples that the metric refuses, as of a single class."""

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


def _f1(targets: Sequence[int], predictions: Sequence[int]) -> Resampled:
  """F1 of class 1; any prediction but 0 and 1 is the wrong one of them."""
  targets_N, predictions_N = np.asarray(targets), np.asarray(predictions)
  valid_N = (predictions_N == 0) | (predictions_N == 1)
  predictions_N = np.where(valid_N, predictions_N, 1 - targets_N)
  return lambda counts_BN: {
    "f1": 100 * _f1_of_class(counts_BN, targets_N == 1, predictions_N == 1)
  }


def _f1_and_accuracy(
  targets: Sequence[int], predictions: Sequence[int]
) -> Resampled:
  """F1 of class 1, and accuracy."""
  f1_of = _f1(targets, predictions)
  right_N = np.asarray(targets) == np.asarray(predictions)
  return lambda counts_BN: (
    f1_of(counts_BN)
    | {"accuracy": 100 * ratio(counts_BN @ right_N, counts_BN.sum(1))}
  )


def _mean_f1(
  targets: Sequence[int], predictions: Sequence[int], *, num_classes: int
) -> Resampled:
  """The mean of the F1 of classes 0 to `num_classes` - 1."""
  targets_N, predictions_N = np.asarray(targets), np.asarray(predictions)

  def resampled(counts_BN):
    values = [
      _f1_of_class(counts_BN, targets_N == k, predictions_N == k)
      for k in range(num_classes)
    ]
    return {f"mean_{num_classes}class_f1": 100 * np.mean(values, axis=0)}

  return resampled


def _matthews(targets: Sequence[int], predictions: Sequence[int]) -> Resampled:
  """Matthews correlation of any number of classes (Gorodkin 2004)."""
  targets_N, predictions_N = np.asarray(targets), np.asarray(predictions)
  classes_K = np.union1d(targets_N, predictions_N)
  right_N = targets_N == predictions_N
  targets_NK = targets_N[:, None] == classes_K
  predictions_NK = predictions_N[:, None] == classes_K

  def resampled(counts_BN):
    total_B = counts_BN.sum(1)
    targets_BK = counts_BN @ targets_NK
    predictions_BK = counts_BN @ predictions_NK
    shared_B = total_B * (counts_BN @ right_N)
    shared_B = shared_B - (targets_BK * predictions_BK).sum(1)
    spread_B = np.sqrt(total_B**2 - (targets_BK**2).sum(1))
    spread_B = spread_B * np.sqrt(total_B**2 - (predictions_BK**2).sum(1))
    return {"matthews_corrcoef": 100 * ratio(shared_B, spread_B)}

  return resampled


def _f1_of_class(counts_BN, target_N, prediction_N) -> np.ndarray:
  both_B = counts_BN @ (target_N & prediction_N)
  sizes_N = target_N.astype(float) + prediction_N
  return ratio(2 * both_B, counts_BN @ sizes_N)


def _pearson(
  targets: Sequence[float], predictions: Sequence[float]
) -> Resampled:
  """Pearson's correlation."""
  x_N, y_N, broken_N = _finite(targets, predictions)
  x_N, y_N = x_N - x_N.mean(), y_N - y_N.mean()

  def resampled(counts_BN):
    value_B = _correlation(counts_BN, x_N[None], y_N[None])
    return {
      "pearson_corrcoef": np.where(counts_BN @ broken_N > 0, 0.0, value_B)
    }

  return resampled


def _spearman(
  targets: Sequence[float], predictions: Sequence[float]
) -> Resampled:
  """Spearman's correlation: examples are ranked anew in every resample."""
  x_N, y_N, broken_N = _finite(targets, predictions)

  def resampled(counts_BN):
    value_B = _correlation(
      counts_BN, _ranks(counts_BN, x_N), _ranks(counts_BN, y_N)
    )
    return {
      "spearman_corrcoef": np.where(counts_BN @ broken_N > 0, 0.0, value_B)
    }

  return resampled


def _finite(targets, predictions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Both as finite numbers, and whether one of them was not finite."""
  x_N, y_N = np.asarray(targets, float), np.asarray(predictions, float)
  broken_N = ~(np.isfinite(x_N) & np.isfinite(y_N))
  return np.where(broken_N, 0.0, x_N), np.where(broken_N, 0.0, y_N), broken_N


def _correlation(counts_BN, x_BN, y_BN) -> np.ndarray:
  """100 times Pearson's correlation; 0 where a side is constant."""
  total_B1 = counts_BN.sum(1, keepdims=True)
  x_BN = x_BN - (counts_BN * x_BN).sum(1, keepdims=True) / total_B1
  y_BN = y_BN - (counts_BN * y_BN).sum(1, keepdims=True) / total_B1
  shared_B = (counts_BN * x_BN * y_BN).sum(1)
  x_B, y_B = (counts_BN * x_BN**2).sum(1), (counts_BN * y_BN**2).sum(1)
  # What rounding leaves of a constant is no spread.
  flat_B = np.minimum(x_B, y_B) < 1e-12 * total_B1[:, 0]
  return 100 * ratio(shared_B, np.where(flat_B, 0.0, np.sqrt(x_B * y_B)))


def _ranks(counts_BN, values_N) -> np.ndarray:
  """Ranks of the examples of each resample, equal values sharing theirs."""
  order = np.argsort(values_N, kind="stable")
  starts = np.flatnonzero(np.diff(values_N[order], prepend=-np.inf))
  sizes_BU = np.add.reduceat(counts_BN[:, order], starts, axis=1)
  ranks_BU = np.cumsum(sizes_BU, axis=1) - (sizes_BU - 1) / 2
  _, of_value_N = np.unique(values_N, return_inverse=True)
  return ranks_BU[:, of_value_N]


def _perplexity(
  targets, scores, target_tokens=None, target_words=None
) -> Resampled:
  """The perplexity per word, and per token if there are numbers of tokens."""
  nats_N = -np.asarray(scores, float)
  if target_words is None:
    target_words = [perplexity.num_words(target) for target in targets]
  sizes = {"word_perplexity": target_words, "perplexity": target_tokens}
  sizes = {n: np.asarray(size) for n, size in sizes.items() if size is not None}
  return lambda counts_BN: {
    name: np.exp(
      np.minimum(
        ratio(counts_BN @ nats_N, counts_BN @ size_N), perplexity.MOST_NATS
      )
    )
    for name, size_N in sizes.items()
  }


_RANKED = (
  classification.rank_classification,
  classification.rank_unconditional,
)
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
  classification.accuracy_by_kind: _accuracy_by_kind,
  classification.entity_f1: _entity_f1,
  classification.f1_and_accuracy: _f1_and_accuracy,
  classification.f1_score_with_invalid: _f1,
  classification.matthews_corrcoef: _matthews,
  classification.mean_multiclass_f1: _mean_f1,
  classification.pearson_corrcoef: _pearson,
  classification.rank_classification: _rank_classification,
  classification.rank_unconditional: functools.partial(
    _rank_classification, metric=classification.rank_unconditional
  ),
  classification.spearman_corrcoef: _spearman,
  classification.token_accuracy: _token_accuracy,
  classification.token_loss: _token_loss,
  perplexity.perplexity: _perplexity,
  question_answering.multirc: _multirc,
  question_answering.record: _record,
  text_overlap.bleu: _bleu,
}


def _first(of_unit: np.ndarray) -> np.ndarray:
  """Whether each example is the first of its unit."""
  first_N = np.zeros(len(of_unit), bool)
  first_N[np.unique(of_unit, return_index=True)[1]] = True
  return first_N


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
  """Returns the quotient, 0 where there is nothing to divide by."""
  numerator, denominator = np.broadcast_arrays(numerator, denominator)
  return np.divide(
    numerator,
    denominator,
    out=np.zeros(numerator.shape),
    where=denominator != 0,
  )
