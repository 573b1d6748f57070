"""Functions run as one compiled program.

An eager call compiles operation by operation: a small model is several hundred
compilations, and most of the time of its test.
"""

import functools
from typing import Any

import jax
import numpy as np

_TRACED = object()


def run(function, *arguments, **options) -> Any:
  """Returns function(*arguments, **options), compiled as one program.

  Arrays anywhere in the arguments are traced. All else (modules, functions,
  numbers, strings, booleans) is static and hashable. A call with the same
  function, equal static values and arrays of the same shapes reuses the
  program: pass a function that outlives the call, not a new lambda.
  """
  leaves, structure = jax.tree.flatten((arguments, options))
  arrays = [leaf for leaf in leaves if _is_array(leaf)]
  static = tuple(
    _TRACED if _is_array(leaf) else (type(leaf), leaf) for leaf in leaves
  )
  return _program(function, structure, static)(arrays)


def apply(module, variables, *arguments, **options) -> Any:
  """Returns module.apply(variables, ...), compiled as one program."""
  return run(type(module).apply, module, variables, *arguments, **options)


def init(module, key, *arguments, **options) -> Any:
  """Returns module.init(key, ...), compiled as one program."""
  return run(type(module).init, module, key, *arguments, **options)


def _is_array(leaf) -> bool:
  return isinstance(leaf, jax.Array | np.ndarray | np.generic)


@functools.cache
def _program(function, structure, static):
  @jax.jit
  def program(arrays):
    arrays = iter(arrays)
    leaves = [next(arrays) if leaf is _TRACED else leaf[1] for leaf in static]
    arguments, options = structure.unflatten(leaves)
    return function(*arguments, **options)

  return program
