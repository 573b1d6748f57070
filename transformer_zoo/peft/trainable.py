"""The choice of trained parameters: regular expressions over names."""

from collections.abc import Collection, Mapping, Sequence
import dataclasses
import re

from flax import traverse_util
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import parameter_names
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


# Nested dictionaries of arrays, or of their shapes; some of the parameters lie
# at the same names as in all of them.
Params = Mapping
_NEVER = np.iinfo(np.int32).max


@gin.register
@dataclasses.dataclass(frozen=True)
class Trainable:
  """The trained part of a model; the rest has no gradients and no moments.

  Each layer has a name of its own, `encoder/layers_3/mlp/wi/kernel`, also where
  layers are scanned. A scanned stack of which some layers are trained has
  moments of all layers; the gradients of the others are 0.

  Attributes:
    parameters: regular expressions; one of them matches the whole name of each
      parameter that is trained.
    unfreezing: says from which step on parameters are updated, or None where
      all of them are from the first. Those that are not have gradients, which
      their moments follow.
  """

  parameters: Sequence[str] = (".*",)
  unfreezing: GradualUnfreezing | None = None

  def __post_init__(self):
    parameter_names.check_expressions("Trainable.parameters", self.parameters)

  def check(self, params: Params) -> None:
    """Checks that every expression matches something that can be trained.

    Raises:
      UserError: one matches no parameter, or there is none, or a parameter is
        kept in fewer bits than float32.
    """
    names = [name for found in _names(params).values() for name in found]
    if not self.parameters:
      raise UserError("Trainable.parameters is empty: nothing would be trained")
    parameter_names.check_matches(
      "Trainable.parameters", self.parameters, names, "parameter"
    )
    trained = traverse_util.flatten_dict(self.select(params), sep="/")
    for name, leaf in trained.items():
      if leaf.dtype != jnp.float32:
        raise UserError(
          f"Trainable.parameters trains {name}, which is kept in {leaf.dtype} "
          "and only read; train a method over it (a file of peft/), or set "
          "BASE_BITS = 32"
        )

  def select(self, params: Params) -> Params:
    """Returns the parameters that are trained."""
    flat = traverse_util.flatten_dict(params, sep="/")
    names = _names(params)
    return traverse_util.unflatten_dict(
      {k: v for k, v in flat.items() if any(map(self.trains, names[k]))},
      sep="/",
    )

  def replace(self, params: Params, trained: Params) -> Params:
    """Returns the parameters with others in the place of those trained."""
    flat = traverse_util.flatten_dict(params, sep="/")
    flat |= traverse_util.flatten_dict(trained, sep="/")
    return traverse_util.unflatten_dict(flat, sep="/")

  def count(self, params: Params) -> int:
    """Returns the number of trained parameters."""
    flat = traverse_util.flatten_dict(params, sep="/")
    return sum(
      flat[key].size // len(names) * sum(map(self.trains, names))
      for key, names in _names(params).items()
    )

  def without_others(self, gradients: Params, params: Params) -> Params:
    """Makes 0 of the gradients of layers that are not trained.

    They are there where others in their stack are, and would count in norms.

    Args:
      gradients: The gradients of the parameters that `select` returns.
      params: all of them.
    """
    names = _names(params)
    flat = traverse_util.flatten_dict(gradients, sep="/")
    return traverse_util.unflatten_dict(
      {
        key: _only(list(map(self.trains, names[key])), gradient)
        for key, gradient in flat.items()
      },
      sep="/",
    )

  def updates_at(
    self, updates: Params, params: Params, step: jax.Array
  ) -> Params:
    """Makes 0 of the updates of what is not trained at a step.

    Args:
      updates: The updates of the parameters that `select` returns.
      params: all of them.
      step: The number of the step, from 0. It is traced, so that nothing is
        compiled anew.
    """
    starts = self._starts(params)
    flat = traverse_util.flatten_dict(updates, sep="/")
    return traverse_util.unflatten_dict(
      {key: _from(starts[key], update, step) for key, update in flat.items()},
      sep="/",
    )

  def trains(self, name: str) -> bool:
    """Whether a parameter is trained, by the name of its layer."""
    return any(re.fullmatch(known, name) for known in self.parameters)

  def _starts(self, params: Params) -> dict[str, list[int]]:
    """The first step that updates each layer in each parameter."""
    names = _names(params)
    steps = {}
    if self.unfreezing is not None:
      every = [name for found in names.values() for name in found]
      steps = self.unfreezing.starts(every)
    return {
      key: [
        steps.get(name, 0) if self.trains(name) else _NEVER for name in found
      ]
      for key, found in names.items()
    }


# What a run trains that says nothing of it.
ALL = Trainable()


def _names(params: Params) -> dict[str, list[str]]:
  """Names of parameters -> names of the layers in them."""
  flat = traverse_util.flatten_dict(params, sep="/")
  return {
    key: parameter_names.names_in(key, leaf.shape) for key, leaf in flat.items()
  }


def _only(are_trained: Sequence[bool], gradient: jax.Array) -> jax.Array:
  """A gradient, 0 in the layers of a stack that are not trained."""
  if all(are_trained):
    return gradient
  mask_N = np.array(are_trained)
  return jnp.where(mask_N.reshape(-1, *[1] * (gradient.ndim - 1)), gradient, 0)


def _from(starts: Sequence[int], update: jax.Array, step: jax.Array):
  """An update, 0 before its start; of a stack each layer has its own."""
  if not any(starts):
    return update
  if len(starts) == 1:
    return jnp.where(step >= starts[0], update, 0)
  starts_N = np.array(starts, np.int32)
  begun = step >= starts_N.reshape(-1, *[1] * (update.ndim - 1))
  return jnp.where(begun, update, 0)
