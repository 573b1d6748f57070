"""Packing changes where a token stands and not what it costs."""

import numpy as np
import pytest
import scipy.special

from tests import tiny_t5
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features.converters import EncoderDecoder
from transformer_zoo.data.loader.packing import pack


def draw(rng, longest):
  """Ids of 24 examples, EOS at their ends."""
  return Ragged.of(
    [
      np.append(rng.integers(3, 96, rng.integers(longest)), 1)
      for _ in range(24)
    ]
  )


def costs_of_tokens(model, params, batch):
  """Negative log-likelihood of every target, example by example."""
  logits = tiny_t5.logits(
    model,
    params,
    batch,
    encoder_segment_ids=batch.get("encoder_segment_ids"),
    decoder_segment_ids=batch.get("decoder_segment_ids"),
  )
  likelihoods = scipy.special.log_softmax(logits, axis=-1)
  targets = batch["decoder_target_tokens"][..., None]
  nll = -np.take_along_axis(likelihoods, targets, axis=-1)[..., 0]
  return nll[batch["decoder_loss_weights"] == 1]


@pytest.mark.slow
def test_packed_tokens_cost_what_they_do_in_rows_of_their_own():
  model = tiny_t5.build(NUM_ENCODER_LAYERS=1, NUM_DECODER_LAYERS=1)
  params = tiny_t5.random_parameters(model)
  rng = np.random.default_rng(0)
  examples = {"inputs": draw(rng, 14), "targets": draw(rng, 8)}
  lengths = np.stack([part.lengths for part in examples.values()], axis=1)
  converter = EncoderDecoder()
  packed_widths = {"inputs": 30, "targets": 24}
  rows, num_rows = pack(lengths[None], converter.capacities(packed_widths))
  order = np.argsort(rows[0], kind="stable")
  assert num_rows[0] < 16  # rows are shared

  apart = converter(
    {name: part.take(order) for name, part in examples.items()},
    np.arange(24),
    num_rows=24,
    lengths={"inputs": 14, "targets": 8},
    packing=False,
    pad_id=0,
  )
  packed = converter(
    {name: part.take(order) for name, part in examples.items()},
    rows[0][order],
    num_rows=int(num_rows[0]),
    lengths=packed_widths,
    packing=True,
    pad_id=0,
  )
  np.testing.assert_allclose(
    costs_of_tokens(model, params, packed),
    costs_of_tokens(model, params, apart),
    rtol=2e-5,
  )
