"""What a program holds at the least, of shapes that are easy to count."""

import jax
import jax.numpy as jnp

from transformer_zoo.forecast import least_memory


def test_what_a_loop_hands_on_and_its_largest_product():
  def search(kernel, x):
    def turn(carry):
      number, x = carry
      return number + 1, jnp.tanh(x @ kernel) @ kernel.T

    return jax.lax.while_loop(lambda carry: carry[0] < 9, turn, (0, x))

  kernel = jax.ShapeDtypeStruct((3, 1000), jnp.float32)
  x = jax.ShapeDtypeStruct((5, 3), jnp.float32)
  found = least_memory.least_bytes(jax.jit(search).trace(kernel, x).jaxpr.jaxpr)
  assert found == 4 + 4 * 5 * 3 + 4 * 5 * 1000


def test_a_device_has_memory():
  assert least_memory.device_bytes(jax.local_devices()[0]) > 2**20
