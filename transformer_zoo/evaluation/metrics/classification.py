"""Metrics: `(targets, predictions) -> {name: value in percent}`.

Both arguments are sequences of equal length, of what the task's answer
function returns: class ids, numbers, texts. Names and values are as in
`t5/evaluation/metrics.py`, except where said otherwise. A metric whose second
parameter is called `scores` gets the log-likelihood of each example's targets
instead (SeqIO's convention). Question answering and the overlap of texts have
files of their own: `question_answering`, `text_overlap`.

An empty set scores 0. The heavy packages are imported where they are used, so
that reading a task's definition stays cheap.
"""

import collections
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
import math
from typing import Any

import numpy as np

LOSS = "loss"
PERPLEXITIES = ("perplexity", "word_perplexity")
# Metrics of which less is better.
LOSSES = (LOSS, *PERPLEXITIES)


def accuracy(targets: Sequence, predictions: Sequence) -> dict[str, float]:
  """Share of predictions equal to their targets."""
  return {"accuracy": _share_equal(targets, predictions)}


def accuracy_by_kind(
  targets: Sequence[str], predictions: Sequence[float]
) -> dict[str, float]:
  """Mean outcome of the questions of each kind.

  Args:
    targets: The kind of each question, which names the value.
    predictions: The outcomes: 1 if it is answered rightly, 0 if not, between
      them if neither.
  """
  check_lengths(targets, predictions)
  outcomes = {}
  for kind, outcome in zip(targets, predictions, strict=True):
    outcomes.setdefault(kind, []).append(outcome)
  return {kind: 100.0 * sum(of) / len(of) for kind, of in outcomes.items()}


def sequence_accuracy(
  targets: Sequence[str], predictions: Sequence[str]
) -> dict[str, float]:
  """Share of predicted texts equal to their targets, character by character."""
  return {"sequence_accuracy": _share_equal(targets, predictions)}


def token_accuracy(
  targets: Sequence[int], predictions: Sequence[int]
) -> dict[str, float]:
  """Share of target tokens predicted with teacher forcing.

  Args:
    targets: The number of target tokens of each example.
    predictions: The number of target tokens of each example that are predicted.
  """
  check_lengths(targets, predictions)
  return {"token_accuracy": 100.0 * sum(predictions) / max(sum(targets), 1)}


def token_loss(
  targets: Sequence[int], scores: Sequence[float]
) -> dict[str, float]:
  """Mean cross entropy of target tokens with teacher forcing, in nats.

  Unlike other metrics it is no percentage, and lower is better.

  Args:
    targets: The number of target tokens of each example.
    scores: The log-likelihoods of the targets.
  """
  check_lengths(targets, scores)
  return {LOSS: -math.fsum(scores) / max(sum(targets), 1)}


def matthews_corrcoef(
  targets: Sequence[int], predictions: Sequence[int]
) -> dict[str, float]:
  """Matthews correlation times 100; an invalid prediction is a class (-1).

  0 where only one class occurs at all, as in scikit-learn.
  """
  import sklearn.metrics

  check_lengths(targets, predictions)
  if len(set(targets) | set(predictions)) < 2:
    return {"matthews_corrcoef": 0.0}
  value = sklearn.metrics.matthews_corrcoef(targets, predictions)
  return {"matthews_corrcoef": 100 * float(value)}


def f1_score_with_invalid(
  targets: Sequence[int], predictions: Sequence[int]
) -> dict[str, float]:
  """F1 of class 1; a prediction other than 0 and 1 counts as the wrong one.

  Raises:
    ValueError: the lengths differ, or a target is neither 0 nor 1.
  """
  import sklearn.metrics

  check_lengths(targets, predictions)
  if not len(targets):
    return {"f1": 0.0}
  targets = np.asarray(targets)
  if other := set(targets.tolist()) - {0, 1}:
    raise ValueError(
      f"the class ids of the targets are 0 and 1 for this F1, not {min(other)} "
      "(-1 is a row without label)"
    )
  predictions = np.asarray(predictions)
  valid = (predictions == 0) | (predictions == 1)
  predictions = np.where(valid, predictions, 1 - targets)
  value = sklearn.metrics.f1_score(targets, predictions, zero_division=0)
  return {"f1": 100 * float(value)}


