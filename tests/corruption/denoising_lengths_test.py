"""Lengths: the published figures, and the share of cut targets."""

import numpy as np
import pytest

from tests.corruption import vocabulary
from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import denoising
from transformer_zoo.corruption import Iid
from transformer_zoo.corruption import RandomSpans
from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.rewrites import noise_rewrites
from transformer_zoo.errors import UserError

# 400 ids, because half a text of i.i.d. noise has more than 100 spans.
MANY = vocabulary.t5(400, 32100)
PUBLISHED = vocabulary.t5(100, 32100)


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
    # By hand: the mask has one span where t5's helper rounds to none.
    (24, 0.15, 10, (26, 6)),
    (32, 0.15, 10, (35, 7)),
    (8, 0.05, 3, (7, 3)),
  ],
)
def test_published_lengths(inputs, density, mean, expected):
  assert denoising.random_spans_helper(inputs, density, mean) == expected
  corruption = SpanCorruption(density, mean)
  assert corruption.raw_length({"inputs": inputs}) == expected[0]
  fitting = {"inputs": inputs, "targets": expected[1]}
  assert corruption.fitting_lengths(inputs) == fitting


@pytest.mark.parametrize("inputs", range(3, 64))
def test_fitting_lengths_hold_what_they_are_made_for(inputs):
  for mean in (1.0, 3.0, 10.0, 32.0):
    corruption = SpanCorruption(0.15, mean)
    assert corruption.check(corruption.fitting_lengths(inputs), MANY) == 0


@pytest.mark.parametrize(
  ("density", "mean", "rewrite"),
  [
    (1.0, 3.0, "drop_noise_tokens"),
    (0.9999999, 3.0, "drop_noise_tokens"),
    (1.0, 1e9, "noise_span_to_unique_sentinel"),
  ],
)
def test_noise_that_leaves_nothing_of_a_text(density, mean, rewrite):
  """The length that fills the inputs is searched for without an end."""
  noise = RandomSpans(density, mean)
  corruption = Denoising(noise, rewrite, "drop_nonnoise_tokens")
  with pytest.raises(UserError, match="leaves so little of a text that inputs"):
    corruption.fitting_lengths(64)


@pytest.mark.parametrize(
  "inputs, density",
  [(48, 0.1), (48, 0.15), (48, 0.25), (48, 0.5), (512, 0.1), (512, 0.5)],
)
def test_fitting_lengths_cut_one_in_a_thousand(density, inputs):
  corruption = Denoising(Iid(density))
  fitting = corruption.fitting_lengths(inputs)
  masks = Iid(density)(Draws(1, np.arange(20_000)), inputs - 1)
  sizes = denoising.rewritten_sizes(corruption.targets, masks) + 1
  assert 0.0002 < np.mean(sizes > fitting["targets"]) < 0.002


@pytest.mark.parametrize(
  "density, targets, expected",
  [(0.10, 103, 0.35), (0.15, 192, 0.0), (0.25, 256, 0.02), (0.5, 512, 0.0)],
)
def test_share_of_cut_targets_of_the_published_iid_recipes(
  density, targets, expected
):
  share = Denoising(Iid(density)).check(
    {"inputs": 512, "targets": targets}, MANY
  )
  assert share == pytest.approx(expected, abs=0.05 if expected else 0.004)


@pytest.mark.parametrize(
  "density, mean, least, most",
  [
    (0.10, 46, 0.0, 0.0),
    (0.15, 65, 0.0, 0.001),
    (0.25, 96, 0.25, 0.28),
    (0.50, 128, 1.0, 1.0),
  ],
)
def test_spans_of_the_published_iid_recipes(density, mean, least, most):
  masks = Iid(density)(Draws(1, np.arange(5000)), 511)
  spans, between = (
    denoising.num_sentinels(f"{kind}_span_to_unique_sentinel", masks)
    for kind in ("noise", "nonnoise")
  )
  assert spans.mean() == pytest.approx(mean, abs=0.7)
  # The inputs need a sentinel for each span, the targets for all between.
  assert least <= np.mean(np.maximum(spans, between) > 100) <= most


def test_the_published_iid_50_overruns_its_sentinels():
  # Raffel et al.'s iid_50_u_u writes ids of real pieces: every example has
  # more than 100 spans.
  with pytest.raises(UserError, match=r"100 sentinel ids \(100% of the exampl"):
    Denoising(Iid(0.5)).check({"inputs": 512, "targets": 512}, PUBLISHED)
  with pytest.raises(UserError, match=r"\(2\d% of the examples have more\)"):
    Denoising(Iid(0.25)).check({"inputs": 512, "targets": 512}, PUBLISHED)


def test_span_corruption_cuts_all_or_none():
  published = {"inputs": 512, "targets": 114}
  assert SpanCorruption().check(published, PUBLISHED) == 0
  with pytest.raises(UserError, match="targets of 114 tokens where 113"):
    SpanCorruption().check({"inputs": 512, "targets": 113}, PUBLISHED)


@pytest.mark.parametrize("name", sorted(noise_rewrites.REWRITES))
@pytest.mark.parametrize("roll", [False, True])
def test_sizes_are_those_of_the_rewrite(name, roll):
  tokens = np.tile(np.arange(3, 53, dtype=np.int32), (30, 1))
  draws = Draws(0, np.arange(30))
  masks = RandomSpans(0.3, 2, random_roll=roll)(draws, 50)
  rewritten = noise_rewrites.find(name)(tokens, masks, draws, MANY)
  np.testing.assert_array_equal(
    denoising.rewritten_sizes(name, masks), rewritten.lengths
  )
  sentinels = [np.unique(row[row > 31699]).size for row in rewritten.rows()]
  if "unique" in name:
    assert denoising.num_sentinels(name, masks).tolist() == sentinels


@pytest.mark.parametrize(
  "inputs, targets",
  [
    ("noise_span_to_unique_sentinel", "nonnoise_span_to_unique_sentinel"),
    ("noise_span_to_sentinel", "keep"),
    ("drop_noise_tokens", "drop_nonnoise_tokens"),
    ("noise_token_to_sentinel", "keep"),
  ],
)
def test_random_spans_fill_the_inputs_under_every_rewrite(inputs, targets):
  corruption = Denoising(RandomSpans(), inputs, targets)
  raw = corruption.raw_length({"inputs": 256, "targets": 512})
  example = corruption(
    np.zeros((3, raw), np.int32), Draws(0, np.arange(3)), PUBLISHED
  )
  assert example["inputs"].lengths.tolist() == [255] * 3
