"""The context of traced programs: their target, and choices made for them.

Dtypes and kernels follow the kind of device that a program is for, which is
this machine's by default. A program compiled ahead for another machine is
therefore the program that would run on it. `recorded_choices` collects the
choices that shapes and devices decide while a program is traced, and
`recorded_weights` the attention weights of a model that runs op by op.
"""

from collections.abc import Iterator
import contextlib
import contextvars

import jax

_platform = contextvars.ContextVar("platform of what is compiled", default=None)
_listener = contextvars.ContextVar("listener to choices", default=None)
_weights = contextvars.ContextVar("attention weights of a pass", default=None)


def platform() -> str:
  """Returns `cpu`, `gpu` or `tpu`."""
  return _platform.get() or jax.default_backend()


@contextlib.contextmanager
def compiling_for(platform_name: str) -> Iterator[None]:
  """Builds and traces everything inside for another kind of device."""
  token = _platform.set(platform_name)
  try:
    yield
  finally:
    _platform.reset(token)


@contextlib.contextmanager
def recorded_choices() -> Iterator[dict[str, None]]:
  """Collects the sentences recorded inside, each once, in order."""
  sentences: dict[str, None] = {}
  token = _listener.set(sentences)
  try:
    yield sentences
  finally:
    _listener.reset(token)


def record_choice(sentence: str) -> None:
  """Adds a sentence to the innermost `recorded_choices`, if there is one."""
  sentences = _listener.get()
  if sentences is not None:
    sentences[sentence] = None


@contextlib.contextmanager
def recorded_weights() -> Iterator[list[jax.Array]]:
  """Collects the attention weights computed inside, [B, H, L, M], in order."""
  found: list[jax.Array] = []
  token = _weights.set(found)
  try:
    yield found
  finally:
    _weights.reset(token)


def record_weights(weights_BHLM: jax.Array) -> None:
  """Adds attention weights to the innermost `recorded_weights`, if any."""
  found = _weights.get()
  if found is not None:
    found.append(weights_BHLM)
