"""Charts: well formed, to scale, in the colours of the page."""

import re
import xml.etree.ElementTree

import pytest

from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.report import chart
from transformer_zoo.studies.report import plots
from transformer_zoo.studies.statistics import scores


@pytest.mark.parametrize(
  ("low", "high", "expected"),
  [
    (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    (48.2, 50.3, [48.5, 49.0, 49.5, 50.0]),
    (-3.2, 1.1, [-3.0, -2.0, -1.0, 0.0, 1.0]),
    (0, 6e6, [0, 1e6, 2e6, 3e6, 4e6, 5e6, 6e6]),
  ],
)
def test_ticks_are_round_numbers_in_the_range(low, high, expected):
  assert chart.round_numbers(low, high) == pytest.approx(expected)


def test_counts_have_three_digits():
  written = map(chart.compact, (7, 99_999, 812_032, 9.996e6, 1.234e9, 2e18))
  assert list(written) == ["7", "99,999", "812 k", "10.0 M", "1.23 G", "2.00 E"]


def _circles(svg):
  return [
    (float(x), float(y)) for x, y in re.findall(r'cx="(.*?)" cy="(.*?)"', svg)
  ]


def test_dots_lie_to_scale():
  drawn = chart.Chart("<title>", "steps", "score")
  drawn.dots([0, 5, 10], [1.0, 2.0, 5.0], place=0)
  svg = drawn.svg()
  xml.etree.ElementTree.fromstring(svg)
  (x0, y0), (x1, y1), (x2, y2) = _circles(svg)
  assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
  assert (y0 - y2) == pytest.approx(4 * (y0 - y1), abs=0.5)
  assert "&lt;title&gt;" in svg


def test_equal_factors_lie_equally_far_apart_on_a_logarithmic_axis():
  drawn = chart.Chart("", "tokens", log_x=True, x_ticks=[16, 64, 256])
  drawn.dots([16, 64, 256], [1.0, 1.0, 1.0], place=0)
  (x0, _), (x1, _), (x2, _) = _circles(drawn.svg())
  assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
  assert ">256</text>" in drawn.svg()


def test_ticks_show_as_many_digits_as_they_have():
  drawn = chart.Chart("", "share", log_x=True, x_ticks=[0.25, 0.5, 1])
  drawn.dots([0.25, 0.5, 1], [-1.0, 0.0, 1.0], place=0)
  texts = re.findall(r'class="tick"[^>]*>(.*?)</text>', drawn.svg())
  assert texts == ["−1.0", "−0.5", "0.0", "0.5", "1.0", "0.25", "0.50", "1.00"]


def test_a_chart_of_one_value_or_none():
  drawn = chart.Chart("one")
  drawn.line([3], [7.0], place=0)
  assert "<circle" in drawn.svg()
  assert chart.Chart("none").svg() == ""


def test_rows_beyond_the_colours_differ_in_their_dashes():
  looks = [chart.of_row(place) for place in range(24)]
  assert len(set(looks)) == 24


@pytest.fixture
def labelled(make_study):
  def make(*labels, published=""):
    by_row = {
      f"r{i}": {seed: {"cola": {"mcc": 40.0 + i + seed}} for seed in (0, 1)}
      for i in range(len(labels))
    }
    return scores.build(
      make_study(
        by_row,
        columns=(Column(name="GLUE", scores=("cola",)),),
        published=published,
        labels={f"r{i}": label for i, label in enumerate(labels)},
      )
    )

  return make


@pytest.mark.parametrize(
  ("labels", "expected"),
  [
    (("10%", "15%", "50%"), {"%": [10, 15, 50]}),
    (("Baseline (i.i.d.)", "10", "2", "5"), {"value": [2, 5, 10]}),
    (
      ("Equal", "K=2^16", "K=2^18", "K=2^17", "T=2", "T=4"),
      {"K": [2**16, 2**17, 2**18]},
    ),
    (("4x size", "2x size, 2x steps", "1x size, 4x batch"), {}),
    (("2^29", "1,024", "64"), {"value": [64, 1024, 2**29]}),
    (("Full", "1/4", "1", "2"), {"value": [0.25, 1, 2]}),
    # Layers, and more than a float holds: no numbers.
    (("12/12", "24/0", "2", "3", "2^9999"), {"value": [1, 2, 3]}),
    (("24/0", "0/24", "6/6"), {}),
    (("dropout .1", "dropout .25", "dropout 0"), {"dropout": [0, 0.1, 0.25]}),
    (("1e-2", "3e-03", "1e-4"), {"value": [1e-4, 3e-3, 1e-2]}),
    (("2^-1", "2^−2", "1"), {"value": [0.25, 0.5, 1]}),
    (("bias -1", "bias 0", "bias −2.5"), {"bias": [-2.5, -1, 0]}),
    (("T5-3", "T5-11", "T5-60"), {}),
    (("v1.0.1", "v1.0.2", "v1.0.3"), {}),
  ],
)
def test_rows_that_differ_in_a_number_are_found(labelled, labels, expected):
  found = plots.sensitivities(labelled(*labels))
  assert {k: list(values.values()) for k, values in found.items()} == expected


def test_sensitivity_shows_both_as_differences_from_the_baseline(labelled):
  table = labelled("10%", "15%", "25%", published="t5/table06_corruption_rates")
  values = plots.sensitivities(table)["%"]
  svg = plots.sensitivity(table, "GLUE", "%", values)
  xml.etree.ElementTree.fromstring(svg)
  ours, theirs = re.findall(r'<polyline [^>]*points="([^"]*)"', svg)
  x, y = zip(*(map(float, p.split(",")) for p in theirs.split()), strict=True)
  # Published: 82.82, 83.28 and 83.00; ours 40.5, 41.5 and 42.5.
  assert (y[0] - y[1]) / (y[2] - y[1]) == pytest.approx(46 / 28, rel=0.1)
  assert (x[2] - x[1]) == pytest.approx(2 * (x[1] - x[0]), abs=0.3)
  assert len(ours.split()) == 3


def test_ours_over_the_published_crosses_at_the_baseline(labelled):
  table = labelled("15%", "10%", published="t5/table06_corruption_rates")
  svg = plots.against_published(table, "GLUE")
  (base_x, base_y), _ = _circles(svg)
  assert f'class="zero" d="M{base_x} ' in svg
  assert f'class="zero" d="M0 {base_y}H' in svg
  assert plots.against_published(labelled("15%", "10%"), "GLUE") == ""