def f1_and_accuracy(
  targets: Sequence[int], predictions: Sequence[int]
) -> dict[str, float]:
  """F1 with invalid predictions, and accuracy: the pair of MRPC and QQP."""
  return f1_score_with_invalid(targets, predictions) | accuracy(
    targets, predictions
  )


def mean_multiclass_f1(
  targets: Sequence[int], predictions: Sequence[int], *, num_classes: int
) -> dict[str, float]:
  """Unweighted mean of the F1 of classes 0 to `num_classes` - 1 (CB).

  A task gives `num_classes` with `functools.partial`. The value's name is
  `mean_3class_f1` for three classes.
  """
  import sklearn.metrics

  check_lengths(targets, predictions)
  name = f"mean_{num_classes}class_f1"
  if not len(targets):
    return {name: 0.0}
  value = sklearn.metrics.f1_score(
    targets,
    predictions,
    labels=range(num_classes),
    average="macro",
    zero_division=0,
  )
  return {name: 100 * float(value)}


def pearson_corrcoef(
  targets: Sequence[float], predictions: Sequence[float]
) -> dict[str, float]:
  """Pearson correlation times 100.

  0 where it is undefined (fewer than two examples, or one side constant, as
  from a model that always answers the same, or a value that is no finite
  number), where t5 gives not-a-number: averages and the choice of the best
  checkpoint need a number.
  """
  import scipy.stats

  return {
    "pearson_corrcoef": _correlation(scipy.stats.pearsonr, targets, predictions)
  }


def spearman_corrcoef(
  targets: Sequence[float], predictions: Sequence[float]
) -> dict[str, float]:
  """Spearman rank correlation times 100; 0 where it is undefined."""
  import scipy.stats

  return {
    "spearman_corrcoef": _correlation(
      scipy.stats.spearmanr, targets, predictions
    )
  }


def entity_f1(
  targets: Sequence[Iterable[Sequence[Hashable]]],
  predictions: Sequence[Iterable[Sequence[Hashable]] | None],
) -> dict[str, float]:
  """F1 of named entities: exact span and type, micro-averaged over the corpus.

  The rule of CoNLL-2003 (Tjong Kim Sang and De Meulder 2003, `conlleval`): an
  entity is right where type, first and last word are all right; of two equal
  predictions one counts as wrong.

  Args:
    targets: the entities of each sentence, (type, start, end) each, as
      `tagging.entities` gives them.
    predictions: the same; None, which is no entity, for text that says nothing
      readable.

  Raises:
    ValueError: the lengths differ.
  """
  check_lengths(targets, predictions)
  num_right = num_targets = num_predictions = 0
  for target, prediction in zip(targets, predictions, strict=True):
    expected = collections.Counter(map(tuple, target))
    found = collections.Counter(map(tuple, prediction or ()))
    num_right += (expected & found).total()
    num_targets += expected.total()
    num_predictions += found.total()
  total = num_targets + num_predictions
  return {"entity_f1": 100 * 2 * num_right / total if total else 0.0}


def rank_classification(
  targets: Sequence[tuple[Sequence[int], bool, float, int]],
  scores: Sequence[float],
  *,
  length_normalized: bool = False,
) -> dict[str, float]:
  """Accuracy of the choice that the model finds likeliest (GPT-3, T0).

  Rows of one question, in any order, are its choices; the likeliest one counts
  as right if it is a right one. Of equally likely choices the first counts; a
  choice whose likelihood is not-a-number is the last.

  Args:
    targets: ((question, choice), right or not, weight of the question, number
      of target tokens) for each choice.
    scores: the summed log-likelihood of each choice's targets, in nats.
    length_normalized: divide each score by its number of target tokens.

  Returns:
    `accuracy`, weighted.

  Raises:
    ValueError: the lengths differ.
  """
  check_lengths(targets, scores, "scores")
  questions = collections.defaultdict(list)
  for (index, is_right, weight, num_tokens), score in zip(
    targets, scores, strict=True
  ):
    *question, choice = (int(i) for i in index)
    cost = -float(score) / (max(num_tokens, 1) if length_normalized else 1)
    cost = math.inf if math.isnan(cost) else cost
    questions[tuple(question)].append(
      (cost, choice, bool(is_right), float(weight))
    )
  chosen = [min(choices) for choices in questions.values()]
  total = sum(weight for *_, weight in chosen)
  right = sum(weight for *_, is_right, weight in chosen if is_right)
  return {"accuracy": 100 * right / total if total else 0.0}


