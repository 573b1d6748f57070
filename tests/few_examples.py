"""Few examples of the miniature world, for tests to which no number matters."""

from collections.abc import Iterator, Mapping
import contextlib
import importlib

import pytest

SIZES = {"train": 120, "validation": 48, "test": 24}
DOCUMENTS = {"train": 2000, "validation": 60}


@contextlib.contextmanager
def only_few() -> Iterator[Mapping[str, int]]:
  """Lets tasks of the miniature world have `SIZES`, corpora `DOCUMENTS`."""
  splits = pytest.importorskip("tasks.miniature.examples.splits")
  source = importlib.import_module("tasks.miniature.source")
  with pytest.MonkeyPatch.context() as patch:
    for sizes in (
      splits.SIZES,
      splits.SIZES_OF_SUMMARIES,
      splits.SIZES_OF_TRANSLATIONS,
    ):
      for split, number in SIZES.items():
        patch.setitem(sizes, split, number)
    for split, number in DOCUMENTS.items():
      patch.setitem(source.NUM_DOCUMENTS, split, number)
    yield SIZES
