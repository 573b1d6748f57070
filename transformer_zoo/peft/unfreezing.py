"""Gradual unfreezing: more and more layers are trained, from the top."""

from collections.abc import Collection, Sequence
import dataclasses
import re

import gin

from transformer_zoo.errors import UserError

_LAYER = re.compile(r"(.*?)\blayers_(\d+)/")


@gin.register
@dataclasses.dataclass(frozen=True)
class GradualUnfreezing:
  """From which step on each parameter is updated (Howard and Ruder 2018).

  As Raffel et al. 2020, section 3.5.1, do it in encoder and decoder at once:
  the steps are divided into as many episodes as there are layers, and each
  episode adds the next layer of both, from the last one down. What lies outside
  of the layers, embeddings before all, is updated always.

  Attributes:
    train_steps: The number of steps of the run.
    episodes: into how many parts they are divided; the layers of the deepest
      stack if None. In fewer parts several layers are added at once.
    with_first_layer: regular expressions; parameters outside of the layers that
      one matches as a whole are updated when the first layer of their stack is.
      A position bias that all layers share is the first layer's in T5's code.
  """

  train_steps: int
  episodes: int | None = None
  with_first_layer: Sequence[str] = (r"\w+/relpos_bias/.*",)

  def __post_init__(self):
    if self.episodes is not None and self.episodes < 1:
      raise UserError(
        f"GradualUnfreezing.episodes={self.episodes} must be at least 1"
      )

  def starts(self, names: Collection[str]) -> dict[str, int]:
    """Returns the first step, from 0, that updates each parameter.

    Args:
      names: The names of all parameters of a model, every layer by itself.

    Raises:
      UserError: there are no layers.
    """
    layers = {name: match for name in names if (match := _LAYER.match(name))}
    depths = {}
    for match in layers.values():
      stack, number = match[1], int(match[2])
      depths[stack] = max(depths.get(stack, 0), number + 1)
    if not depths:
      raise UserError("GradualUnfreezing: the model has no layers to unfreeze")

    def start(name: str) -> int:
      if name in layers:
        stack, number = layers[name][1], int(layers[name][2])
      elif any(re.fullmatch(known, name) for known in self.with_first_layer):
        stack, number = name.partition("/")[0] + "/", 0
      else:
        return 0
      below_top = depths[stack] - 1 - number
      deepest = max(depths.values())
      episodes = self.episodes or deepest
      episode = below_top * episodes // deepest
      return episode * self.train_steps // episodes

    return {name: start(name) for name in names}