def rank_unconditional(
  targets: Sequence[tuple[Sequence[int], bool, float, int]],
  scores: Sequence[float],
) -> dict[str, float]:
  """Accuracy of the choice that its question makes likelier the most.

  P(choice | question) / P(choice | "Answer:") is compared (Brown et al. 2020,
  section 2.4), so that choices which are likely by themselves gain nothing.

  Args:
    targets: As in `rank_classification`; the choices 0 to n - 1 of a question
      with n of them come with it, n to 2 n - 1 are the same ones without.
    scores: As in `rank_classification`.

  Returns:
    `accuracy`, weighted.

  Raises:
    ValueError: the lengths differ, or a choice comes once.
  """
  check_lengths(targets, scores, "scores")
  questions = collections.defaultdict(dict)
  for target, score in zip(targets, scores, strict=True):
    *question, choice = (int(i) for i in target[0])
    questions[tuple(question)][choice] = target, float(score)
  kept, differences = [], []
  for question, choices in questions.items():
    number, odd = divmod(len(choices), 2)
    if odd or sorted(choices) != list(range(2 * number)):
      raise ValueError(
        f"question {question} has the choices {sorted(choices)}; each has to "
        "come with the question and without it"
      )
    for choice in range(number):
      target, score = choices[choice]
      kept.append(target)
      differences.append(score - choices[number + choice][1])
  return rank_classification(kept, differences)


def acceptability(
  targets: Sequence[tuple[Sequence[int], bool, float, int]],
  scores: Sequence[float],
) -> dict[str, float]:
  """Matthews' coefficient of sentences that are likelier than a threshold.

  A sentence counts as acceptable if the mean log-likelihood of its tokens is
  above the threshold (Radford et al. 2018, section 5, "Zero-shot Behaviors").
  The median of all sentences needs no labels; the best threshold is chosen by
  them, so that its coefficient is at most optimistic.

  Args:
    targets: As in `rank_classification`, of one choice: the sentence, which is
      right if it is acceptable.
    scores: the summed log-likelihood of each sentence, in nats.

  Returns:
    `matthews_at_median` and `matthews_at_best`, in percent.

  Raises:
    ValueError: the lengths differ.
  """
  check_lengths(targets, scores, "scores")
  means = np.array(
    [
      score / max(number, 1)
      for score, (*_, number) in zip(scores, targets, strict=True)
    ]
  )
  acceptable = [int(right) for _, right, *_ in targets]

  def matthews(threshold):
    found = [int(mean > threshold) for mean in means]
    return matthews_corrcoef(acceptable, found)["matthews_corrcoef"]

  if not len(means):
    return {"matthews_at_median": 0.0, "matthews_at_best": 0.0}
  return {
    "matthews_at_median": matthews(np.median(means)),
    "matthews_at_best": max(matthews(threshold) for threshold in set(means)),
  }


def check_lengths(
  targets: Sized, predictions: Sized, name: str = "predictions"
) -> None:
  """Refuses what is not one prediction for each target.

  Raises:
    ValueError: the lengths differ.
  """
  if len(targets) != len(predictions):
    raise ValueError(
      f"{len(targets)} targets and {len(predictions)} {name}: a metric needs "
      "as many of both"
    )


def percentage(values: Sequence[float]) -> float:
  """Returns 100 times the mean of `values`; 0 of none."""
  return 100 * float(np.mean(values)) if len(values) else 0.0


def _share_equal(targets: Sequence, predictions: Sequence) -> float:
  check_lengths(targets, predictions)
  return percentage([t == p for t, p in zip(targets, predictions, strict=True)])


def _correlation(
  correlate: Callable[..., Any],
  targets: Sequence[float],
  predictions: Sequence[float],
) -> float:
  """Returns 100 times a scipy correlation, 0 where that is undefined."""
  check_lengths(targets, predictions)
  if len(set(targets)) < 2 or len(set(predictions)) < 2:
    return 0.0
  if not np.isfinite([*targets, *predictions]).all():
    return 0.0
  # The sum of large numbers is none.
  with np.errstate(over="ignore", invalid="ignore"):
    value = float(correlate(targets, predictions)[0])
  return 100 * value if math.isfinite(value) else 0.0
