"""Models of config.json files against what their classes have computed.

tests/golden/families.py says of which; oracles/pytorch/make_goldens.py records
them with PyTorch, tests/oracles/pytorch/families_test.py compares live.
"""

import pytest

from tests.golden import families
from tests.golden import variants

# Their outputs alone are compared here, with gradients among the slow tests.
CENTRAL = ("t5_1_1", "gpt_neo")


@pytest.mark.parametrize(
  ("name", "gradient"), variants.cases(families.RECORDED, CENTRAL)
)
def test_outputs_and_gradient_equal_the_recorded_ones(name, gradient):
  compute = variants.of_scanned(variants.outputs, gradient=gradient)
  _, model, params, batch = families.setting(name)
  found = compute(model, params, batch)
  variants.assert_recorded(families.path(name), params, batch, found)
