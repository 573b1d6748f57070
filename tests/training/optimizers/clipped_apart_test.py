"""Gradients that are clipped part by part."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adam import adamw
from transformer_zoo.training.optimizers.clipped_apart import clipped_apart

RANDOM = np.random.RandomState(0)


def draw(scale):
  return {
    "kernel": (scale * RANDOM.randn(3, 4)).astype(np.float32),
    "bias": (scale * RANDOM.randn(4)).astype(np.float32),
  }


@functools.partial(jax.jit, static_argnums=0)
def moved(optimizer, params, gradients):
  """The parameters after three steps along growing gradients."""
  state = optimizer.init(params)
  for step in range(3):
    growing = jax.tree.map(lambda x, step=step: x * (1.0 + step), gradients)
    updates, state = optimizer.update(growing, state, params)
    params = jax.tree.map(jnp.add, params, updates)
  return params


@pytest.mark.parametrize("scales", [(10.0, 0.01), (0.01, 10.0)])
def test_parts_move_as_with_an_optimizer_of_their_own(scales):
  """One joint step is that of two optimizers, each with its own clipping."""
  rate = schedules.constant(0.1)
  params = {"generator": draw(1.0), "encoder": draw(1.0)}
  gradients = {"generator": draw(scales[0]), "encoder": draw(scales[1])}
  joint = clipped_apart(
    rate, optimizer=adamw, parts=("generator/.*",), clip_norm=1.0
  )
  found = moved(joint, params, gradients)
  one = adamw(rate, clip_norm=1.0)
  together = moved(one, params, gradients)
  differs = False
  for name in params:
    alone = moved(one, params[name], gradients[name])
    for key, value in alone.items():
      np.testing.assert_allclose(found[name][key], value, rtol=1e-5)
      differs |= not np.allclose(together[name][key], value, rtol=1e-5)
  assert differs  # Clipped together they move otherwise.


def test_small_gradients_stay_and_zeros_are_finite():
  rate = schedules.constant(0.1)
  params = {"generator": draw(1.0), "encoder": draw(1.0)}
  gradients = {
    "generator": draw(1e-3),
    "encoder": jax.tree.map(np.zeros_like, params["encoder"]),
  }
  apart = clipped_apart(
    rate, optimizer=adamw, parts=("generator/.*",), clip_norm=1.0
  )

  @functools.partial(jax.jit, static_argnums=0)
  def update(optimizer, state):
    return optimizer.update(gradients, state, params)

  found, expected = [], []
  for optimizer, updates in ((apart, found), (adamw(rate), expected)):
    state = jax.jit(optimizer.init)(params)
    for _ in range(3):
      each, state = update(optimizer, state)
      updates.append(each)
  for a, b in zip(
    jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
  ):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
  ("keywords", "expected"),
  [
    ({"parts": ("decoder/.*",)}, "'decoder/.*' matches (as a whole) no param"),
    ({"parts": ("(",)}, "'(' is no regular expression"),
    ({"clip_norm": 0.0}, "clip_norm is 0.0; it has to be above 0"),
  ],
)
def test_refusals(keywords, expected):
  keywords = {"parts": ("generator/.*",), "clip_norm": 1.0} | keywords
  with pytest.raises(UserError) as error:
    clipped_apart(schedules.constant(0.1), optimizer=adamw, **keywords).init(
      {"generator": draw(1.0)}
    )
  assert expected in str(error.value)
