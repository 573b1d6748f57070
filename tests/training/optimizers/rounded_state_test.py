"""Optimizer state in bfloat16: half of the bytes, and training that goes on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from transformer_zoo.errors import UserError
from transformer_zoo.training.optimizers import rounded_state
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.optimizers.adam import adamw

SEED = np.uint32(12345)


def state_bytes(state):
  return sum(leaf.nbytes for leaf in jax.tree.leaves(state) if leaf.ndim)


def test_rounding_is_right_on_average_and_to_a_neighbour():
  # An eighth of the way to 1 + 1 / 128.
  x = np.full((20_000,), 1 + 1 / 1024, np.float32)
  rounded = np.asarray(programs.run(rounded_state.stochastically, x, SEED))
  rounded = rounded.astype(np.float32)
  assert set(np.unique(rounded)) == {1.0, 1 + 1 / 128}
  # Six standard deviations of a mean of independent draws.
  assert np.mean(rounded) == pytest.approx(1 + 1 / 1024, abs=1.1e-4)
  upwards = np.asarray(rounded > 1.0, np.float32)
  assert abs(np.corrcoef(upwards[1:], upwards[:-1])[0, 1]) < 0.05


def test_what_needs_no_rounding_stays():
  x = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan], np.float32)
  rounded = np.asarray(programs.run(rounded_state.stochastically, x, SEED))
  np.testing.assert_array_equal(rounded.astype(np.float32), x)


def test_a_slow_average_is_followed():
  """Rounded to the nearest, it would stay at 1."""
  optimizer = adamw(schedules.constant(), state_dtype="bfloat16")
  params = {"kernel": np.ones((64, 64), np.float32)}
  state = jax.jit(optimizer.init)(params)
  update = jax.jit(optimizer.update)
  sizes = [1.0] * 3 + [0.0] * 400
  for size in sizes:
    _, state = update(
      {"kernel": np.full((64, 64), size, np.float32)}, state, params
    )
  (second_moments,) = (
    leaf.nu["kernel"] for leaf in state.inner if hasattr(leaf, "nu")
  )
  expected = (1 - 0.999**3) * 0.999**400
  assert second_moments.dtype == jnp.bfloat16
  mean = np.mean(np.asarray(second_moments).astype(np.float32))
  assert mean == pytest.approx(expected, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("make", [adafactor, adamw], ids=["adafactor", "adamw"])
def test_halves_the_state_and_still_learns(make):
  """A linear map is learnt nearly as well as with float32."""
  rng = np.random.default_rng(0)
  inputs = rng.standard_normal((256, 128), dtype=np.float32)
  targets = inputs @ rng.standard_normal((128, 128), dtype=np.float32)

  @jax.jit
  def loss(params):
    return jnp.mean((inputs @ params["kernel"] - targets) ** 2)

  def train(dtype):
    optimizer = make(schedules.constant(0.05), state_dtype=dtype)

    def step(_, carry):
      params, state = carry
      gradients = jax.grad(loss)(params)
      updates, state = optimizer.update(gradients, state, params)
      return jax.tree.map(jnp.add, params, updates), state

    @jax.jit
    def trained(params):
      carry = params, optimizer.init(params)
      params, state = jax.lax.fori_loop(0, 80, step, carry)
      return loss(params), state

    found, state = trained({"kernel": np.full((128, 128), 0.5, np.float32)})
    return found, state_bytes(state)

  (full_loss, full_bytes), (half_loss, half_bytes) = map(
    train, ("float32", "bfloat16")
  )
  assert half_bytes == full_bytes / 2
  start = loss({"kernel": np.full((128, 128), 0.5, np.float32)})
  assert full_loss < start / 10
  assert half_loss < 1.2 * full_loss + start / 100


def test_an_unknown_dtype_is_refused():
  with pytest.raises(UserError) as caught:
    adamw(schedules.constant(), state_dtype="float16")
  assert str(caught.value) == (
    "unknown state_dtype 'float16' of an optimizer; allowed: float32, bfloat16"
  )
