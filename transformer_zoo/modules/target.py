"""The kind of device that a program is for: this machine's unless said.

Dtypes and kernels follow it, so that a program compiled ahead for a machine
that is not there is the program that would run on it.
"""

from collections.abc import Iterator
import contextlib
import contextvars

import jax

_platform = contextvars.ContextVar("platform of what is compiled", default=None)


def platform() -> str:
  """`cpu`, `gpu` or `tpu`."""
  return _platform.get() or jax.default_backend()


@contextlib.contextmanager
def compiling_for(platform_name: str) -> Iterator[None]:
  """What is built and traced inside is for devices of another kind."""
  token = _platform.set(platform_name)
  try:
    yield
  finally:
    _platform.reset(token)
