"""The sequence-to-sequence objective: what is summed and divided."""

import functools

import jax
import numpy as np
import pytest
import scipy.special

from tests import programs
from tests import tiny_t5
from transformer_zoo.errors import UserError
from transformer_zoo.objectives import losses
from transformer_zoo.objectives import sequence_to_sequence as objectives

ONE_LAYER = {"NUM_ENCODER_LAYERS": 1, "NUM_DECODER_LAYERS": 1}


def test_sums_and_the_loss_of_a_batch_and_of_its_rows():
  model = tiny_t5.build(**ONE_LAYER)
  params = tiny_t5.random_parameters(model)
  batch = tiny_t5.random_batch()
  logits = tiny_t5.logits(model, params, batch)
  # A model that is right now and then, at places without weight too.
  targets = batch["decoder_target_tokens"]
  targets[:, ::2] = (logits.argmax(-1) * (targets > 0))[:, ::2]
  weights = batch["decoder_loss_weights"]
  weights[0, :2] = 0
  objective = functools.partial(tiny_t5.loss_and_sums, model, z_loss=1e-2)
  loss, sums = jax.device_get(jax.jit(objective)(params, batch))
  log_z = scipy.special.logsumexp(logits, axis=-1)
  chosen = np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
  nll, z = log_z - chosen, 1e-2 * np.square(log_z)
  correct = logits.argmax(-1) == targets
  expected = {
    "loss_sum": (nll * weights).sum(),
    "z_loss_sum": (z * weights).sum(),
    "correct_sum": (correct * weights).sum(),
    "weight_sum": weights.sum(),
  }
  assert set(sums) == set(expected)
  for name, value in expected.items():
    np.testing.assert_allclose(sums[name], value, rtol=1e-5, err_msg=name)
  assert 0 < sums["correct_sum"] < correct.sum()
  of_rows = programs.run(objectives.example_sums, model, params, batch)
  for name, value in {
    "loss_sum": nll * weights,
    "correct_sum": correct * weights,
    "weight_sum": weights,
  }.items():
    np.testing.assert_allclose(of_rows[name], value.sum(-1), rtol=1e-5)
  np.testing.assert_allclose(
    loss,
    (expected["loss_sum"] + expected["z_loss_sum"]) / expected["weight_sum"],
    rtol=1e-5,
  )


@pytest.mark.slow
def test_a_batch_without_weight_has_loss_zero_and_a_finite_gradient():
  model = tiny_t5.build(**ONE_LAYER)
  params = tiny_t5.random_parameters(model)
  batch = {k: np.zeros_like(v) for k, v in tiny_t5.random_batch().items()}
  objective = functools.partial(tiny_t5.loss_and_sums, model)
  (loss, _), gradient = jax.jit(jax.value_and_grad(objective, has_aux=True))(
    params, batch
  )
  assert loss == 0.0
  assert all((np.asarray(g) == 0).all() for g in jax.tree.leaves(gradient))


@pytest.mark.slow
def test_a_key_means_dropout():
  model = tiny_t5.build("t5_1_0", DROPOUT_RATE=0.3, **ONE_LAYER)
  params = tiny_t5.random_parameters(model)
  batch = tiny_t5.random_batch()

  objective = jax.jit(functools.partial(tiny_t5.loss_and_sums, model))

  def loss(key):
    return float(objective(params, batch, key)[0])

  assert loss(None) == loss(None)
  assert loss(jax.random.key(0)) == loss(jax.random.key(0))
  drawn = {loss(None), loss(jax.random.key(0)), loss(jax.random.key(1))}
  assert len(drawn) == 3


@pytest.mark.slow
def test_smoothed_labels_change_the_loss_and_no_sum():
  model = tiny_t5.build(**ONE_LAYER)
  params = tiny_t5.random_parameters(model)
  batch = tiny_t5.random_batch()
  (plain, sums), (loss, smoothed_sums) = (
    programs.run(
      tiny_t5.loss_and_sums, model, params, batch, label_smoothing=share
    )
    for share in (0.0, 0.1)
  )
  logits = tiny_t5.logits(model, params, batch)
  cost = losses.smoothing_cost(logits, batch["decoder_target_tokens"], 0.1)
  weights = batch["decoder_loss_weights"]
  added = (cost * weights).sum() / weights.sum()
  np.testing.assert_allclose(loss, plain + added, rtol=1e-5)
  jax.tree.map(np.testing.assert_array_equal, smoothed_sums, sums)


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_what_labels_cannot_be_smoothed_by(rate):
  model = tiny_t5.build(**ONE_LAYER)
  with pytest.raises(UserError, match="label_smoothing is .* below 1"):
    jax.eval_shape(
      functools.partial(tiny_t5.loss_and_sums, model, label_smoothing=rate),
      tiny_t5.random_parameters(model),
      tiny_t5.random_batch(),
    )
