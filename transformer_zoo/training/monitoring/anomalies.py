"""Anomalies of training steps: NaN, infinities, spikes.

A spike is a loss or a gradient norm far above its values in the steps before.
The decision falls inside of the compiled step, without waiting for the host: a
step that is skipped leaves parameters and optimizer state as they were, by a
choice between old and new for every array, where they lie.
"""

from collections.abc import Mapping
import dataclasses
from typing import Literal

import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.training.state import TrainState

Sums = dict[str, jax.Array]
# What `judge` adds to the sums of a step, besides the history.
VERDICT = ("not_finite", "spike", "skipped", "limits")
# A running deviation below this share of the mean is rounding, not noise.
_SMALLEST_DEVIATION = 0.01


@gin.register
@dataclasses.dataclass(frozen=True)
class Anomalies:
  """The reaction of a run to NaN, infinities and spikes.

  Attributes:
    on_not_finite: The consequence of a loss or gradient that is NaN or
      infinite: 'stop' ends the run, 'skip' leaves the state unchanged and
      counts the step.
    on_spike: the same for a spike; 'note' counts it alone, 'ignore' does not
      look for any.
    deviations: a spike is so many running standard deviations above the
      running mean of the steps before it.
    horizon: The number of steps over which the mean and deviation run, and the
      number of steps before a spike can be found.
    max_in_a_row: more skipped steps one after another end the run.
  """

  on_not_finite: Literal["stop", "skip"] = "stop"
  on_spike: Literal["ignore", "note", "skip", "stop"] = "ignore"
  deviations: float = 6.0
  horizon: int = 128
  max_in_a_row: int = 10

  def __post_init__(self):
    allowed = {
      "on_not_finite": ("stop", "skip"),
      "on_spike": ("ignore", "note", "skip", "stop"),
    }
    for name, words in allowed.items():
      if getattr(self, name) not in words:
        raise UserError(
          f"{name}={getattr(self, name)!r} is none of {', '.join(words)}"
        )
    if self.deviations <= 0 or self.horizon < 2 or self.max_in_a_row < 1:
      raise UserError(
        f"anomalies need deviations above 0, a horizon of 2 or more and "
        f"max_in_a_row of 1 or more, not deviations={self.deviations}, "
        f"horizon={self.horizon}, max_in_a_row={self.max_in_a_row}"
      )

  @property
  def are_looked_for(self) -> bool:
    """Whether the compiled step has a part in it."""
    return self.on_not_finite == "skip" or self.on_spike != "ignore"

  def judge(
    self,
    before: TrainState,
    after: TrainState,
    sums: Sums,
    history: Mapping[str, jax.Array],
  ) -> tuple[TrainState, Sums]:
    """Chooses the state that a step leaves; part of the compiled step.

    Args:
      before: the state that the step began with.
      after: the state that it would leave.
      sums: The sums of `train_step`.
      history: The result of `initial_history`, or of the step before.

    Returns:
      The state, whose `step` counts skipped steps as well, and the sums with
      `not_finite`, `spike` and `skipped` (0 or 1), `limits` (of loss and
      gradient norm, float32 [2]) and the new `history`.
    """
    values = jnp.stack([sums["loss"], sums["gradient_norm"]])
    values = values.astype(jnp.float32)
    is_finite = jnp.all(jnp.isfinite(values))
    limits = self._limits(history)
    spike = is_finite & jnp.any(values > limits)
    if self.on_spike == "ignore":
      spike = jnp.zeros_like(spike)
    skip = ~is_finite if self.on_not_finite == "skip" else jnp.array(False)
    if self.on_spike == "skip":
      skip |= spike
    state = jax.tree.map(
      lambda old, new: jnp.where(skip, old, new), before, after
    )
    verdict = {"not_finite": ~is_finite, "spike": spike, "skipped": skip}
    return state.replace(step=after.step), {
      **sums,
      **{name: value.astype(jnp.float32) for name, value in verdict.items()},
      "limits": limits,
      "history": self._updated(history, values, limits, is_finite),
    }

  def _limits(self, history) -> jax.Array:
    smallest = _SMALLEST_DEVIATION * jnp.abs(history["mean"])
    deviation = jnp.maximum(jnp.sqrt(history["variance"]), smallest)
    limits = history["mean"] + self.deviations * deviation
    return jnp.where(history["steps"] >= self.horizon, limits, jnp.inf)

  def _updated(self, history, values, limits, is_finite):
    """The history after a step; plain means until the horizon is reached."""
    # A spike counts as the limit that it passed: one moves little, and a level
    # that stays is a spike only for a while.
    difference = jnp.minimum(values, limits) - history["mean"]
    share = 1.0 / (jnp.minimum(history["steps"], self.horizon - 1) + 1)
    variance = history["variance"] + share * jnp.square(difference)
    new = {
      "steps": history["steps"] + 1,
      "mean": history["mean"] + share * difference,
      "variance": (1 - share) * variance,
    }
    return jax.tree.map(
      lambda old, new: jnp.where(is_finite, new, old), dict(history), new
    )


def initial_history() -> dict[str, np.ndarray]:
  """The empty statistics before the first step."""
  return {
    "steps": np.float32(0),
    "mean": np.zeros(2, np.float32),
    "variance": np.zeros(2, np.float32),
  }


def to_json(history: Mapping[str, jax.Array]) -> dict:
  """A history for a checkpoint's progress, all digits kept."""
  return {name: np.asarray(v).tolist() for name, v in history.items()}


def from_json(saved: Mapping) -> dict[str, np.ndarray]:
  """The inverse of `to_json`."""
  return {name: np.float32(value) for name, value in saved.items()}
