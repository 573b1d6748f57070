"""Lengths: the published figures, and the share of cut targets."""

import types

import numpy as np
import pytest

from transformer_zoo.corruption import lengths
from transformer_zoo.corruption import noise_masks
from transformer_zoo.corruption import rewrites
from transformer_zoo.corruption import SpanCorruption

# 400 ids, because half a text of i.i.d. noise has more than 100 spans.
VOCABULARY = types.SimpleNamespace(sentinel_ids=np.arange(32099, 31699, -1))


@pytest.mark.parametrize(
  "inputs, density, mean, expected",
  [
    (128, 0.15, 3, (141, 29)),
    (256, 0.15, 3, (284, 58)),
    (512, 0.15, 3, (568, 114)),
    (1024, 0.15, 3, (1137, 229)),
    (2048, 0.15, 3, (2274, 456)),
    (512, 0.10, 3, (548, 74)),
    (512, 0.25, 3, (614, 206)),
    (512, 0.50, 3, (766, 512)),
    (1024, 0.15, 20, (1193, 189)),
    (512, 0.15, 1, (511, 155)),
    (512, 0.15, 2, (552, 126)),
    (512, 0.15, 5, (581, 105)),
    (512, 0.15, 10, (591, 99)),
    (64, 0.2, 2.0, (70, 22)),
    (64, 0.2, 1.0, (63, 27)),
  ],
)
def test_random_spans_helper(inputs, density, mean, expected):
  assert lengths.random_spans_helper(inputs, density, mean) == expected


class _IidReplaceSpans:
  """The objective of T5's baseline: i.i.d. noise, spans to sentinels."""

  def __init__(self, noise_density):
    self.noise_density = noise_density

  def raw_length(self, feature_lengths):
    return feature_lengths["inputs"] - 1

  def __call__(self, tokens, rng, vocabulary):
    mask = noise_masks.iid(len(tokens), self.noise_density, rng)
    sentinels = vocabulary.sentinel_ids
    return {
      "targets": rewrites.nonnoise_span_to_unique_sentinel(
        tokens, mask, sentinels
      )
    }


@pytest.mark.parametrize(
  "density, targets, expected",
  [(0.10, 103, 0.35), (0.15, 192, 0.0), (0.25, 256, 0.02), (0.5, 512, 0.0)],
)
def test_share_of_cut_targets_of_the_published_iid_recipes(
  density, targets, expected
):
  share = lengths.share_of_cut_targets(
    _IidReplaceSpans(density),
    {"inputs": 512, "targets": targets},
    VOCABULARY,
    np.random.default_rng(0),
    draws=2000,
  )
  assert share == pytest.approx(expected, abs=0.03 if expected else 0.002)


@pytest.mark.parametrize("targets, expected", [(114, 0.0), (113, 1.0)])
def test_span_corruption_cuts_all_or_none(targets, expected):
  share = lengths.share_of_cut_targets(
    SpanCorruption(),
    {"inputs": 512, "targets": targets},
    VOCABULARY,
    np.random.default_rng(0),
    draws=20,
  )
  assert share == expected
