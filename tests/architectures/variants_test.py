"""Properties of every shipped architecture, and of one with every part."""

import numpy as np
import pytest

from tests import tiny_models

VARIANTS = [(name,) for name in tiny_models.ARCHITECTURES] + [
  (architecture, part)
  for part in tiny_models.PARTS
  for architecture in ("t5_1_0", "lm")
]

every_variant = pytest.mark.parametrize(
  "variant", VARIANTS, ids=lambda variant: "-".join(variant)
)


@every_variant
def test_packing_scanning_and_causality(variant):
  """One model is compiled three times, so the properties share a test."""
  model, converter = tiny_models.build(*variant)
  params = tiny_models.random_parameters(model)
  examples = tiny_models.random_examples()
  batch = tiny_models.lay_out(converter, examples, packing=False)
  logits = tiny_models.logits(model, params, batch)
  assert np.isfinite(logits).all()

  # A later token of the targets changes no logit before it.
  last = np.flatnonzero(batch["decoder_loss_weights"][0])[-1]
  changed = {name: value.copy() for name, value in batch.items()}
  changed["decoder_input_tokens"][0, last] += 1
  later = tiny_models.logits(model, params, changed)
  np.testing.assert_array_equal(later[0, :last], logits[0, :last])
  np.testing.assert_array_equal(later[1:], logits[1:])
  assert (later[0, last] != logits[0, last]).any()

  # All examples in one row count as they do in rows of their own.
  packed = tiny_models.lay_out(converter, examples, packing=True)
  np.testing.assert_allclose(
    tiny_models.loss_sum(model, params, packed),
    tiny_models.loss_sum(model, params, batch),
    rtol=2e-6,
  )

  scanned, _ = tiny_models.build(*variant, SCAN_LAYERS=True)
  stacked = tiny_models.stack_layers(params)
  np.testing.assert_allclose(
    tiny_models.logits(scanned, stacked, batch),
    logits,
    rtol=1e-4,
    atol=1e-5 * np.abs(logits).max(),
  )
