"""The state of training: parameters, optimizer state and step."""

import functools
import re
import traceback

from flax import linen as nn
from flax import struct
import jax
import jax.numpy as jnp
import optax

from transformer_zoo import errors
from transformer_zoo.peft import trainable as trainable_lib
from transformer_zoo.peft.trainable import Trainable


@struct.dataclass
class TrainState:
  """The arrays that a run continues from.

  Attributes:
    step: The number of steps made, int32 scalar.
    params: The parameters, float32, without axis metadata.
    opt_state: The optimizer's state of the parameters that are trained.
  """

  step: jax.Array
  params: optax.Params
  opt_state: optax.OptState


def example_batch(
  model: nn.Module, inputs: int = 1, targets: int = 1
) -> dict[str, jax.Array]:
  """Returns one row of the features that a model reads, for shapes.

  Args:
    model: an architecture.
    inputs: tokens of the encoder.
    targets: tokens of the decoder.
  """
  lengths = {"encoder": inputs, "decoder": targets}
  return {
    name: jnp.ones((1, lengths[name.partition("_")[0]]), jnp.int32)
    for name in model.offers.reads
  }


# Python's messages about a call that does not fit the signature.
_OTHER_CALL = re.compile(
  r"\w\(\) (missing \d|takes |got (an unexpected|multiple|some positional))"
)
# The libraries through which parts call one another.
_LIBRARIES = ("flax", "jax", "gin")


def initial_variables(model: nn.Module, key: jax.Array):
  """Parameters with their logical axes (boxed), from shapes of one token.

  Plain Flax parameters of a user's own part have none, and are whole on every
  device.

  Raises:
    UserError: a part of the model is not called as it is called where it was
      put, like a feed-forward layer that was bound as a norm.
  """
  try:
    variables = model.init(key, example_batch(model), method="all_logits")
  except TypeError as error:
    if not _OTHER_CALL.search(str(error)):
      raise
    raise errors.UserError(
      f"the parts of the model do not fit together: {errors.sentence(error)}, "
      f"in {_caller(error)}; bind a part of the kind that is called there"
    ) from error
  return jax.tree.map(_boxed, variables["params"], is_leaf=_is_boxed)


def _is_boxed(leaf) -> bool:
  return isinstance(leaf, nn.meta.AxisMetadata)


def _boxed(leaf):
  if _is_boxed(leaf):
    return leaf
  return nn.LogicallyPartitioned(leaf, (None,) * leaf.ndim)


def _caller(error: TypeError) -> str:
  """The innermost module, and its line, that is no library's."""
  *_, (module, line) = (
    (frame.f_globals["__name__"], line)
    for frame, line in traceback.walk_tb(error.__traceback__)
    if frame.f_globals["__name__"].partition(".")[0] not in _LIBRARIES
  )
  return f"{module}, line {line}"


def abstract_variables(model: nn.Module):
  """The shapes of `initial_variables`."""
  traced = _traced if _is_hashable(model) else _traced.__wrapped__
  return jax.tree.map(lambda leaf: leaf, traced(model))


def abstract_params(model: nn.Module):
  """The shapes of the parameters, without axis metadata."""
  return jax.tree.map(
    # Not `unbox`, whose sharding constraints fail on shapes inside a mesh.
    lambda leaf: leaf.value,
    abstract_variables(model),
    is_leaf=_is_boxed,
  )


# A command asks for the shapes of its model several times, and tracing a model
# is most of what a small one takes.
@functools.lru_cache(maxsize=64)
def _traced(model: nn.Module):
  return jax.eval_shape(lambda: initial_variables(model, jax.random.key(0)))


def _is_hashable(model: nn.Module) -> bool:
  """Whether a model is: fields of a user's part may not be."""
  try:
    hash(model)
  except TypeError:
    return False
  return True


def initial_state(
  model: nn.Module,
  optimizer: optax.GradientTransformation,
  key: jax.Array,
  trainable: Trainable = trainable_lib.ALL,
) -> TrainState:
  """State at step 0."""
  params = nn.meta.unbox(initial_variables(model, key))
  return TrainState(
    step=jnp.zeros([], jnp.int32),
    params=params,
    opt_state=optimizer.init(trainable.select(params)),
  )
