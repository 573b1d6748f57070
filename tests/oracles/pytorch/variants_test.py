"""What independent implementations of variants compute is what is recorded.

tests/architectures/variants_golden_test.py compares our models with it. It is
recorded by

  .venv/bin/python -m tests.oracles.pytorch.record_variants
"""

import pytest

from tests.golden import variants
from tests.oracles.pytorch.variants import expected


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_logits_loss_and_gradient_are_those_that_are_recorded(name):
  _, params, batch = variants.setting(name)
  variants.assert_recorded(variants.path(name), params, batch, expected(name))
