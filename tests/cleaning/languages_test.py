"""The language filter and what it asks."""

import pytest

from transformer_zoo.cleaning.languages import LanguageFilter
from transformer_zoo.errors import UserError

ENGLISH = (
  "The river rises in the northern hills, passes two old mills and the town, "
  "and reaches the sea some forty miles further south. In spring, when the "
  "snow melts, it often leaves its bed, and the meadows are under water."
)
GERMAN = (
  "Der Fluss entspringt in den Bergen, fließt an zwei alten Mühlen und der "
  "Stadt vorbei und mündet vierzig Meilen weiter südlich in das Meer. Im "
  "Frühling, wenn der Schnee schmilzt, tritt er oft über die Ufer."
)


def test_py3langid():
  pytest.importorskip("py3langid")
  assert LanguageFilter().keeps(ENGLISH)
  assert not LanguageFilter().keeps(GERMAN)
  assert LanguageFilter(language="de").keeps(GERMAN)
  assert not LanguageFilter(min_probability=0).keeps(GERMAN)
  # A probability, and not the logarithm of one.
  assert 0.99 < LanguageFilter().detect(ENGLISH)[1] <= 1
  assert not LanguageFilter(min_probability=1).keeps("Yes. No. Maybe.")


@pytest.mark.parametrize(
  "probability, kept", [(0.98, False), (0.99, True), (1.0, True)]
)
def test_another_detector(probability, kept):
  language = LanguageFilter(detect=lambda text: ("en", probability))
  assert language.keeps("anything") == kept


def test_a_probability_is_one():
  with pytest.raises(UserError, match="min_probability is 99"):
    LanguageFilter(min_probability=99)
