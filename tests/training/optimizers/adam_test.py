"""Adam and AdamW against optax's, and what decays."""

import jax
import numpy as np
import optax

from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adam import adam
from transformer_zoo.training.optimizers.adam import adamw


def draw(shape, seed):
  return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def updates_of(optimizer, params, steps=4):
  state, found = jax.jit(optimizer.init)(params), []
  update = jax.jit(optimizer.update)
  for step in range(steps):
    gradients = {
      name: draw(value.shape, step) * 10.0**step
      for name, value in params.items()
    }
    updates, state = update(gradients, state, params)
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


def test_adam_equals_optax():
  params = {"kernel": draw((4, 3), 0), "scale": draw((3,), 1)}
  schedule = schedules.rsqrt(base=0.1, warmup_steps=2)
  ours = adam(schedule, b1=0.8, b2=0.98, epsilon=1e-6)
  expected = optax.adam(schedule, b1=0.8, b2=0.98, eps=1e-6)
  for found, wanted in zip(
    updates_of(ours, params), updates_of(expected, params), strict=True
  ):
    for name in params:
      np.testing.assert_allclose(found[name], wanted[name], rtol=1e-6)


def test_without_bias_correction_equals_its_formula():
  """BERT's `AdamWeightDecayOptimizer`, in a few lines of numpy."""
  b1, b2, epsilon, decay, rate = 0.9, 0.999, 1e-6, 0.01, 0.1
  params = {"kernel": draw((4, 3), 0), "scale": draw((3,), 1)}
  optimizer = adamw(
    schedules.constant(rate),
    epsilon=epsilon,
    weight_decay=decay,
    bias_correction=False,
  )
  first = dict.fromkeys(params, 0.0)
  second = dict.fromkeys(params, 0.0)
  for step, found in enumerate(updates_of(optimizer, params)):
    for name, value in params.items():
      gradient = draw(value.shape, step) * 10.0**step
      first[name] = b1 * first[name] + (1 - b1) * gradient
      second[name] = b2 * second[name] + (1 - b2) * gradient**2
      direction = first[name] / (np.sqrt(second[name]) + epsilon)
      direction += decay * value * (name == "kernel")
      np.testing.assert_allclose(found[name], -rate * direction, rtol=1e-5)


def test_the_first_step_is_as_long_as_the_rate():
  optimizer = adamw(schedules.constant(0.01), weight_decay=0.0)
  (update,) = updates_of(optimizer, {"scale": np.ones(5, np.float32)}, steps=1)
  np.testing.assert_allclose(np.abs(update["scale"]), 0.01, rtol=1e-4)


def test_scales_of_stacked_layers_do_not_decay():
  layer = {"kernel": draw((2, 4, 3), 0), "scale": draw((2, 3), 1)}
  optimizer = adamw(schedules.constant(1.0), weight_decay=0.5)
  params = {"layers": layer}
  zeros = jax.tree.map(np.zeros_like, params)

  @jax.jit
  def updates_of(zeros, params):
    return optimizer.update(zeros, optimizer.init(params), params)[0]

  updates = updates_of(zeros, params)
  np.testing.assert_allclose(updates["layers"]["kernel"], -layer["kernel"] / 2)
  assert not np.any(updates["layers"]["scale"])
