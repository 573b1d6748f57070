"""Perplexity per token and per word."""

import math

import numpy as np
import pytest

from transformer_zoo.evaluation.metrics import perplexity as metrics
from transformer_zoo.studies.statistics import resampled_metrics

TEXTS = ["the cat sat", ["on a mat", "elsewhere"]]
SCORES = [-6.0, -12.0]


def test_nats_are_spread_over_tokens_and_words():
  found = metrics.perplexity(TEXTS, SCORES, [5, 7])
  assert found == {
    "word_perplexity": pytest.approx(math.exp(18 / 6)),
    "perplexity": pytest.approx(math.exp(18 / 12)),
  }
  assert metrics.perplexity(TEXTS, SCORES).keys() == {"word_perplexity"}


def test_uniform_tokens_have_the_size_of_the_vocabulary():
  scores = [-3 * math.log(50), -4 * math.log(50)]
  found = metrics.perplexity(["a b", "c"], scores, [3, 4])
  assert found["perplexity"] == pytest.approx(50)


def test_no_example_and_hopeless_ones():
  assert metrics.perplexity([], [], [])["perplexity"] == 1
  assert math.isfinite(metrics.perplexity(["a"], [-1e9])["word_perplexity"])


def test_resamples_are_of_repeated_examples():
  resampled = resampled_metrics.of_metric(metrics.perplexity, TEXTS, SCORES)
  found = resampled(np.array([[2, 1], [0, 3]]))["word_perplexity"]
  expected = [
    metrics.perplexity([TEXTS[0]] * 2 + [TEXTS[1]], [-6.0, -6.0, -12.0]),
    metrics.perplexity([TEXTS[1]], [-12.0]),
  ]
  np.testing.assert_allclose(found, [e["word_perplexity"] for e in expected])
