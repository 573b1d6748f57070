"""An ensemble predicts by the mean of its members' logits."""

import functools

import jax
import numpy as np
import pytest
import scipy.special

from tests import tiny_models
from transformer_zoo.architectures.ensemble import Ensemble
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.objectives import sequence_to_sequence

LENGTH = 6
# Padding that is made would be no target.
GREEDY = DecodingOptions(forbidden_ids=(0,))
BEAMS = DecodingOptions(forbidden_ids=(0,), num_beams=3, num_return=3)
SMALL = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}
# Of other sizes, activations and softmaxes, scanned and looped; and the same
# model twice.
MEMBERS = {
  "encoder_decoder": (
    BEAMS,
    ("t5_1_1", {**SMALL, "SCAN_LAYERS": True}),
    ("t5_1_0", {**SMALL, "EMBED_DIM": 16, "NUM_HEADS": 2}),
  ),
  "prefix_lm": (
    GREEDY,
    ("prefix_lm", {"NUM_DECODER_LAYERS": 1}),
    ("prefix_lm", {"NUM_DECODER_LAYERS": 1}),
  ),
}


@pytest.fixture(scope="module", params=MEMBERS)
def ensemble(request):
  """Models, their parameters, a search, examples, and what makes a batch."""
  options, *members = MEMBERS[request.param]
  built = [tiny_models.build(name, **sizes) for name, sizes in members]
  models = tuple(model for model, _ in built)
  params = [
    jax.tree.map(lambda x, i=i: x * 0.9**i, tiny_models.random_parameters(m))
    for i, m in enumerate(models)
  ]
  examples = tiny_models.random_examples(4)
  lay_out = functools.partial(
    tiny_models.lay_out, built[0][1], packing=False, width=16
  )
  return models, params, options, examples, lay_out


def mean_logits(models, params, batch):
  """Logits [B, L, V] by each member alone, averaged afterwards."""

  def each(params):
    return [
      model.apply({"params": own}, batch, method="all_logits")["tokens"]
      for model, own in zip(models, params, strict=True)
    ]

  return np.mean(jax.jit(each)(params), axis=0)


def together(params):
  return {f"members_{i}": each for i, each in enumerate(params)}


def sums_of(models, params, batch):
  of_batch = functools.partial(
    sequence_to_sequence.example_sums, Ensemble.of(models)
  )
  return jax.jit(of_batch)(together(params), batch)


@pytest.mark.slow
def test_generates_and_scores_by_mean_logits(ensemble, monkeypatch):
  models, params, options, examples, lay_out = ensemble
  inputs_BM, _ = examples["inputs"].padded(9, 0)
  decode = jax.jit(
    functools.partial(
      generate, Ensemble.of(models), max_length=LENGTH, options=options
    )
  )
  found = decode(together(params), inputs_BM)
  tokens_BNL = np.asarray(found.tokens)
  rows, number, _ = tokens_BNL.shape
  targets = [up_to_the_end(ids) for ids in tokens_BNL.reshape(-1, LENGTH)]
  repeated = np.repeat(np.arange(rows), number)
  batch = lay_out(
    {
      "inputs": examples["inputs"].take(repeated),
      "targets": Ragged.of(targets),
    }
  )
  # What was made is scored with teacher forcing by each member alone.
  logits_BLV = mean_logits(models, params, batch)
  log_probs_BLV = scipy.special.log_softmax(logits_BLV, axis=-1)
  targets_BL1 = batch["decoder_target_tokens"][..., None]
  weights_BL = batch["decoder_loss_weights"]
  nll_BL = -np.take_along_axis(log_probs_BLV, targets_BL1, axis=-1)[..., 0]
  nll_B = np.sum(nll_BL * weights_BL, axis=1)
  np.testing.assert_allclose(
    found.log_likelihoods.reshape(-1), -nll_B, rtol=1e-4
  )
  if options is GREEDY:
    likeliest_BL = 1 + logits_BLV[..., 1:].argmax(-1)
    wrong_BL = likeliest_BL != targets_BL1[..., 0]
    assert not np.any(wrong_BL & (weights_BL > 0))
  # Fewer than the targets, whose logits are made one chunk after another.
  monkeypatch.setattr(sequence_to_sequence, "LOGITS_CHUNK", 8)
  sums = sums_of(models, params, batch)
  np.testing.assert_allclose(sums["loss_sum"], nll_B, rtol=1e-5)
  correct_BL = np.argmax(logits_BLV, axis=-1) == targets_BL1[..., 0]
  np.testing.assert_array_equal(
    sums["correct_sum"], np.sum(correct_BL * weights_BL, axis=1)
  )


def up_to_the_end(ids_L):
  ended = np.flatnonzero(ids_L == 1)
  return ids_L[: ended[0] + 1] if ended.size else ids_L
