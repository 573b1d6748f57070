"""Sums over the steps since the last line of metrics."""

from collections.abc import Mapping, Sequence
import dataclasses

import numpy as np

Value = float | np.ndarray


@dataclasses.dataclass
class Window:
  """Sums over some steps that the seed determines; a resumed run adds to them.

  Attributes:
    sums: The sums by name, scalars or arrays.
    steps: The number of steps added.
  """

  sums: dict[str, Value] = dataclasses.field(default_factory=dict)
  steps: int = 0

  def add(self, sums: Mapping[str, Value]) -> None:
    """Adds the sums of a step."""
    for name, value in sums.items():
      self.sums[name] = self.sums.get(name, 0.0) + value
    self.steps += 1

  def means(self, norm_names: Sequence[str] = ()) -> dict[str, float]:
    """The line of metrics: sums divided once, norms and rates by steps.

    Args:
      norm_names: The names of the groups in `gradient_norms`, `parameter_norms`
        and `update_norms`.

    Returns:
      Values by name; none of a window without steps.
    """
    if not self.steps:
      return {}
    weight = max(self.sums["weight_sum"], 1.0)
    means = {
      "train/loss": self.sums["loss_sum"] / weight,
      "train/z_loss": self.sums["z_loss_sum"] / weight,
      "train/accuracy": self.sums["correct_sum"] / weight,
      "train/gradient_norm": self.sums["gradient_norm"] / self.steps,
      "train/learning_rate": self.sums["learning_rate"] / self.steps,
      "train/tokens": self.sums["token_sum"],
    }
    if self.sums.get("place_sum"):
      filled = self.sums["token_sum"] / self.sums["place_sum"]
      means["train/padding"] = 1.0 - filled
    for kind in ("gradient", "parameter", "update") if norm_names else ():
      norms = self.sums[f"{kind}_norms"] / self.steps
      for name, norm in zip(norm_names, norms, strict=True):
        means[f"{kind}_norm/{name}"] = norm
    return means

  def to_json(self) -> dict:
    """The window for a checkpoint's progress, all digits kept."""
    sums = {name: np.asarray(v).tolist() for name, v in self.sums.items()}
    return {"sums": sums, "steps": self.steps}

  @classmethod
  def from_json(cls, saved: Mapping) -> "Window":
    """The inverse of `to_json`."""
    sums = {
      name: np.array(v) if isinstance(v, list) else v
      for name, v in saved["sums"].items()
    }
    return cls(sums, saved["steps"])
