"""T5X itself, or a plain sentence why it is not compared with."""

import pytest


def require():
  """Skips the module that calls it where T5X cannot be imported."""
  pytest.importorskip(
    "t5x.trainer",
    reason="T5X is not installed (it installs from its repository alone): what "
    "compares our bridge and checkpoints with T5X itself is skipped",
    exc_type=ImportError,
  )
