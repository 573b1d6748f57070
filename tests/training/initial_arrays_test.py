"""Arrays that are drawn alike share a program; the numbers stay."""

import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo.training.initial_arrays import InitialArrays

KEY = jax.random.key(7)


def made(function):
  """The arrays of a function, and the number of programs that make them."""
  traced = jax.make_jaxpr(function)(KEY)
  device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  arrays = InitialArrays(traced, [device] * len(traced.jaxpr.outvars))
  return arrays(KEY), len(arrays._programs), arrays


def draw(key, number, scale):
  return scale * jax.random.uniform(jax.random.fold_in(key, number), (3, 2))


def test_arrays_are_those_of_one_program():
  def state(key):
    first = draw(key, 1, 0.1)
    table = jnp.asarray(np.arange(3.0))
    return (
      *(first, draw(key, 2, 0.1), draw(key, 3, 0.1), draw(key, 4, 0.1)),
      *(draw(key, 5, 0.5), first, jnp.zeros([3]), jnp.zeros([3]), table, 1.0),
    )

  arrays, programs, _ = made(state)
  assert programs == 5  # Of the scales 0.1 and 0.5, zeros, the table, 1.0.
  expected = jax.jit(state)(KEY)
  for mine, theirs in zip(arrays, expected, strict=True):
    np.testing.assert_array_equal(mine, theirs)
    assert mine.dtype == theirs.dtype


def test_where_no_two_are_alike_one_program_makes_all(monkeypatch):
  def state(key):
    return draw(key, 1, 0.1), draw(key, 2, 0.5)

  arrays, programs, maker = made(state)
  assert programs == 2
  monkeypatch.setattr(maker, "_derive", None)  # Not called.
  for mine, theirs in zip(maker(KEY), jax.jit(state)(KEY), strict=True):
    np.testing.assert_array_equal(mine, theirs)
