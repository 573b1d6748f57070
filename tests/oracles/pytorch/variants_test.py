"""Variants without a class of their own, and classes that are our parts, live.

What they compute in a padded batch is recorded by

  .venv/bin/python -m tests.oracles.pytorch.record_variants
"""

import functools

import pytest

from tests import tiny_t5
from tests.golden import variants
from tests.oracles.pytorch import variants as theirs

LOGITS_TOLERANCE = 2e-5
GRADIENT_TOLERANCE = 1e-4
# Scanned, a model's layers are compiled once.
outputs = variants.of_scanned(variants.outputs, gradient=True)
# Of packed rows as of others: packing is ours alone.
expected_of = functools.cache(theirs.expected)


@pytest.mark.parametrize(
  ("name", "packing"),
  [
    *((name, False) for name in variants.VARIANTS),
    *((name, True) for name in variants.WITHOUT_CLASS),
  ],
)
def test_logits_loss_and_gradient(name, packing, report):
  expected = expected_of(name)
  found = outputs(*variants.setting(name, packing=packing))
  assert set(found) == set(expected)
  differences = {
    entry: tiny_t5.largest_difference(found[entry], expected[entry])
    for entry in expected
    # It cancels in the softmax: what is left of its gradient is rounding.
    if not entry.endswith("key/bias")
  }
  logits, loss = differences.pop("logits"), differences.pop("loss")
  worst = max(differences, key=differences.get)
  report("logits", logits)
  report("loss", loss)
  report(worst, differences[worst])
  assert logits < LOGITS_TOLERANCE
  assert loss < 1e-5
  assert differences[worst] < GRADIENT_TOLERANCE, worst
