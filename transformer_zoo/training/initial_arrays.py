"""The arrays of an initial state, each made by a small program.

A random draw is most of what XLA compiles for one, and a model draws dozens of
arrays of a few shapes. So the keys are derived first, and arrays that are drawn
alike from different keys share one program. Where few are alike, as inside of a
scan over layers, one program makes them all. The numbers are the same.
"""

from collections.abc import Callable, Sequence
from concurrent import futures

import jax
from jax.extend import core
from jax.interpreters import partial_eval


class InitialArrays:
  """(key) -> the arrays that a traced function of a key returns."""

  def __init__(
    self,
    traced: core.ClosedJaxpr,
    shardings: Sequence[jax.sharding.Sharding],
  ):
    """Divides the traced function; nothing is compiled.

    Args:
      traced: The function of one key.
      shardings: The shardings of what it returns.
    """
    self._jaxpr, _ = partial_eval.dce_jaxpr(
      traced.jaxpr, [True] * len(shardings), instantiate=True
    )
    self._consts = traced.consts
    self._whole = jax.jit(core.jaxpr_as_fun(traced), out_shardings=[*shardings])
    self._programs: dict[tuple, Callable] = {}
    known = {*self._jaxpr.invars, *self._jaxpr.constvars}
    of_keys, rest = [], []
    for equation in self._jaxpr.eqns:
      derives = all(map(_is_key, equation.outvars))
      if derives and _variables(equation.invars) <= known:
        known |= {*equation.outvars}
        of_keys.append(equation)
      else:
        rest.append(equation)
    self._keys = [var for one in of_keys for var in one.outvars]
    self._derive = self._function(self._jaxpr.invars, self._keys, of_keys)
    # The program of each array, and the variables that it reads.
    self._parts = [
      self._part(var, sharding, rest, known)
      for var, sharding in zip(self._jaxpr.outvars, shardings, strict=True)
    ]

  def __call__(self, key: jax.Array) -> list[jax.Array]:
    """Makes the arrays where they lie."""
    drawn = [one for one, read in self._parts if any(map(_is_key, read))]
    # A draw takes XLA four times as long by itself as among others.
    if 4 * len({*drawn}) > len(drawn):
      return self._whole(key)
    values = dict(zip(self._jaxpr.constvars, self._consts, strict=True))
    values |= dict(zip(self._jaxpr.invars, [key], strict=True))
    values |= dict(zip(self._keys, self._derive(key), strict=True))
    arguments = [[values[var] for var in read] for _, read in self._parts]
    programs = [program for program, _ in self._parts]
    lowered = {
      program: program.lower(*given)
      for program, given in dict(zip(programs, arguments, strict=True)).items()
    }
    with futures.ThreadPoolExecutor() as pool:  # XLA compiles in parallel.
      compiled = dict(
        zip(lowered, pool.map(_compiled, lowered.values()), strict=True)
      )
    return [
      compiled[program](*given)[0]
      for program, given in zip(programs, arguments, strict=True)
    ]

  def _part(self, result, sharding, equations, known):
    needed, used = _variables([result]), []
    for equation in reversed(equations):
      if not needed.isdisjoint(equation.outvars):
        used.insert(0, equation)
        needed |= _variables(equation.invars)
    # In the order of use, so that equal parts are written alike.
    atoms = [*(var for one in used for var in one.invars), result]
    read = [*dict.fromkeys(filter(_is_variable, atoms))]
    read = [var for var in read if var in known]
    part = self._function(read, [result], used)
    kind = str(part.jaxpr), sharding
    if kind not in self._programs:
      self._programs[kind] = jax.jit(part, out_shardings=[sharding])
    return self._programs[kind], read

  def _function(self, arguments, results, equations) -> "_Function":
    return _Function(
      self._jaxpr.replace(
        constvars=[],
        invars=[*arguments],
        outvars=[*results],
        eqns=equations,
        debug_info=self._jaxpr.debug_info.with_unknown_names(),
      )
    )


class _Function:
  """A function that evaluates equations."""

  def __init__(self, jaxpr: core.Jaxpr):
    self.jaxpr = jaxpr

  def __call__(self, *arguments):
    return jax.core.eval_jaxpr(self.jaxpr, (), *arguments)


def _compiled(lowered: jax.stages.Lowered) -> jax.stages.Compiled:
  return lowered.compile()


def _is_key(var) -> bool:
  return jax.dtypes.issubdtype(var.aval.dtype, jax.dtypes.prng_key)


def _is_variable(atom) -> bool:
  return not isinstance(atom, core.Literal)


def _variables(atoms) -> set:
  """The variables among variables and literals."""
  return {*filter(_is_variable, atoms)}
