"""AdamW against optax's, and that scanned layers train as looped ones."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from transformer_zoo.training import schedules
from transformer_zoo.training.adamw import adamw


def draw(shape, seed):
  return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def updates_of(optimizer, params, steps=4):
  state, found = optimizer.init(params), []
  for step in range(steps):
    gradients = {
      name: draw(value.shape, step) * 10.0**step
      for name, value in params.items()
    }
    updates, state = optimizer.update(gradients, state, params)
    found.append(updates)
  return found


def test_equals_optax_with_bias_correction_and_decay_of_matrices():
  params = {"kernel": draw((4, 3), 0), "scale": draw((3,), 1)}
  schedule = schedules.rsqrt(base=0.1, warmup_steps=2)
  expected = optax.adamw(schedule, mask={"kernel": True, "scale": False})
  for ours, theirs in zip(
    updates_of(adamw(schedule), params),
    updates_of(expected, params),
    strict=True,
  ):
    np.testing.assert_allclose(ours["kernel"], theirs["kernel"], rtol=1e-6)
    np.testing.assert_allclose(ours["scale"], theirs["scale"], rtol=1e-6)


def test_the_first_step_is_as_long_as_the_rate():
  optimizer = adamw(schedules.constant(0.01), weight_decay=0.0)
  (update,) = updates_of(optimizer, {"scale": jnp.ones(5)}, steps=1)
  np.testing.assert_allclose(np.abs(update["scale"]), 0.01, rtol=1e-4)


def test_scales_of_stacked_layers_do_not_decay():
  layer = {"kernel": draw((2, 4, 3), 0), "scale": draw((2, 3), 1)}
  optimizer = adamw(schedules.constant(1.0), weight_decay=0.5)
  params = {"layers": layer}
  zeros = jax.tree.map(jnp.zeros_like, params)
  updates, _ = optimizer.update(zeros, optimizer.init(params), params)
  np.testing.assert_allclose(updates["layers"]["kernel"], -layer["kernel"] / 2)
  assert not np.any(updates["layers"]["scale"])


def test_gradients_are_clipped_together():
  params = {"a": jnp.ones(3), "b": jnp.ones(4)}
  gradients = jax.tree.map(lambda x: 100.0 * x, params)
  optimizer = adamw(schedules.constant(), clip_norm=1.0, b1=0.0)
  _, state = optimizer.update(gradients, optimizer.init(params), params)
  moments = optax.tree.get(state, "nu")
  total = sum(float(jnp.sum(v)) for v in moments.values())
  assert total == pytest.approx(1e-3, rel=1e-5)
