"""Learning rates at the steps where T5's are known."""

import jax
import jax.numpy as jnp
import pytest

from transformer_zoo.training import schedules


@pytest.mark.parametrize(
  "step, rate",
  [
    (0, 0.01),
    (9_999, 0.01),
    (10_000, 0.01),
    (40_000, 0.005),
    (2**19, 0.00138107),
    (1_000_000, 0.001),
  ],
)
def test_rsqrt_of_pretraining(step, rate):
  # Raffel et al. 2020, section 3.1.2: 1/sqrt(max(n, 10^4)).
  computed = jax.jit(schedules.rsqrt())(jnp.int32(step))
  assert computed == pytest.approx(rate, rel=1e-5)


def test_rsqrt_is_scaled_and_warmed_up():
  schedule = schedules.rsqrt(base=2.0, warmup_steps=100)
  assert schedule(jnp.int32(3)) == pytest.approx(0.2)
  assert schedule(jnp.int32(400)) == pytest.approx(0.1)


def test_constant_of_finetuning():
  schedule = schedules.constant()
  for step in (0, 7, 10**6):
    assert schedule(jnp.int32(step)) == pytest.approx(1e-3)
  assert schedules.constant(0.5)(jnp.int32(1)).dtype == jnp.float32
