"""Compiled programs of edits, whose calls are recorded to count their cost."""

import collections
from collections.abc import Callable, Iterator
import contextlib
import contextvars
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

_calls = contextvars.ContextVar("calls of compiled programs", default=None)


class Call(NamedTuple):
  """A program and the shapes that it was called with.

  Attributes:
    function: The compiled function.
    tree: The structure of its arguments.
    leaves: The shapes and dtypes of their arrays.
  """

  function: Callable
  tree: Any
  leaves: tuple[jax.ShapeDtypeStruct, ...]

  @property
  def arguments(self) -> tuple:
    """The arguments, a shape and dtype in the place of each array."""
    return jax.tree.unflatten(self.tree, self.leaves)


def compiled(function: Callable) -> Callable:
  """Returns `jax.jit` of a function, whose calls are recorded if asked for."""
  program = jax.jit(function)

  @functools.wraps(function)
  def call(*arguments):
    calls = _calls.get()
    if calls is not None:
      leaves, tree = jax.tree.flatten(arguments)
      calls[Call(program, tree, tuple(map(_shape, leaves)))] += 1
    return program(*arguments)

  return call


@contextlib.contextmanager
def recorded_calls() -> Iterator[collections.Counter[Call]]:
  """Counts the calls of compiled programs inside."""
  calls: collections.Counter[Call] = collections.Counter()
  token = _calls.set(calls)
  try:
    yield calls
  finally:
    _calls.reset(token)


def _shape(leaf: Any) -> jax.ShapeDtypeStruct:
  dtype = leaf.dtype if hasattr(leaf, "dtype") else jnp.result_type(leaf)
  return jax.ShapeDtypeStruct(jnp.shape(leaf), dtype)
