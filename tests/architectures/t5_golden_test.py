"""T5 against recorded outputs of the PyTorch T5; needs no torch.

The goldens are made by oracles/pytorch/make_goldens.py; the live comparison is
`make test-oracles`.
"""

import functools

import jax
import numpy as np
import pytest

from tests import tiny_models
from tests import tiny_t5
from tests.golden import t5
from transformer_zoo.decoding.generate import generate


@pytest.mark.parametrize(
  "architecture", [pytest.param("t5_1_0", marks=pytest.mark.slow), "t5_1_1"]
)
def test_outputs_equal_the_recorded_ones(architecture):
  model, params, batch = t5.setting(architecture)
  golden = np.load(t5.path(architecture))
  assert t5.checksum(params, batch) == golden["checksum"], (
    "weights or batch differ from what was recorded: make the goldens again"
  )

  logits = tiny_t5.logits(model, params, batch)
  real = batch["decoder_target_tokens"] > 0
  difference = tiny_t5.largest_difference(logits[real], golden["real_logits"])
  assert difference < 2e-5

  loss = tiny_models.loss_sum(logits, batch) / real.sum()
  np.testing.assert_allclose(loss, golden["loss"], rtol=1e-5)

  made = jax.jit(functools.partial(generate, model), static_argnums=2)(
    params, batch["encoder_input_tokens"], t5.GENERATED
  ).tokens[:, 0]
  np.testing.assert_array_equal(made, golden["generated"])
