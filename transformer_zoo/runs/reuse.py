"""Programs shared by the runs of one process.

A study trains many small runs that differ in their data and seeds. Tracing
their programs anew, and loading them from a cache on disk, would take such a
run as long as its steps. Two runs whose configurations build the same model,
objective and optimizer share one program; nothing is kept outside of `reused`.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
import contextlib
from typing import Any, TypeVar

from transformer_zoo import config
from transformer_zoo.runs import settings

# A study goes through its rows one by one, each with a few programs.
_MOST = 16

_Made = TypeVar("_Made")
_programs: dict[Hashable, object] | None = None


@contextlib.contextmanager
def reused() -> Iterator[None]:
  """Lets the runs that gin calls within it share what `shared` returns."""
  global _programs
  before, _programs = _programs, {}
  try:
    yield
  finally:
    _programs = before


def shared(
  make: Callable[..., _Made],
  *arguments: Any,
  groups: Sequence[type],
  knows: Hashable = None,
  **keywords: Any,
) -> _Made:
  """Returns what `make` returns, or has returned in a run that is alike.

  Args:
    make: The function that builds programs.
    *arguments: Arguments of `make`.
    groups: The groups of settings (runs/settings.py) that the arguments are
      taken from; runs in which these are configured alike share the result.
    knows: A value that results depend on besides the settings.
    **keywords: Arguments of `make`.
  """
  if _programs is None:
    return make(*arguments, **keywords)
  key = config.text_of("train", settings.names(*groups)), make, knows
  made = (
    _programs.pop(key) if key in _programs else make(*arguments, **keywords)
  )
  _programs[key] = made  # The last one is the newest.
  if len(_programs) > _MOST:
    del _programs[next(iter(_programs))]
  return made
