"""Encoders of config.json files against what their classes have computed.

tests/golden/encoders.py says of which; oracles/pytorch/make_goldens.py records
them with PyTorch, tests/oracles/pytorch/encoders_test.py compares live.
"""

import pytest

from tests.golden import encoders
from tests.golden import variants

# Their outputs alone are compared here, with gradients among the slow tests.
CENTRAL = ("bert_pre_training", "deberta_2_convolution", "xlnet_tokens")


@pytest.mark.parametrize(
  ("name", "gradient"), variants.cases(encoders.RECORDED, CENTRAL)
)
def test_outputs_and_gradient_equal_the_recorded_ones(name, gradient):
  compute = variants.of_scanned(encoders.outputs, gradient=gradient)
  _, model, params, batch = encoders.setting(name)
  found = compute(model, params, batch)
  variants.assert_recorded(encoders.path(name), params, batch, found)
