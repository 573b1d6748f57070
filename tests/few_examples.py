"""Few examples of the miniature world, for tests to which no number matters."""

from collections.abc import Iterator, Mapping
import contextlib

import pytest

SIZES = {"train": 120, "validation": 48, "test": 24}


@contextlib.contextmanager
def only_few() -> Iterator[Mapping[str, int]]:
  """Lets the tasks of the miniature world have `SIZES` examples."""
  splits = pytest.importorskip("tasks.miniature.examples.splits")
  with pytest.MonkeyPatch.context() as patch:
    for sizes in (
      splits.SIZES,
      splits.SIZES_OF_SUMMARIES,
      splits.SIZES_OF_TRANSLATIONS,
    ):
      for split, number in SIZES.items():
        patch.setitem(sizes, split, number)
    yield SIZES
