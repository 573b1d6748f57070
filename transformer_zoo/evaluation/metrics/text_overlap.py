"""BLEU and ROUGE: the overlap of generated text with reference text.

`(targets, predictions) -> {name: value in percent}`, as in `metrics`.
"""

from collections.abc import Sequence
import itertools
from typing import Any

import numpy as np

from transformer_zoo.evaluation.metrics import classification

_SMOOTHING = "exp"


def bleu(
  targets: Sequence[str] | Sequence[Sequence[str]], predictions: Sequence[str]
) -> dict[str, float]:
  """Corpus BLEU of sacrebleu: exponential smoothing, international tokens.

  `bleu_signature` says with which version and settings. Source: Post 2018, and
  `t5/evaluation/metrics.py` for the settings.

  Args:
    targets: The reference of each prediction, or the list of its references.
      (t5 passes the lists on as if they were reference files, which is right
      only if there are as many references as predictions.)
    predictions: The predicted texts.

  Raises:
    ValueError: The lengths differ, or a prediction has no reference.
  """
  classification.check_lengths(targets, predictions)
  if not targets:
    return {"bleu": 0.0}
  score = _bleu().corpus_score(list(predictions), _reference_files(targets))
  return {"bleu": float(score.score)}


def bleu_counts(target: str | Sequence[str], prediction: str) -> np.ndarray:
  """Returns what a prediction adds to the sums that BLEU is computed from.

  Returns:
    Matches of 1- to 4-grams, their totals, and the lengths of prediction and
    nearest reference, [10].
  """
  score = _bleu().corpus_score([prediction], _reference_files([target]))
  return np.array(
    [*score.counts, *score.totals, score.sys_len, score.ref_len], float
  )


def bleu_of_counts(counts: np.ndarray) -> float:
  """Returns BLEU of a corpus from its sums of `bleu_counts`."""
  matches, totals, (prediction, reference) = np.split(
    counts.astype(int), [4, 8]
  )
  import sacrebleu

  score = sacrebleu.BLEU.compute_bleu(
    matches.tolist(),
    totals.tolist(),
    int(prediction),
    int(reference),
    smooth_method=_SMOOTHING,
  )
  return float(score.score)


def bleu_signature(*num_references: int) -> str:
  """Returns sacrebleu's signature of `bleu`, to be given with each value.

  Args:
    *num_references: The numbers of references that predictions have; one for
      each by default.

  Returns:
    As in `nrefs:1|case:mixed|eff:no|tok:intl|smooth:exp|version:2.5.1`.
  """
  scorer = _bleu()
  references = [[""] * number for number in num_references or (1,)]
  scorer.corpus_score([""] * len(references), _reference_files(references))
  return str(scorer.get_signature())


def rouge(
  targets: Sequence[str] | Sequence[Sequence[str]], predictions: Sequence[str]
) -> dict[str, float]:
  """ROUGE-1, ROUGE-2 and ROUGE-Lsum F-measures times 100, without stemming.

  The mean over the documents. t5 reports the middle of 1,000 bootstrap samples
  instead, which scatters around this mean with the random state; the mean is
  the same on every run (t5 `rouge_mean`). Source: Lin 2004, and the package
  rouge-score.

  Args:
    targets: The reference of each prediction, or the list of its references, of
      which the one with the highest F-measure counts, for each ROUGE.
    predictions: The predicted texts.

  Raises:
    ValueError: The lengths differ, or a prediction has no reference.
  """
  from rouge_score import rouge_scorer

  classification.check_lengths(targets, predictions)
  keys = ("rouge1", "rouge2", "rougeLsum")
  scorer = rouge_scorer.RougeScorer(rouge_types=keys)
  scores = [
    scorer.score_multi(
      targets=[_one_sentence_per_line(text) for text in _references(target)],
      prediction=_one_sentence_per_line(prediction),
    )
    for target, prediction in zip(targets, predictions, strict=True)
  ]
  return {
    key: classification.percentage([score[key].fmeasure for score in scores])
    for key in keys
  }


def _bleu() -> Any:
  """Returns a new scorer; it remembers what it scored last."""
  import sacrebleu

  return sacrebleu.BLEU(
    smooth_method=_SMOOTHING,
    force=False,
    lowercase=False,
    tokenize="intl",
    effective_order=False,
  )


def _reference_files(
  targets: Sequence[str] | Sequence[Sequence[str]],
) -> list[list[str]]:
  """Returns the first reference of all targets, then the second, and so on.

  None stands where a target has fewer references than another, as sacrebleu
  expects.
  """
  rows = [_references(target) for target in targets]
  return [list(column) for column in itertools.zip_longest(*rows)]


def _references(target: str | Sequence[str]) -> list[str]:
  references = [target] if isinstance(target, str) else list(target)
  if not references:
    raise ValueError("a prediction has no reference")
  return references


def _one_sentence_per_line(text: str) -> str:
  """Breaks lines after sentences, which is where ROUGE-Lsum looks for them."""
  return text.replace(" . ", " .\n")
