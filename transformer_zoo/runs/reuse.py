"""Programs that a run has made, for the runs after it in the same process.

A study trains many small runs that differ in their data and seeds. Tracing
their programs anew, and loading them from a cache on disk, would take such a
run as long as its steps. Two runs whose configurations build the same model,
objective and optimizer share one program; nothing is kept outside of `reused`.
"""

from collections.abc import Callable, Hashable, Iterator
import contextlib
from typing import Any, TypeVar

from transformer_zoo import config

# Arguments of `train` that no program knows. What is not here, such as one that
# is added to `train`, tells runs apart.
_OF_DATA_AND_PLACES = frozenset(
  {
    *("model_dir", "checkpointing", "initial_checkpoint", "periods", "seed"),
    *("mixture_or_task_name", "prepared_dir", "num_workers", "rates"),
    *("train_steps", "packing", "static_copies", "max_tokens"),
  }
)
# A study goes through its rows one by one, each with a few programs.
_MOST = 16

_Made = TypeVar("_Made")
_kept: dict[Hashable, object] | None = None


@contextlib.contextmanager
def reused() -> Iterator[None]:
  """Within it runs that are called by gin share what `kept` has made."""
  global _kept
  before, _kept = _kept, {}
  try:
    yield
  finally:
    _kept = before


def kept(
  make: Callable[..., _Made], *, knows: Hashable = None, **arguments: Any
) -> _Made:
  """What `make` returns, or has returned in a run that is configured alike.

  Args:
    make: builds programs.
    knows: what it needs beside the arguments that gin binds to `train`.
    **arguments: of `make`.
  """
  if _kept is None:
    return make(**arguments)
  key = config.text_without("train", _OF_DATA_AND_PLACES), make, knows
  made = _kept.pop(key) if key in _kept else make(**arguments)
  _kept[key] = made  # the last one is the newest
  if len(_kept) > _MOST:
    del _kept[next(iter(_kept))]
  return made
