"""Default parts."""

from collections.abc import Callable
import dataclasses
import functools

from flax import linen as nn


def part(module: Callable[..., nn.Module], **settings):
  """A field whose default is a part of its own for every parent.

  A default instance would be one object in every parent, and Linen shares the
  parameters of one object.
  """
  return dataclasses.field(
    default_factory=functools.partial(module, **settings)
  )
