"""Beams against recorded ones of `transformers`; needs no torch.

The goldens are made by oracles/pytorch/make_goldens.py; the live comparison, on
200 prompts, is `make test-oracles`.
"""

import functools

import jax
import numpy as np
import pytest

from tests.golden import t5_beams
from transformer_zoo.decoding.generate import generate

# The other ways are those of continuations_golden_test.py.
CASES = [
  "long_is_bad",
  *(
    pytest.param(way, marks=pytest.mark.slow)
    for way in ("penalised", "constrained", "forced")
  ),
]


@pytest.mark.slow
@pytest.mark.parametrize("way", CASES)
def test_outputs_equal_the_recorded_ones(way):
  model, params, inputs = t5_beams.setting(t5_beams.RECORDED)
  golden = np.load(t5_beams.PATH)
  assert t5_beams.checksum(params, inputs) == golden["checksum"], (
    "weights or prompts differ from what was recorded: make the goldens again"
  )
  made = jax.jit(
    functools.partial(
      generate,
      model,
      max_length=t5_beams.MADE,
      options=t5_beams.options(way),
    )
  )(params, inputs)
  tokens, scores = t5_beams.by_rows(made)
  np.testing.assert_array_equal(tokens, golden[f"{way}/tokens"])
  np.testing.assert_allclose(scores, golden[f"{way}/scores"], rtol=2e-5)
