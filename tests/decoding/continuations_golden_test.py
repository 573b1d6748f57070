"""Continuations against recorded ones of `transformers`; needs no torch.

The goldens are made by tests/oracles/pytorch/record_continuations.py; the live
comparison, on 200 prompts, is `make test-oracles`.
"""

import numpy as np
import pytest

from tests.golden import continuations

# A search does not know the model: each way in one of them.
CASES = [
  ("gpt_2", "constrained_beams"),
  *(
    pytest.param(*case, marks=pytest.mark.slow)
    for case in (
      ("gpt_2", "penalised_beams"),
      ("llama", "beams_of_three_ends"),
      ("gpt_2", "first_finished"),
      ("llama", "constrained_greedy"),
      ("llama", "penalised_greedy"),
      ("llama", "beams"),
    )
  ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "way"), CASES)
def test_outputs_equal_the_recorded_ones(architecture, way):
  golden = np.load(continuations.path(architecture))
  assert continuations.checksum(architecture) == golden["checksum"], (
    "weights or prompts differ from what was recorded: make the goldens again"
  )
  tokens, scores = continuations.ours(architecture, way, continuations.RECORDED)
  np.testing.assert_array_equal(tokens, golden[f"{way}/tokens"])
  if f"{way}/scores" in golden:
    np.testing.assert_allclose(
      scores, golden[f"{way}/scores"], rtol=2e-5, atol=2e-6
    )
