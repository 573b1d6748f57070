"""Variants against recorded outputs of independent implementations.

tests/golden/variants.py says of which; oracles/pytorch/record_variants.py
records them with PyTorch, and tests/oracles/pytorch/variants_test.py sees that
they still are what is computed there.
"""

import pytest

from tests.golden import variants

# Their outputs alone are compared here, with gradients among the slow tests.
CENTRAL = (
  "llama_encoder_decoder",
  "lm_hyper_connections",
  "lm_shaw",
  "lm_value_residual",
)


@pytest.mark.parametrize(
  ("name", "gradient"), variants.cases(variants.VARIANTS, CENTRAL)
)
def test_outputs_and_gradient_equal_the_recorded_ones(name, gradient):
  compute = variants.of_scanned(variants.outputs, gradient=gradient)
  model, params, batch = variants.setting(name)
  found = compute(model, params, batch)
  variants.assert_recorded(variants.path(name), params, batch, found)
