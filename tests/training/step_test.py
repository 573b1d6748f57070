"""The training step: sums, precision, donation, and that a model learns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import tiny_models
from tests import tiny_t5
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.state import TrainState
from transformer_zoo.training.step import train_step

KEY = jax.random.key(1)


def make_step(model, optimizer, **keywords):
  return jax.jit(
    functools.partial(
      train_step,
      objective=functools.partial(SequenceToSequence(**keywords), model),
      optimizer=optimizer,
    ),
    donate_argnums=0,
  )


SGD = optax.sgd(0.0)
ADAFACTOR = adafactor(schedules.constant(0.1))


@functools.cache
def _initial(model, optimizer):
  params = tiny_models.random_parameters(model)
  opt_state = jax.device_get(jax.jit(optimizer.init)(params))
  return TrainState(np.int32(0), params, opt_state)


def initial(model, optimizer):
  """The state at step 0, which may be donated."""
  return jax.device_put(_initial(model, optimizer))


@pytest.fixture(scope="module")
def model(make_small):
  return make_small(DROPOUT_RATE=0.0)


@pytest.fixture(scope="module")
def params(model):
  return tiny_models.random_parameters(model)


@pytest.fixture(scope="module")
def objective(model):
  return jax.jit(
    functools.partial(tiny_t5.loss_and_sums, model),
    static_argnames="z_loss",
  )


@pytest.mark.slow
def test_sums_are_over_targets_and_divided_once(
  objective, params, packed_batch
):
  weights = packed_batch["decoder_loss_weights"]
  # Rows of very different weight.
  weights = weights * (np.cumsum(weights, axis=1) <= [[3]] * 4 + [[12]] * 4)

  def of_rows(rows):
    return objective(
      params, {**packed_batch, "decoder_loss_weights": weights * rows}
    )

  first = np.arange(8)[:, None] < 4
  loss, sums = of_rows(np.ones((8, 1)))
  halves = [of_rows(first), of_rows(~first)]
  for name, value in sums.items():
    parts = [float(half[name]) for _, half in halves]
    assert value == pytest.approx(sum(parts), rel=1e-5), name
  total = sums["loss_sum"] + sums["z_loss_sum"]
  assert loss == pytest.approx(float(total / sums["weight_sum"]), rel=1e-6)
  mean_of_means = np.mean([float(half) for half, _ in halves])
  assert abs(loss - mean_of_means) > 1e-4
  assert sums["weight_sum"] == weights.sum()


@pytest.mark.slow
def test_z_loss_is_apart_from_the_loss_that_is_reported(
  objective, params, packed_batch
):
  loss, sums = objective(params, packed_batch, z_loss=1e-4)
  plain_loss, plain_sums = objective(params, packed_batch, z_loss=0.0)
  assert sums["loss_sum"] == plain_sums["loss_sum"]
  assert plain_sums["z_loss_sum"] == 0.0
  more = sums["z_loss_sum"] / sums["weight_sum"]
  assert loss - plain_loss == pytest.approx(float(more), rel=1e-2)


@pytest.mark.slow  # Unpacked: sequence_to_sequence_test.py.
def test_an_empty_batch_has_no_loss_and_no_nan(objective, params, packed_batch):
  empty = {key: np.zeros_like(value) for key, value in packed_batch.items()}
  loss, sums = objective(params, empty)
  assert loss == 0.0 and sums["weight_sum"] == 0.0


def test_metrics_step_and_donation(model, packed_batch):
  optimizer = ADAFACTOR
  state = initial(model, optimizer)
  before = state.params["token_embedder"]["embedding"]
  state, sums = make_step(model, optimizer)(state, packed_batch, KEY)
  assert set(sums) == {
    "loss_sum",
    "z_loss_sum",
    "correct_sum",
    "weight_sum",
    "loss",
    "gradient_norm",
  }
  assert state.step == 1 and state.step.dtype == jnp.int32
  assert before.is_deleted()
  assert sums["gradient_norm"] > 0


@pytest.mark.slow
def test_dropout_depends_on_the_step_alone(make_small, packed_batch):
  model = make_small(DROPOUT_RATE=0.3)
  optimizer = SGD
  step = make_step(model, optimizer)

  def losses(first_step, steps):
    state = initial(model, optimizer)
    state = state.replace(step=jnp.int32(first_step))
    found = []
    for _ in range(steps):
      state, sums = step(state, packed_batch, KEY)
      found.append(float(sums["loss_sum"]))
    return found

  all_losses = losses(0, 3)
  assert len(set(all_losses)) == 3
  assert losses(2, 1) == all_losses[2:]  # As after a restart.


@pytest.mark.slow
def test_bfloat16_computes_but_does_not_store(
  make_small, objective, params, packed_batch
):
  lower = make_small(DTYPE="bfloat16", DROPOUT_RATE=0.0)
  optimizer = ADAFACTOR
  state = initial(lower, optimizer)
  state, sums = make_step(lower, optimizer)(state, packed_batch, KEY)
  for leaf in jax.tree.leaves((state.params, state.opt_state.moments)):
    assert leaf.dtype == jnp.float32
  _, expected = objective(params, packed_batch)
  assert sums["loss_sum"].dtype == jnp.float32
  assert sums["loss_sum"] != expected["loss_sum"]
  assert sums["loss_sum"] == pytest.approx(
    float(expected["loss_sum"]), rel=1e-2
  )


@pytest.mark.slow
def test_learns_to_copy(make_model):
  model = make_model(EMBED_DIM=32, MLP_DIM=64, NUM_HEADS=4, HEAD_DIM=8)
  optimizer = adafactor(schedules.constant(0.03))
  rng = np.random.default_rng(0)
  rows = np.arange(32)

  def draw():
    tokens = [
      np.append(rng.integers(3, 12, 3), 1).astype(np.int32) for _ in rows
    ]
    return converters.EncoderDecoder()(
      {"inputs": Ragged.of(tokens), "targets": Ragged.of(tokens)},
      rows,
      num_rows=32,
      lengths={"inputs": 4, "targets": 4},
      packing=False,
      pad_id=0,
    )

  step = make_step(model, optimizer)
  initial_state = functools.partial(state_lib.initial_state, model, optimizer)
  state = jax.jit(initial_state)(jax.random.key(0))
  losses, accuracies = [], []
  for _ in range(300):
    state, sums = step(state, draw(), KEY)
    losses.append(float(sums["loss_sum"] / sums["weight_sum"]))
    accuracies.append(float(sums["correct_sum"] / sums["weight_sum"]))
  # Guessing among nine tokens, EOS known, costs 3/4 ln 9 = 1.65 nats.
  assert losses[0] > 3.0
  assert np.mean(losses[-20:]) < 0.4
  assert np.mean(accuracies[-20:]) > 0.85
