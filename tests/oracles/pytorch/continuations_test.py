"""Our continuations of prompts against those of `transformers`, live."""

import functools

import numpy as np
import pytest

from tests.golden import continuations
from tests.oracles.pytorch import continuations as theirs

build = functools.cache(theirs.build)


# Caches differ between the architectures, rules of decoding do not.
BOTH = ("greedy", "beams", "constrained_beams")


@pytest.mark.parametrize(
  ("architecture", "way"),
  [
    (architecture, way)
    for i, way in enumerate(continuations.WAYS)
    for j, architecture in enumerate(continuations.ARCHITECTURES)
    if way in BOTH or i % 2 == j
  ],
)
def test_200_prompts_of_different_lengths(architecture, way, report):
  expected, expected_scores = theirs.generate(build(architecture), way)
  tokens, scores = continuations.ours(architecture, way)
  np.testing.assert_array_equal(tokens, expected)
  if expected_scores is not None:
    np.testing.assert_allclose(scores, expected_scores, rtol=2e-5, atol=2e-6)
    report("scores", np.max(np.abs(scores / expected_scores - 1)))
  # The comparison saw rows that end, and without constraints some that do not.
  ended = (expected == continuations.EOS).any(-1).mean()
  assert 0.05 < ended < (1.01 if "constrained" in way else 0.95)
