"""Properties of every shipped architecture, and of two with many parts."""

import numpy as np
import pytest

from tests import tiny_models

# Other parts look at one token.
PARTS = [
  part
  for part in tiny_models.PARTS
  if part.startswith(("attention/", "connections/", "positions/"))
]
VARIANTS = [(name,) for name in tiny_models.ARCHITECTURES] + [
  (architecture, part) for part in PARTS for architecture in ("t5_1_0", "lm")
]
VARIANTS.append(("lm", tiny_models.LSTM))

every_variant = pytest.mark.parametrize(
  "variant", VARIANTS, ids=lambda variant: "-".join(variant)
)


@pytest.mark.slow
@every_variant
def test_causality_padding_packing_and_scanning(variant):
  """Every compiled program serves all that it can: so one test."""
  model, converter = tiny_models.build(*variant)
  params = tiny_models.random_parameters(model)
  examples = tiny_models.random_examples()
  batch = tiny_models.lay_out(converter, examples, packing=False)
  forward = tiny_models.forward(model)
  logits = np.asarray(forward(params, batch))
  assert np.isfinite(logits).all()
  real = batch["decoder_target_tokens"] != 0

  # A later token of the targets changes no logit before it.
  last = np.flatnonzero(batch["decoder_loss_weights"][0])[-1]
  later = forward(params, changed(batch, (0, last)))
  np.testing.assert_array_equal(later[0, :last], logits[0, :last])
  np.testing.assert_array_equal(later[1:], logits[1:])
  assert (later[0, last] != logits[0, last]).any()

  # What the decoder reads at padding changes nothing.
  other_padding = np.asarray(forward(params, changed(batch, ~real)))
  np.testing.assert_array_equal(other_padding[real], logits[real])

  # All examples in one row, and padding after them, count as they do in rows
  # of their own.
  packed = tiny_models.lay_out(converter, examples, packing=True)
  assert (packed["decoder_target_tokens"] == 0).any()
  np.testing.assert_allclose(
    tiny_models.loss_sum(forward(params, packed), packed),
    tiny_models.loss_sum(logits, batch),
    rtol=2e-6,
  )

  # Scanned layers in wider rows equal looped ones in narrow rows.
  scanned, _ = tiny_models.build(*variant, SCAN_LAYERS=True)
  wider = tiny_models.lay_out(converter, examples, packing=False, width=17)
  found = tiny_models.forward(scanned)(tiny_models.stack_layers(params), wider)
  np.testing.assert_allclose(
    np.asarray(found)[wider["decoder_target_tokens"] != 0],
    logits[real],
    rtol=1e-4,
    atol=1e-5 * np.abs(logits).max(),
  )


def changed(batch, places):
  """The batch with other tokens read at these places of the decoder."""
  tokens = batch["decoder_input_tokens"].copy()
  tokens[places] = (tokens[places] + 1) % tiny_models.TINY["VOCAB_SIZE"]
  return {**batch, "decoder_input_tokens": tokens}
