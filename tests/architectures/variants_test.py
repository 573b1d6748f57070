"""Properties of every shipped architecture, and of two with many parts."""

import numpy as np
import pytest

from tests import tiny_models

# Other parts look at one token.
PARTS = [
  part
  for part in tiny_models.PARTS
  if part.startswith(("attention/", "connections/", "positions/"))
  or part in tiny_models.WITH_EXPERTS
] + tiny_models.LAYERS
# They see one token at a time: two stacks of them are enough.
CONNECTIONS = [part for part in PARTS if part.startswith("connections/")]
WITH_LSTM = ("lm", tiny_models.LSTM)
OF_STACKS = [
  ("t5_1_0", part)
  for part in (
    *(*tiny_models.STACKS, *tiny_models.SEVERAL_STREAMS),
    *tiny_models.OF_ENCODERS,
  )
  if part not in tiny_models.UNPACKED
]
# (variant, whether its layers are scanned): each part in a looped stack, and in
# two that are scanned.
VARIANTS = [
  *(((name,), False) for name in tiny_models.ARCHITECTURES),
  (WITH_LSTM, False),
  *((variant, False) for variant in OF_STACKS),
  *((("lm", part), False) for part in PARTS if part not in CONNECTIONS),
  *((("t5_1_0", part), True) for part in PARTS),
]
# The others are looped or scanned above: these are both.
WHOLE = [
  *(
    (name,)
    for name in tiny_models.ARCHITECTURES
    if name not in tiny_models.UNSCANNED
  ),
  WITH_LSTM,
  *OF_STACKS,
]
WIDTH = 40


def named(variant):
  return "-".join(variant) if isinstance(variant, tuple) else None


def setting(variant, *, scan: bool):
  """(batch -> logits, what makes batches)."""
  # One layer of a part in a loop: there are two of it in a scan.
  whole = (WITH_LSTM, *OF_STACKS)
  of_part = len(variant) > 1 and not scan and variant not in whole
  layers = {"NUM_DECODER_LAYERS": 1} if of_part else {}
  model, converter = tiny_models.build(*variant, **layers)
  params = tiny_models.random_parameters(model)
  if scan:
    model, _ = tiny_models.build(*variant, SCAN_LAYERS=True)
    params = tiny_models.stack_layers(params)
  forward = tiny_models.forward(model)
  return lambda batch: np.asarray(forward(params, batch)), converter


def alone_and_packed(converter):
  """Each example in a row, and all of them in the last row.

  What tells the examples of a packed row apart is said of the others too, so
  that a compiled program serves both.
  """
  examples = tiny_models.random_examples()
  alone, packed = (
    tiny_models.lay_out(converter, examples, packing=packing, width=WIDTH)
    for packing in (False, True)
  )
  for side, tokens in (("encoder", "input"), ("decoder", "target")):
    if f"{side}_segment_ids" in packed:
      real = alone[f"{side}_{tokens}_tokens"] != 0
      alone[f"{side}_segment_ids"] = real.astype(np.int32)
      alone[f"{side}_positions"] = real * np.arange(
        real.shape[1], dtype=np.int32
      )
  assert alone.keys() == packed.keys()
  return {
    name: np.concatenate([rows, packed[name]]) for name, rows in alone.items()
  }


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "scan"), VARIANTS, ids=named)
def test_causality_padding_and_packing(variant, scan):
  """Every compiled program serves all that it can: so one test."""
  logits_of, converter = setting(variant, scan=scan)
  batch = alone_and_packed(converter)
  logits = logits_of(batch)
  assert np.isfinite(logits).all()
  real = batch["decoder_target_tokens"] != 0

  # A later token of the targets changes no logit before it.
  last = np.flatnonzero(batch["decoder_loss_weights"][0])[-1]
  later = logits_of(changed(batch, (0, last)))
  np.testing.assert_array_equal(later[0, :last], logits[0, :last])
  np.testing.assert_array_equal(later[1:], logits[1:])
  assert (later[0, last] != logits[0, last]).any()

  # The first token changes all after it.
  earlier = logits_of(changed(batch, (0, 0)))
  assert (earlier[0] != logits[0])[: last + 1].any(axis=-1).all()
  np.testing.assert_array_equal(earlier[1:], logits[1:])

  # What the decoder reads at padding changes nothing.
  other_padding = logits_of(changed(batch, ~real))
  np.testing.assert_array_equal(other_padding[real], logits[real])

  # All examples in one row, and padding after them, count as they do in rows
  # of their own.
  *alone, packed = (
    tiny_models.loss_sum(logits[[row]], {k: v[[row]] for k, v in batch.items()})
    for row in range(len(logits))
  )
  assert not real[-1].all()
  np.testing.assert_allclose(packed, sum(alone), rtol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("variant", WHOLE, ids=named)
def test_scanned_layers_in_rows_without_segments_are_looped_ones(variant):
  scanned, converter = setting(variant, scan=True)
  looped, _ = setting(variant, scan=False)
  batch = alone_and_packed(converter)
  expected = looped(batch)[:-1]
  rows = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=False, width=17
  )
  found = scanned(rows)
  np.testing.assert_allclose(
    found[rows["decoder_target_tokens"] != 0],
    expected[batch["decoder_target_tokens"][:-1] != 0],
    rtol=1e-4,
    atol=1e-5 * np.abs(expected).max(),
  )


def changed(batch, places):
  """The batch with other tokens read at these places of the decoder."""
  tokens = batch["decoder_input_tokens"].copy()
  tokens[places] = (tokens[places] + 1) % tiny_models.TINY["VOCAB_SIZE"]
  return {**batch, "decoder_input_tokens": tokens}
