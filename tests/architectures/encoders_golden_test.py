"""Encoders of config.json files against what their classes have computed.

tests/golden/encoders.py says of which; oracles/pytorch/make_goldens.py records
them with PyTorch, tests/oracles/pytorch/encoders_test.py compares live.
"""

import pytest

from tests.golden import encoders
from tests.golden import variants

# Their outputs alone: gradients are slow.
CENTRAL = (
  *("bert_pre_training", "roberta_masked", "deberta_2_convolution"),
  *("xlnet_tokens", "modernbert_masked", "albert_pre_training"),
)
# Made of what others are made of, whose gradients are compared.
PLAIN = ("bert", "bert_spans", "roberta_masked", "xlm_roberta_masked")
SLOW = [
  pytest.param(name, name not in PLAIN, marks=pytest.mark.slow)
  for name in encoders.RECORDED
  if name not in PLAIN or name not in CENTRAL
]


@pytest.mark.parametrize(
  ("name", "gradient"), [(name, False) for name in CENTRAL] + SLOW
)
def test_outputs_and_gradient_equal_the_recorded_ones(name, gradient):
  compute = variants.of_scanned(encoders.outputs, gradient=gradient)
  variants.assert_recorded(
    encoders.path(name), *encoders.setting(name)[1:], compute
  )
