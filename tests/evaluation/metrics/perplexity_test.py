"""Perplexity per token and per word."""

import functools
import math

import numpy as np
import pytest

from transformer_zoo.errors import UserError
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


def test_words_of_targets_that_are_cut_or_compared_with_other_references():
  found = metrics.perplexity([3, 4], SCORES, [5, 7], target_words=[2, 4])
  assert found["word_perplexity"] == pytest.approx(math.exp(18 / 6))


@pytest.mark.parametrize("target", [2, 0.5, [], [1]])
def test_targets_that_are_no_texts(target):
  with pytest.raises(UserError, match="a target is .*; leave the metric out"):
    metrics.perplexity([target], [-1.0])


@pytest.mark.parametrize(
  "counts",
  [
    {},
    {"target_words": [2, 5]},
    {"target_words": [1, 2], "target_tokens": [5, 7]},
  ],
)
def test_resamples_are_of_repeated_examples(counts):
  resampled = resampled_metrics.of_metric(
    functools.partial(metrics.perplexity, **counts), TEXTS, SCORES
  )
  found = resampled(np.array([[2, 1], [0, 3]]))
  for place, chosen in enumerate(([0, 0, 1], [1, 1, 1])):
    expected = metrics.perplexity(
      [TEXTS[i] for i in chosen],
      [SCORES[i] for i in chosen],
      **{name: [count[i] for i in chosen] for name, count in counts.items()},
    )
    assert found.keys() == expected.keys()
    for name, values in found.items():
      assert values[place] == pytest.approx(expected[name])
