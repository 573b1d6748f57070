"""How long training has waited for its checkpoints."""

import dataclasses


@dataclasses.dataclass
class Stalls:
  """Seconds in which training waited for saves."""

  saves: int = 0
  total: float = 0.0
  longest: float = 0.0

  def add(self, seconds: float) -> None:
    """Counts a save."""
    self.saves += 1
    self.total += seconds
    self.longest = max(self.longest, seconds)

  def __str__(self) -> str:
    return (
      f"{self.saves} checkpoints saved; training waited {self.total:.1f} s for "
      f"them in all, {self.longest:.2f} s at the most"
    )
