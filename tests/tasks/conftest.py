"""Few examples of the miniature world, for tests to which no number matters."""

import pytest

from tasks.miniature.examples import splits

FEW = {"train": 120, "validation": 48, "test": 24}


@pytest.fixture(scope="module")
def few_examples():
  """Tasks of the miniature world have `FEW` examples."""
  with pytest.MonkeyPatch.context() as patch:
    for sizes in (
      splits.SIZES,
      splits.SIZES_OF_SUMMARIES,
      splits.SIZES_OF_TRANSLATIONS,
    ):
      for split, number in FEW.items():
        patch.setitem(sizes, split, number)
    yield FEW
