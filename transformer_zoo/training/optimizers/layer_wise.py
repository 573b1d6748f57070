"""Learning rates that fall from the heads to the embeddings, layer by layer."""

from collections.abc import Callable
import re

import gin
import jax
import optax

from transformer_zoo import parameter_names
from transformer_zoo.errors import UserError
from transformer_zoo.training.optimizers.schedules import Schedule

_LAYER = re.compile(r"\blayers_(\d+)/")
# What goes before the first layer.
_EMBEDDINGS = re.compile(r"embed|\binput_(norm|projection)/|\brelpos_bias/")
# Joined to the first layer's output (DeBERTa v2).
_OF_THE_FIRST = re.compile(r"\bconvolution/")
# Parts of which all layers have one (ALBERT).
_SHARED = re.compile(r"coder/(\w*attention|mlp)/")


@gin.register
def layer_wise(
  learning_rate: Schedule,
  *,
  optimizer: Callable[..., optax.GradientTransformation],
  decay: float,
) -> optax.GradientTransformation:
  """Builds an optimizer whose rate depends on the depth of a parameter.

  Heads and poolers have the rate of the schedule, layer i of L, from 0 on, that
  times decay^(L + 1 - i), and embeddings with their norm and projection times
  decay^(L + 2): `_get_layer_lrs` of google-research/electra 8a46635, whose
  decays are 0.8 (small, base) and 0.9 (large); Clark et al. 2020, appendix B.
  A convolution has the rate of the first layer. A part that all layers share
  has the rate of the last layer, as do layers that share all parameters.

  Args:
    learning_rate: a schedule.
    optimizer: makes the optimizer of a schedule; its state is the same.
    decay: The ratio of the rates of a layer and of the next, above 0 and at
      most 1.

  Raises:
    UserError: `decay` is not what it may be.
  """
  if not 0 < decay <= 1:
    raise UserError(
      f"layer_wise.decay is {decay}; it has to be above 0 and at most 1, which "
      "is the same rate for all"
    )
  inner = optimizer(learning_rate)

  def update(gradients, state, params=None, *, of_model=None):
    updates, state = inner.update(gradients, state, params)
    # Looped layers of which none is trained are in the model alone.
    return scaled_by_depth(updates, decay, of_model or updates), state

  return optax.GradientTransformationExtraArgs(inner.init, update)


def scaled_by_depth(updates, decay: float, of_model):
  """Updates times the factors that `layer_wise` has for their parameters.

  Args:
    updates: A tree of arrays with the paths of parameters; layers may be
      stacked.
    decay: The ratio of the factors of a layer and of the next.
    of_model: A tree of all parameters of the model, whose layers count.
  """
  numbers = [
    _LAYER.search(name) for found in _names(of_model) for name in found
  ]
  layers = 1 + max((int(match[1]) for match in numbers if match), default=-1)

  def factor(name: str) -> float:
    if match := _LAYER.search(name):
      return decay ** (layers + 1 - int(match[1]))
    if _OF_THE_FIRST.search(name):
      return decay ** (layers + 1)
    if _SHARED.search(name):
      return decay**2
    return decay ** (layers + 2) if _EMBEDDINGS.search(name) else 1.0

  leaves, tree = jax.tree.flatten(updates)
  return jax.tree.unflatten(
    tree,
    [
      times([*map(factor, found)], leaf)
      for found, leaf in zip(_names(updates), leaves, strict=True)
    ],
  )


def _names(params) -> list[list[str]]:
  """The names of the layers in each of the parameters."""
  return [
    parameter_names.names_in("/".join(str(key.key) for key in path), leaf.shape)
    for path, leaf in jax.tree_util.tree_leaves_with_path(params)
  ]


def times(factors: list[float], leaf: jax.Array) -> jax.Array:
  """A parameter times a factor, or one of the layers in it each."""
  if len(factors) == 1:
    return factors[0] * leaf
  shape = len(factors), *(1,) * (leaf.ndim - 1)
  return jax.numpy.asarray(factors, leaf.dtype).reshape(shape) * leaf
