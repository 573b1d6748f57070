"""Learning rate schedules: step (from 0) to learning rate.

A warm-up of N steps rises in a straight line from 0 at step 0 to the full rate
at step N, as in optax; T5's own, `rsqrt`, stands still instead.
"""

from collections.abc import Callable, Sequence
import math

import gin
import jax
import jax.numpy as jnp
import optax

from transformer_zoo.errors import UserError

Schedule = Callable[[jax.Array], jax.Array]


@gin.register(module="schedules")
def constant(learning_rate: float = 1e-3, warmup_steps: int = 0) -> Schedule:
  """The same rate always; T5 fine-tunes with 1e-3 (section 3.1.2)."""
  return _warmed_up(lambda step: learning_rate, learning_rate, warmup_steps)


@gin.register(module="schedules")
def rsqrt(
  base: float = 1.0,
  warmup_steps: int = 10_000,
  linear_warmup: bool = False,
) -> Schedule:
  """Computes base / sqrt(max(step, warmup_steps)).

  T5's pre-training schedule: 0.01 through step 10,000, 0.001 at 10^6
  (section 3.1.2).

  Args:
    base: the rate at step 1 if there were no warm-up.
    warmup_steps: steps before the rate falls.
    linear_warmup: whether it rises in them (Vaswani et al. 2017, section 5.3,
      where `base` is d_model^-0.5) and does not stand still.
  """
  _check_warmup(warmup_steps, least=1)
  _check_rate(base, "schedules.rsqrt.base")

  def schedule(step):
    rate = base * jax.lax.rsqrt(jnp.maximum(step, warmup_steps) * 1.0)
    if linear_warmup:
      rate *= jnp.minimum(step / warmup_steps, 1.0)
    return rate

  return schedule


@gin.register(module="schedules")
def linear(
  learning_rate: float,
  train_steps: int,
  warmup_steps: int = 0,
  final_share: float = 0.0,
) -> Schedule:
  """Falls in a straight line (Devlin et al. 2019, appendix A.2).

  Args:
    learning_rate: The highest rate, reached at the end of the warm-up.
    train_steps: The step at which the fall ends, warm-up included.
    warmup_steps: steps of the rise before it.
    final_share: The last rate as a share of `learning_rate`.
  """
  falling = _steps_of_fall(train_steps, warmup_steps, final_share)
  fall = optax.linear_schedule(
    learning_rate, learning_rate * final_share, falling
  )
  return _warmed_up(fall, learning_rate, warmup_steps)


@gin.register(module="schedules")
def cosine(
  learning_rate: float,
  train_steps: int,
  warmup_steps: int = 0,
  final_share: float = 0.0,
) -> Schedule:
  """Falls as half a period of a cosine (Loshchilov and Hutter 2017).

  Args:
    learning_rate: The highest rate, reached at the end of the warm-up.
    train_steps: The step at which the fall ends, warm-up included.
    warmup_steps: steps of the rise before it.
    final_share: The last rate as a share of `learning_rate`; 0.1 in GPT-3
      (Brown et al. 2020, appendix B).
  """
  falling = _steps_of_fall(train_steps, warmup_steps, final_share)
  fall = optax.cosine_decay_schedule(learning_rate, falling, final_share)
  return _warmed_up(fall, learning_rate, warmup_steps)


@gin.register(module="schedules")
def cooled_down(
  schedule: Schedule, train_steps: int, share: float = 0.1
) -> Schedule:
  """Another schedule whose last steps fall to 0 in a straight line.

  Shazeer 2020 (section 3.2) pre-trains so with `rsqrt`.

  Args:
    schedule: the other one.
    train_steps: The step at which the rate reaches 0.
    share: The share of `train_steps` during which the rate falls.

  Raises:
    UserError: there are no steps, or the share is not above 0 and at most 1.
  """
  if train_steps < 1:
    raise UserError(
      f"schedules.cooled_down.train_steps={train_steps} has to be at least 1"
    )
  if not 0 < share <= 1:
    raise UserError(
      f"schedules.cooled_down.share={share} has to be above 0 and at most 1"
    )
  steps = share * train_steps

  def cooled(step):
    left = jnp.clip((train_steps - step) / steps, 0.0, 1.0)
    start = jnp.minimum(step, round(train_steps - steps))
    return schedule(start) * left

  return cooled


@gin.register(module="schedules")
def joined(schedules: Sequence[Schedule], steps: Sequence[int]) -> Schedule:
  """One schedule after another, each with a clock of its own.

  Args:
    schedules: The schedules in the order in which they apply.
    steps: The first step of each schedule but the first; a schedule counts from
      0 there.

  Raises:
    UserError: the steps do not ascend, or are not one less than the schedules.
  """
  if len(steps) != len(schedules) - 1:
    raise UserError(
      f"schedules.joined has {len(schedules)} schedules and {len(steps)} steps "
      "at which one begins; the first begins at 0, each other needs a step"
    )
  if list(steps) != sorted({0, *steps})[1:]:
    raise UserError(
      f"schedules.joined.steps={tuple(steps)} have to be above 0 and ascend"
    )
  return optax.join_schedules(schedules, steps)


def _warmed_up(
  schedule: Schedule, learning_rate: float, steps: int
) -> Schedule:
  """A schedule of float32 after a rise of so many steps."""
  _check_warmup(steps)
  _check_rate(learning_rate, "learning_rate")
  if steps:
    rise = optax.linear_schedule(0.0, learning_rate, steps)
    schedule = optax.join_schedules([rise, schedule], [steps])
  return lambda step: jnp.asarray(schedule(step), jnp.float32)


def _check_rate(rate: float, name: str) -> None:
  if not (math.isfinite(rate) and rate >= 0):
    raise UserError(f"{name}={rate} has to be a finite number of 0 or more")


def _check_warmup(steps: int, least: int = 0) -> None:
  if steps < least:
    raise UserError(f"warmup_steps={steps} has to be at least {least}")


def _steps_of_fall(
  train_steps: int, warmup_steps: int, final_share: float
) -> int:
  """Steps after the warm-up.

  Raises:
    UserError: there are none, or the fall ends above its start or below 0.
  """
  if not 0 <= final_share <= 1:
    raise UserError(f"final_share={final_share} has to be from 0 to 1")
  if train_steps <= warmup_steps:
    raise UserError(
      f"warmup_steps={warmup_steps} leaves none of train_steps={train_steps} "
      "for the rate to fall; warm up for fewer steps"
    )
  return train_steps - warmup_steps
