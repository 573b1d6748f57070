"""What benchmarks print of peers beside ours."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def comparison(monkeypatch):
  """The script as a module."""
  monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
  return pytest.importorskip("peers.comparison")


def rounds_of(*seconds):
  """Returns a function that gives the figures of one round after the other."""
  figures = iter(seconds)

  def measure():
    one = next(figures)
    return one and {"seconds": [one, 2 * one], "processor_seconds": [3 * one]}

  return measure


def test_ratios_are_the_medians_of_the_rounds(comparison):
  sides = {"theirs": rounds_of(2, 9, 12), "ours": rounds_of(1, 3, 2)}
  found = comparison.beside(sides, rounds=3)
  assert found["seconds"] == {
    "theirs": [3, 13.5, 18],
    "ours": [1.5, 4.5, 3],
    "theirs / ours": 3,
  }
  assert found["fastest_seconds"]["ours"] == [1, 3, 2]
  assert found["processor_seconds"]["theirs / ours"] == 3
  assert "bytes" not in found
  assert {"processor", "flags", "cores", "load", "load_after"} == {
    *found["machine"]
  }


def test_a_side_that_fails_has_no_ratio(comparison):
  sides = {"theirs": rounds_of(None, None), "ours": rounds_of(1, 2)}
  found = comparison.beside(sides, rounds=2)
  assert found["fastest_seconds"] == {"ours": [1, 2]}


def test_the_pairs_of_ratios_are_chosen(comparison):
  sides = {name: rounds_of(i + 1) for i, name in enumerate("abc")}
  found = comparison.beside(sides, 1, [("b", "a"), ("c", "b")])
  assert found["fastest_seconds"]["b / a"] == 2
  assert found["fastest_seconds"]["c / b"] == 1.5
  assert "a / c" not in found["fastest_seconds"]


def test_a_module_that_fails_is_left_out_with_its_error(comparison, capfd):
  assert comparison.figures_of("T5X", "peers.no_such_module") is None
  assert capfd.readouterr().err.startswith("T5X left out: ")
