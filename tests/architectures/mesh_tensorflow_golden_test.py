"""Modifications of T5 against recorded outputs of Mesh TensorFlow.

tests/golden/mesh_tensorflow.py says of which;
tests/oracles/mesh_tensorflow/record.py records them, and
mesh_tensorflow_test.py beside it sees that they still are its outputs.
"""

import pytest

from tests.golden import mesh_tensorflow as golden
from tests.golden import variants


@pytest.mark.parametrize(
  ("name", "gradient"), variants.cases(golden.VARIANTS, golden.ONE_OF_EACH_KIND)
)
def test_outputs_and_gradient_equal_the_recorded_ones(name, gradient):
  compute = variants.of_scanned(variants.outputs_with_costs, gradient=gradient)
  model, params, batch = golden.setting(name)
  found = compute(model, params, batch)
  variants.assert_recorded(golden.path(name), params, batch, found)
