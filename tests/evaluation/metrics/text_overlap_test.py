"""BLEU and ROUGE: t5's goldens, values by hand, the signature, the edges."""

import importlib.metadata
import json

import pytest

from transformer_zoo.evaluation.metrics import text_overlap

TEXT = "this is a string"


@pytest.mark.parametrize(
  "metric, targets, predictions, expected",
  [
    (text_overlap.bleu, [TEXT] * 2, [TEXT] * 2, {"bleu": 100}),
    (text_overlap.bleu, [TEXT] * 2, ["", ""], {"bleu": 0}),
    (text_overlap.bleu, [["", TEXT], [TEXT, ""]], [TEXT] * 2, {"bleu": 100}),
    (
      text_overlap.rouge,
      [TEXT] * 2,
      [TEXT] * 2,
      {"rouge1": 100, "rouge2": 100, "rougeLsum": 100},
    ),
    (
      text_overlap.rouge,
      [TEXT] * 2,
      ["", ""],
      {"rouge1": 0, "rouge2": 0, "rougeLsum": 0},
    ),
  ],
)
def test_goldens(metric, targets, predictions, expected):
  actual = metric(targets, predictions)
  assert actual == pytest.approx(expected)
  assert list(actual) == list(expected)
  json.dumps(actual)


@pytest.mark.parametrize("metric", [text_overlap.bleu, text_overlap.rouge])
def test_empty_sets_and_unequal_lengths(metric):
  assert set(metric([], []).values()) == {0.0}
  with pytest.raises(
    ValueError,
    match="^2 targets and 1 predictions: a metric needs as many of both$",
  ):
    metric(["a", "b"], ["a"])


def test_bleu_takes_any_number_of_references():
  references = [["the cat sat down", "a cat was sitting"]] * 3
  predictions = ["a cat was sitting", "the cat sat down", "the cat sat down"]
  assert text_overlap.bleu(references, predictions) == {
    "bleu": pytest.approx(100)
  }


def test_references_may_differ_in_number():
  """A repeated reference changes nothing."""
  predictions = ["the cat sat down on a mat", "he saw a small red fish there"]
  few = [["a cat sat down on the mat"], ["he saw a red fish there", "no fish"]]
  even = [few[0] * 2, few[1]]
  assert text_overlap.bleu(few, predictions) == text_overlap.bleu(
    even, predictions
  )
  assert text_overlap.bleu(few, predictions)["bleu"] > 20
  assert text_overlap.rouge(few, predictions) == text_overlap.rouge(
    even, predictions
  )


def test_rouge_takes_the_best_reference():
  prediction = "the cat sat down"
  best = text_overlap.rouge(["the cat sat"], [prediction])
  assert text_overlap.rouge([["a dog", "the cat sat"]], [prediction]) == best
  assert best["rouge1"] < 100


@pytest.mark.parametrize("metric", [text_overlap.bleu, text_overlap.rouge])
def test_a_prediction_without_a_reference_is_refused(metric):
  with pytest.raises(ValueError, match="^a prediction has no reference$"):
    metric([["a"], []], ["a", "a"])


def test_bleu_by_hand():
  # By hand: 10 of 12 words, 5 of 10, 2 of 8 and 1 of 6 longer n-grams match,
  # 12 words against 14 of the references: exp(1 - 14 / 12) * (1 / 57.6)^0.25.
  actual = text_overlap.bleu(
    ["The cat sat on the mat, quietly.", "It is raining today."],
    ["The cat sat on a mat quietly.", "It rains today."],
  )
  assert actual == {"bleu": pytest.approx(30.72642)}


def test_bleu_is_of_the_corpus_and_not_a_mean_over_sentences():
  # 8 of 12 words, 6 of 10, 4 of 8 and 3 of 6 longer ones, no longer n-gram is
  # lost to a sentence without any: (8/12 * 6/10 * 4/8 * 3/6)^0.25.
  actual = text_overlap.bleu(
    ["a b c d e f", "g h i j k l"], ["a b c d e f", "g h x x x x"]
  )
  counts = (8 / 12) * (6 / 10) * (4 / 8) * (3 / 6)
  assert actual == {"bleu": pytest.approx(100 * counts**0.25)}


def test_bleu_tokens_are_international():
  # `intl` takes any Unicode punctuation off a word, sacrebleu's `13a` does not.
  actual = text_overlap.bleu(["„ a b c d “"], ["„a b c d“"])
  assert actual == {"bleu": pytest.approx(100)}


@pytest.mark.parametrize("references", [1, 2])
def test_signature_says_settings_references_and_version(references):
  version = importlib.metadata.version("sacrebleu")
  assert text_overlap.bleu_signature(references) == (
    f"nrefs:{references}|case:mixed|eff:no|tok:intl|smooth:exp|version:{version}"
  )


def test_rouge_breaks_sentences_and_is_the_mean():
  # Summary-level LCS takes each sentence of the target on its own, so swapped
  # sentences still match; the second document shares one word of two.
  actual = text_overlap.rouge(
    ["a b . c d .", "e f"],
    ["c d . a b .", "e g"],
  )
  assert actual == {
    "rouge1": pytest.approx(75),
    "rouge2": pytest.approx(100 / 3),
    "rougeLsum": pytest.approx(75),
  }


def test_rouge_is_an_f_measure_without_stemming():
  # 2 of 3 predicted words and 2 of 4 expected ones; `cats` is not `cat`.
  actual = text_overlap.rouge(["the cat sat down"], ["the cats sat"])
  assert actual["rouge1"] == pytest.approx(100 * 2 * 2 / (3 + 4))
  assert actual["rouge2"] == 0
