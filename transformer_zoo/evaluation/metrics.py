"""Metrics: `(targets, predictions) -> {name: value in percent}`.

Both arguments are sequences of equal length, of what the task's answer
function returns: class ids, numbers, strings, or lists of strings. Names and
values are those of `t5/evaluation/metrics.py`, except where said otherwise.
The heavy packages are imported where they are used, so that reading a task's
definition stays cheap.
"""

import collections
from collections.abc import Callable, Sequence
import re
import string

import numpy as np


def accuracy(targets: Sequence, predictions: Sequence) -> dict[str, float]:
  """Share of predictions equal to their targets."""
  return {"accuracy": _share_equal(targets, predictions)}


def sequence_accuracy(
  targets: Sequence[str], predictions: Sequence[str]
) -> dict[str, float]:
  """Share of predicted texts equal to their targets, character by character."""
  return {"sequence_accuracy": _share_equal(targets, predictions)}


def matthews_corrcoef(
  targets: Sequence[int], predictions: Sequence[int]
) -> dict[str, float]:
  """Matthews correlation times 100; an invalid prediction is a class (-1).

  0 where only one class occurs at all, as in scikit-learn.
  """
  import sklearn.metrics

  if len(set(targets) | set(predictions)) < 2:
    return {"matthews_corrcoef": 0.0}
  value = sklearn.metrics.matthews_corrcoef(targets, predictions)
  return {"matthews_corrcoef": 100 * float(value)}


def f1_score_with_invalid(
  targets: Sequence[int], predictions: Sequence[int]
) -> dict[str, float]:
  """F1 of class 1; a prediction other than 0 and 1 counts as the wrong one."""
  import sklearn.metrics

  targets = np.asarray(targets)
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

  value = sklearn.metrics.f1_score(
    targets,
    predictions,
    labels=range(num_classes),
    average="macro",
    zero_division=0,
  )
  return {f"mean_{num_classes}class_f1": 100 * float(value)}


def pearson_corrcoef(
  targets: Sequence[float], predictions: Sequence[float]
) -> dict[str, float]:
  """Pearson correlation times 100.

  0 where it is undefined (fewer than two examples, or one side constant, as
  from a model that always answers the same), where t5 gives not-a-number:
  averages and the choice of the best checkpoint need a number.
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


def squad(
  targets: Sequence[Sequence[str]], predictions: Sequence[str]
) -> dict[str, float]:
  """Exact match and token F1 of SQuAD, the best over each question's answers.

  Args:
    targets: all accepted answers of each question.
    predictions: one answer each.
  """

  def normalize(text):
    return _normalize_answer(text, string.punctuation, "")

  return _qa_scores(targets, predictions, normalize)


def trivia_qa(
  targets: Sequence[Sequence[str]], predictions: Sequence[str]
) -> dict[str, float]:
  """Exact match and token F1 of TriviaQA, which also strips curly quotes.

  Args:
    targets: all accepted answers of each question.
    predictions: one answer each.
  """

  def normalize(text):
    return _normalize_answer(text, string.punctuation + "‘’´`_", " ")

  return _qa_scores(targets, predictions, normalize)


def rouge(
  targets: Sequence[str], predictions: Sequence[str]
) -> dict[str, float]:
  """ROUGE-1, ROUGE-2 and ROUGE-Lsum F-measures times 100, without stemming.

  The mean over the documents. t5 reports the middle of 1,000 bootstrap samples
  instead, which scatters around this mean with the random state; the mean is
  the same on every run (t5 `rouge_mean`).
  """
  from rouge_score import rouge_scorer

  keys = ("rouge1", "rouge2", "rougeLsum")
  if not targets:
    return dict.fromkeys(keys, 0.0)
  scorer = rouge_scorer.RougeScorer(rouge_types=keys)
  scores = [
    scorer.score(
      target=_one_sentence_per_line(target),
      prediction=_one_sentence_per_line(prediction),
    )
    for target, prediction in zip(targets, predictions, strict=True)
  ]
  return {
    key: 100 * float(np.mean([score[key].fmeasure for score in scores]))
    for key in keys
  }


def bleu(
  targets: Sequence[str] | Sequence[Sequence[str]], predictions: Sequence[str]
) -> dict[str, float]:
  """Corpus BLEU of sacrebleu: exponential smoothing, international tokens.

  Args:
    targets: one reference per prediction, or a list of them, as many for every
      prediction. (t5 hands the lists on as if they were reference files, which
      is right only when there are as many references as predictions.)
    predictions: one text each.
  """
  import sacrebleu

  if not targets:
    return {"bleu": 0.0}
  single = isinstance(targets[0], str)
  references = [targets] if single else list(zip(*targets, strict=True))
  score = sacrebleu.corpus_bleu(
    list(predictions),
    [list(reference) for reference in references],
    smooth_method="exp",
    force=False,
    lowercase=False,
    tokenize="intl",
    use_effective_order=False,
  )
  return {"bleu": score.score}


def _share_equal(targets: Sequence, predictions: Sequence) -> float:
  """Returns the percentage of equal pairs; 0 of none."""
  equal = [t == p for t, p in zip(targets, predictions, strict=True)]
  return 100 * float(np.mean(equal)) if equal else 0.0


def _correlation(
  correlate: Callable, targets: Sequence[float], predictions: Sequence[float]
) -> float:
  """Returns 100 times a scipy correlation, 0 where that is undefined."""
  if len(set(targets)) < 2 or len(set(predictions)) < 2:
    return 0.0
  return 100 * float(correlate(targets, predictions)[0])


def _normalize_answer(text: str, punctuation: str, replacement: str) -> str:
  """Lowers case and removes punctuation, articles and extra whitespace.

  The order of the steps is that of the official evaluation scripts.
  """
  text = "".join(
    replacement if character in punctuation else character
    for character in text.lower()
  )
  return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _token_f1(target: str, prediction: str) -> float:
  """Returns the F1 of the two bags of words, between 0 and 1."""
  target_words, predicted_words = target.split(), prediction.split()
  common = collections.Counter(target_words) & collections.Counter(
    predicted_words
  )
  num_same = sum(common.values())
  if not num_same:
    return 0.0
  precision = num_same / len(predicted_words)
  recall = num_same / len(target_words)
  return 2 * precision * recall / (precision + recall)


def _qa_scores(
  targets: Sequence[Sequence[str]],
  predictions: Sequence[str],
  normalize: Callable[[str], str],
) -> dict[str, float]:
  """Returns exact match `em` and token `f1`, the best over the answers."""
  matches, overlaps = [], []
  for answers, prediction in zip(targets, predictions, strict=True):
    prediction = normalize(prediction)
    answers = [normalize(answer) for answer in answers]
    matches.append(any(answer == prediction for answer in answers))
    overlaps.append(max(_token_f1(answer, prediction) for answer in answers))
  if not matches:
    return {"em": 0.0, "f1": 0.0}
  return {
    "em": 100 * float(np.mean(matches)),
    "f1": 100 * float(np.mean(overlaps)),
  }


def _one_sentence_per_line(text: str) -> str:
  """Breaks lines after sentences, which is where ROUGE-Lsum looks for them."""
  return text.replace(" . ", " .\n")
