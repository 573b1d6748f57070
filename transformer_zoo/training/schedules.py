"""Learning rate schedules: step (from 0) to learning rate."""

from collections.abc import Callable

import gin
import jax
import jax.numpy as jnp

Schedule = Callable[[jax.Array], jax.Array]


@gin.register(module="schedules")
def constant(learning_rate: float = 1e-3) -> Schedule:
  """The same rate always; T5 fine-tunes with 1e-3 (section 3.1.2)."""
  return lambda step: jnp.asarray(learning_rate, jnp.float32)


@gin.register(module="schedules")
def rsqrt(base: float = 1.0, warmup_steps: int = 10_000) -> Schedule:
  """Computes base / sqrt(max(step, warmup_steps)).

  T5's pre-training schedule: 0.01 through step 10,000, 0.001 at 10^6
  (section 3.1.2).
  """

  def schedule(step):
    return base * jax.lax.rsqrt(jnp.maximum(step, warmup_steps) * 1.0)

  return schedule
