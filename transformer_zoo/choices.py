"""Choices that shapes and devices decide while a program is traced.

A caller that compiles a program can collect the choices made for it.
"""

from collections.abc import Iterator
import contextlib
import contextvars

_listener = contextvars.ContextVar("listener to choices", default=None)


@contextlib.contextmanager
def recorded() -> Iterator[dict[str, None]]:
  """Collects the sentences of what is traced inside, each once, in order."""
  sentences: dict[str, None] = {}
  token = _listener.set(sentences)
  try:
    yield sentences
  finally:
    _listener.reset(token)


def record(sentence: str) -> None:
  """Tells the innermost listener, if there is one."""
  sentences = _listener.get()
  if sentences is not None:
    sentences[sentence] = None
