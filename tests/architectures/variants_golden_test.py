"""Variants against recorded outputs of independent implementations.

tests/golden/variants.py says of which; tests/oracles/record_variants.py records
them with PyTorch, tests/oracles/variants_test.py compares live.
"""

import numpy as np
import pytest

from tests import tiny_t5
from tests.golden import t5
from tests.golden import variants


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_logits_loss_and_gradient_equal_the_recorded_ones(name):
  model, params, batch = variants.setting(name)
  golden = dict(np.load(variants.path(name)))
  assert t5.checksum(params, batch) == golden.pop("checksum"), (
    "weights or batch differ from what was recorded: record the variants again"
  )
  found = variants.outputs(model, params, batch)
  assert set(found) == set(golden)
  for entry, value in found.items():
    if entry.endswith("key/bias"):
      continue  # it cancels in the softmax: its gradient is rounding
    if entry.startswith("gradient/"):
      length = golden[entry][-1]
      difference = variants.digest(entry, value) - golden[entry]
      assert np.abs(difference).max() < 1e-4 * length, entry
    else:
      tolerance = {"logits": 2e-5, "loss": 1e-5}[entry]
      found_difference = tiny_t5.largest_difference(value, golden[entry])
      assert found_difference < tolerance, entry
