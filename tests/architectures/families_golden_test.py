"""Models of config.json files against what their classes have computed.

tests/golden/families.py says of which; oracles/pytorch/make_goldens.py records
them with PyTorch, tests/oracles/pytorch/families_test.py compares live.
"""

import pytest

from tests.golden import families
from tests.golden import variants


@pytest.mark.parametrize("name", families.RECORDED)
def test_logits_loss_and_gradient_equal_the_recorded_ones(name):
  _, model, params, batch = families.setting(name)
  variants.assert_recorded(families.path(name), model, params, batch)
