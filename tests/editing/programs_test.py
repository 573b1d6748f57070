"""Calls of compiled programs, counted with their shapes."""

import jax
import jax.numpy as jnp

from transformer_zoo.editing import programs
from transformer_zoo.runs.analysis import costs


def test_flops_of_calls():
  """A product of [m, k] and [k, n] has 2 m k n, on any number of calls."""
  product = programs.compiled(jnp.matmul)
  with programs.recorded_calls() as calls:
    for _ in range(3):
      product(jnp.ones((2, 3)), jnp.ones((3, 5)))
    product(jnp.ones((4, 3)), jnp.ones((3, 5)))
  product(jnp.ones((4, 3)), jnp.ones((3, 5)))  # After: nothing is recorded.
  assert sorted(calls.values()) == [1, 3]
  assert costs.flops(calls) == 3 * 2 * 2 * 3 * 5 + 2 * 4 * 3 * 5


def test_numbers_and_keys_are_arguments_too():
  draw = programs.compiled(
    lambda key, scale: scale * jax.random.normal(key, (4,))
  )
  with programs.recorded_calls() as calls:
    values = draw(jax.random.key(0), 2.0)
  assert values.shape == (4,)
  assert costs.flops(calls) > 0
