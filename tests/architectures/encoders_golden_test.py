"""Encoders of config.json files against what their classes have computed.

tests/golden/encoders.py says of which; oracles/pytorch/make_goldens.py records
them with PyTorch, tests/oracles/pytorch/encoders_test.py compares live.
"""

import pytest

from tests.golden import encoders
from tests.golden import variants


@pytest.mark.parametrize("name", encoders.RECORDED)
def test_outputs_and_gradient_equal_the_recorded_ones(name):
  _, model, params, batch = encoders.setting(name)
  variants.assert_recorded(
    encoders.path(name), model, params, batch, encoders.outputs
  )
