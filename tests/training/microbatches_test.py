"""A batch in parts: the gradient, the sums and the masks of the whole."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.errors import UserError
from transformer_zoo.modules import dropout as dropout_lib
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.objectives.terms import Term
from transformer_zoo.training import state as state_lib
from transformer_zoo.training import step as step_lib
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import Partitioning

KEY = jax.random.key(1)


@pytest.fixture(scope="module")
def batch(packed_batch):
  """Rows of very different weight; those of every fourth have none."""
  weights = packed_batch["decoder_loss_weights"]
  most = np.array([[1], [4], [12], [0]] * 2)
  weights = weights * (np.cumsum(weights, axis=1) <= most)
  return {**packed_batch, "decoder_loss_weights": weights}


@jax.jit
def two_terms(params, batch, key):
  """Of rows of different weight in each, with factors of their own."""
  del key
  errors_B = batch["x"] @ params - batch["y"]
  return {
    name: Term(
      jnp.sum(batch[name] * of_rows), jnp.sum(batch[name]), {}, scale=scale
    )
    for name, of_rows, scale in (
      ("squares", errors_B**2, 0.5),
      ("waves", jnp.sin(errors_B), 3.0),
    )
  }


def test_parts_give_the_gradient_of_the_whole(assert_close):
  random = np.random.RandomState(0)
  batch = {
    "x": random.randn(8, 3),
    "y": random.randn(8),
    "squares": np.array([1, 4, 12, 0] * 2),
    "waves": np.array([2, 0, 0, 9, 0, 0, 5, 0]),
  }
  batch = {name: x.astype(np.float32) for name, x in batch.items()}
  gradients_of = jax.jit(
    functools.partial(step_lib.gradients_of, two_terms),
    static_argnames="num_microbatches",
  )
  params = random.randn(3).astype(np.float32)
  whole, *parts = (
    gradients_of(params, batch, KEY, num_microbatches=number)
    for number in (1, 2, 4)
  )
  for each in parts:
    assert_close(each, whole, tolerance=5e-6)


@pytest.mark.slow
def test_parts_on_a_mesh_give_the_gradient_of_the_whole(
  make_small, batch, assert_close
):
  model = make_small(DROPOUT_RATE=0.3, SCAN_LAYERS=True, REMAT="minimal")
  params = tiny_models.random_parameters(model)

  def gradients_of(params, batch, **parts):
    function = functools.partial(
      step_lib.gradients_of,
      functools.partial(SequenceToSequence(), model),
      **parts,
    )
    return jax.jit(function)(params, batch, KEY)

  layout = Partitioning(fsdp=2, num_partitions=2)
  mesh = layout.mesh(jax.devices()[:4])
  shardings = layout.shardings(
    mesh, state_lib.abstract_variables(model), params
  )
  with layout.activate(mesh):
    in_parts = gradients_of(
      jax.device_put(params, shardings),
      partitioning_lib.put_batch(batch, mesh),
      num_microbatches=4,
      lay_out=lambda g: jax.lax.with_sharding_constraint(g, shardings),
    )
  assert_close(in_parts, gradients_of(params, batch), tolerance=5e-6)


def test_a_batch_without_weight_has_no_gradient(packed_batch):
  def objective(params, batch, key):
    del batch, key
    return {"tokens": Term(params * 0.0, params * 0.0, {})}

  gradients, sums = jax.jit(
    functools.partial(step_lib.gradients_of, objective, num_microbatches=2)
  )(np.float32(1), packed_batch, KEY)
  assert gradients == 0.0 and sums["weight_sum"] == 0.0


def test_parts_are_dealt_out():
  parts = step_lib.split({"tokens": np.arange(12).reshape(6, 2)}, 3)
  np.testing.assert_array_equal(parts["tokens"][1], [[2, 3], [8, 9]])


@pytest.mark.parametrize("broadcast_dims", [(), (-2,), (0,)])
def test_a_row_is_dropped_out_alike_in_any_part(broadcast_dims):
  module = Dropout(rate=0.5, broadcast_dims=broadcast_dims)

  def masks(x):
    rngs = {"dropout": KEY}
    return module.apply({}, x, deterministic=False, rngs=rngs)

  @jax.jit
  def of_a_part(x, index):
    with dropout_lib.microbatch(index, 3):
      part = masks(x)
      with dropout_lib.copies(2):
        return part, masks(x)

  whole = np.asarray(jax.jit(masks)(np.ones((6, 4, 8), np.float32)))
  assert 0.0 < np.mean(whole == 0.0) < 1.0
  for index in range(3):
    part, copied = jax.device_get(
      of_a_part(np.ones((2, 4, 8), np.float32), np.int32(index))
    )
    np.testing.assert_array_equal(part, whole[index::3])
    # A row of three, of which each has two copies.
    np.testing.assert_array_equal(copied, whole[2 * index : 2 * index + 2])


class TestRefusals:
  def test_numbers_that_do_not_divide(self):
    step_lib.check_microbatches(4, 64, 8)
    with pytest.raises(UserError) as caught:
      step_lib.check_microbatches(3, 64, 8)
    assert str(caught.value) == (
      "NUM_MICROBATCHES=3 does not divide BATCH_SIZE=64 on 8 devices, 8 rows "
      "each; choose one of 1, 2, 4, 8"
    )

  def test_numbers_below_one(self):
    with pytest.raises(UserError, match="NUM_MICROBATCHES=0 does not divide"):
      step_lib.check_microbatches(0, 8, 1)
