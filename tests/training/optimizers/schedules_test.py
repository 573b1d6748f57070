"""Learning rates at the steps where they are known."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.training.optimizers import schedules

PEAK, STEPS, WARMUP = 0.03, 100, 20


def rates(schedule, *steps):
  """Computed as in a step: traced, of int32."""
  return np.asarray(jax.jit(jax.vmap(schedule))(jnp.array(steps, jnp.int32)))


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


def rise(step):
  return min(step / WARMUP, 1.0)


def fallen(step):
  """The share of the fall that is over."""
  return min(max(step - WARMUP, 0) / (STEPS - WARMUP), 1.0)


CLOSED_FORMS = {
  "constant": (schedules.constant(PEAK, WARMUP), lambda n: PEAK * rise(n)),
  "linear": (
    schedules.linear(PEAK, STEPS, WARMUP),
    lambda n: PEAK * rise(n) * (1 - fallen(n)),
  ),
  "linear to a share": (
    schedules.linear(PEAK, STEPS, WARMUP, final_share=0.25),
    lambda n: PEAK * rise(n) * (1 - 0.75 * fallen(n)),
  ),
  "cosine": (
    schedules.cosine(PEAK, STEPS, WARMUP),
    lambda n: PEAK * rise(n) * (1 + math.cos(math.pi * fallen(n))) / 2,
  ),
  # Brown et al. 2020, appendix B.
  "cosine to a tenth": (
    schedules.cosine(PEAK, STEPS, WARMUP, final_share=0.1),
    lambda n: (
      PEAK * rise(n) * (0.1 + 0.45 * (1 + math.cos(math.pi * fallen(n))))
    ),
  ),
  # Vaswani et al. 2017, equation 3.
  "rsqrt": (
    schedules.rsqrt(PEAK, WARMUP, linear_warmup=True),
    lambda n: PEAK * min(max(n, 1) ** -0.5, n * WARMUP**-1.5),
  ),
  # Shazeer 2020, section 3.2.
  "cooled down": (
    schedules.cooled_down(schedules.rsqrt(PEAK, WARMUP), STEPS),
    lambda n: (
      PEAK * max(min(n, 90), WARMUP) ** -0.5 * min(max(STEPS - n, 0) / 10, 1)
    ),
  ),
  "joined": (
    schedules.joined(
      [schedules.linear(PEAK, 30), schedules.constant(0.5), schedules.rsqrt()],
      [10, 70],
    ),
    lambda n: PEAK * (1 - n / 30) if n < 10 else 0.5 if n < 70 else 0.01,
  ),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms(name):
  schedule, closed_form = CLOSED_FORMS[name]
  steps = (0, 1, 9, 10, 19, 20, 21, 60, 69, 70, 89, 90, 95, 99, 100, 5000)
  found = rates(schedule, *steps)
  assert found.dtype == np.float32
  np.testing.assert_allclose(
    found, [closed_form(n) for n in steps], rtol=1e-5, atol=1e-8
  )


def test_without_warm_up_the_first_rate_is_the_highest():
  for make in (schedules.linear, schedules.cosine):
    found = rates(make(PEAK, STEPS), 0, STEPS)
    np.testing.assert_allclose(found, [PEAK, 0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
  "make, sentence",
  [
    (
      lambda: schedules.linear(PEAK, 10, 10),
      "warmup_steps=10 leaves none of train_steps=10 for the rate to fall; "
      "warm up for fewer steps",
    ),
    (
      lambda: schedules.cosine(PEAK, 10, 12),
      "warmup_steps=12 leaves none of train_steps=10 for the rate to fall; "
      "warm up for fewer steps",
    ),
    (
      lambda: schedules.cosine(PEAK, 10, final_share=-0.1),
      "final_share=-0.1 has to be from 0 to 1",
    ),
    (
      lambda: schedules.linear(PEAK, 10, final_share=math.nan),
      "final_share=nan has to be from 0 to 1",
    ),
    (
      lambda: schedules.linear(PEAK, 10, -2),
      "warmup_steps=-2 has to be at least 0",
    ),
    (
      lambda: schedules.rsqrt(base=-1.0),
      "schedules.rsqrt.base=-1.0 has to be a finite number of 0 or more",
    ),
    (
      lambda: schedules.cooled_down(schedules.constant(), 0),
      "schedules.cooled_down.train_steps=0 has to be at least 1",
    ),
    (
      lambda: schedules.constant(PEAK, -1),
      "warmup_steps=-1 has to be at least 0",
    ),
    (
      lambda: schedules.rsqrt(warmup_steps=0),
      "warmup_steps=0 has to be at least 1",
    ),
    (
      lambda: schedules.cooled_down(schedules.constant(), 10, share=0.0),
      "schedules.cooled_down.share=0.0 has to be above 0 and at most 1",
    ),
    (
      lambda: schedules.joined([schedules.constant()] * 3, [5, 5]),
      "schedules.joined.steps=(5, 5) have to be above 0 and ascend",
    ),
    (
      lambda: schedules.joined([schedules.constant()], [5]),
      "schedules.joined has 1 schedules and 1 steps at which one begins; the "
      "first begins at 0, each other needs a step",
    ),
  ],
)
def test_refused(make, sentence):
  with pytest.raises(UserError) as caught:
    make()
  assert str(caught.value) == sentence
