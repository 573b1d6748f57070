"""Charts: to scale, in the colours of the page, the same in every report."""

import pathlib
import re
import types
import xml.etree.ElementTree

import numpy as np
import pytest

from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.report import charts
from transformer_zoo.studies.report import scores_section
from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics import scores
from transformer_zoo.studies.statistics.ladder import Ladder
from transformer_zoo.studies.statistics.ladder import Rung
from transformer_zoo.studies.statistics.ranking import MeanTau


def _dots(svg):
  return [
    (float(x), float(y)) for x, y in re.findall(r'cx="(.*?)" cy="(.*?)"', svg)
  ]


def _lines(svg, colour):
  """The points of the lines in a colour of the page."""
  found = []
  for element in xml.etree.ElementTree.fromstring(svg).iter("path"):
    if f"stroke: var(--{colour})" in element.get("style"):
      numbers = [float(n) for n in re.findall(r"[\d.]+", element.get("d"))]
      found.append(np.reshape(numbers, (-1, 2)))
  return found


def _curves(**others):
  x = np.array([0.0, 5.0, 10.0])
  values = np.array([[1.0, 2.0, 5.0], [3.0, 2.0, 5.0]])
  return {0: (x, values)} | others


def test_curves_lie_to_scale():
  svg = charts.learning_curves("<title>", "steps", _curves())
  (points,) = _lines(svg, "series-0")
  (x0, y0), (x1, y1), (x2, y2) = points
  assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
  assert y0 == y1 and y0 > y2  # The means are 2, 2 and 5.
  assert 'aria-label="&lt;title&gt;"' in svg and ">steps</text>" in svg


def test_a_row_with_a_single_point_is_a_dot():
  one = np.array([3.0]), np.array([[7.0]])
  assert not _dots(charts.learning_curves("", "steps", _curves()))
  svg = charts.learning_curves("", "steps", {**_curves(), 1: one})
  assert len(_dots(svg)) == 1 and not _lines(svg, "series-1")


def test_counts_are_short_on_the_axes():
  many = {0: (np.array([0.0, 6e6]), np.array([[-0.5, 1.0]]))}
  svg = charts.learning_curves("", "tokens", many)
  texts = re.findall(r"<text[^>]*>(.*?)</text>", svg)
  assert {"0", "2.00 M", "6.00 M", "−0.5"} <= set(texts)


def test_charts_take_their_colours_from_the_page():
  rows = {place: _curves()[0] for place in range(24)}
  svg = charts.learning_curves("a", "steps", rows)
  colours = re.findall(r"(?:fill|stroke): ([^;\"]+)", svg)
  assert set(colours) == {
    "none",
    "var(--grid)",
    "var(--soft)",
    "var(--ink)",
  } | {f"var(--series-{index})" for index in range(8)}
  looks = re.findall(
    r"stroke-dasharray: [^;]*; [^\"]*var|fill: none[^\"]*", svg
  )
  series = [one for one in looks if "series" in one]
  assert len(series) == 24 and len(set(series)) == 24


def test_equal_charts_are_equal_and_share_no_names():
  one, other = (
    charts.learning_curves("a", "steps", _curves()) for _ in range(2)
  )
  assert one == other
  assert " id=" not in one and "href" not in one


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
  found = charts.sensitivities(labelled(*labels))
  assert {k: list(values.values()) for k, values in found.items()} == expected


def test_seeds_are_dots_that_name_their_row(labelled):
  table = labelled("10%", "<b>")
  svg = charts.seeds(table, "GLUE")
  root = xml.etree.ElementTree.fromstring(svg)
  titles = [title.text for title in root.iter("title")]
  assert titles == ["10%: seed 0 40.00, seed 1 41.00"] + [
    "<b>: seed 0 41.00, seed 1 42.00"
  ]
  (x0, y0), (x1, y1), (x2, y2), _ = _dots(svg)
  assert x0 == x1 < x2 and y1 == y2 < y0


def test_the_band_is_two_deviations_of_the_baseline(labelled, monkeypatch):
  bands = []
  monkeypatch.setattr(
    "matplotlib.axes.Axes.axhspan",
    lambda axes, low, high, **style: bands.append((low, high)),
  )
  charts.seeds(labelled("10%", "<b>"), "GLUE")
  deviation = np.std([40.0, 41.0], ddof=1)
  expected = 40.5 - 2 * deviation, 40.5 + 2 * deviation
  np.testing.assert_allclose(bands, [expected])


def test_sensitivity_shows_both_as_differences_from_the_baseline(labelled):
  table = labelled("10%", "15%", "25%", published="t5/table06_corruption_rates")
  values = charts.sensitivities(table)["%"]
  svg = charts.sensitivity(table, "GLUE", "%", values)
  (theirs,) = _lines(svg, "series-1")
  x, y = theirs.T
  # Published: 82.82, 83.28 and 83.00; ours 40.5, 41.5 and 42.5.
  assert (y[0] - y[1]) / (y[2] - y[1]) == pytest.approx(46 / 28, rel=0.1)
  assert (x[2] - x[1]) == pytest.approx(2 * (x[1] - x[0]), abs=0.3)
  assert max(map(len, _lines(svg, "series-0"))) == 3


def test_equal_factors_lie_equally_far_apart_on_a_logarithmic_axis(labelled):
  table = labelled("K=2^4", "K=2^6", "K=2^8")
  values = charts.sensitivities(table)["K"]
  svg = charts.sensitivity(table, "GLUE", "K", values)
  (x0, _), (x1, _), (x2, _) = _dots(svg)
  assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
  assert ">256</text>" in svg


def test_scores_lie_over_the_logarithm_of_flops(labelled):
  table = labelled("a", "b", "c")
  flops = {row: 1e12 * 4**n for n, row in enumerate(table.rows)}
  svg = charts.over_costs(table, "GLUE", "FLOPs", flops)
  (x0, y0), (x1, y1), (x2, y2) = _dots(svg)
  assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
  assert y0 > y1 > y2  # Scores of 40.5, 41.5 and 42.5.
  assert "<title>b: 41.50</title>" in svg
  one = {table.rows[0]: 1e12}
  assert charts.over_costs(table, "GLUE", "FLOPs", one) == ""


@pytest.mark.parametrize(("factor", "number"), [(1.5, 0), (2, 2)])
def test_costs_are_drawn_where_flops_differ_by_two(labelled, factor, number):
  """Over FLOPs, and over the seconds of a step: 60 seconds of 1,000 steps."""
  table = labelled("a", "b")
  found = {}
  for row, flops in zip(table.rows, (1e12, factor * 1e12), strict=True):
    cost = budgets.Cost(steps=500, tokens=1.0, flops=flops)
    phases = {"pretrain": cost, "finetune": cost}
    found[row] = budgets.Budget(1, 1, phases, seconds=60 * flops / 1e12)
  figures = scores_section.over_costs(
    types.SimpleNamespace(budgets=found, table=table)
  )
  assert len(figures) == number * len(table.columns)
  if figures:
    over_flops, over_seconds = figures[0], figures[len(table.columns)]
    assert ">1.00 T</text>" in over_flops
    assert ">0.06</text>" in over_seconds and ">0.12</text>" in over_seconds


def test_ours_over_the_published_crosses_at_the_baseline(labelled):
  table = labelled("15%", "10%", published="t5/table06_corruption_rates")
  svg = charts.against_published(table, "GLUE")
  (base_x, base_y), _ = _dots(svg)
  upright, level = _lines(svg, "soft")
  assert upright[:, 0] == pytest.approx(base_x, abs=0.11)
  assert level[:, 1] == pytest.approx(base_y, abs=0.11)
  assert charts.against_published(labelled("15%", "10%"), "GLUE") == ""


def _ladder():
  taus = [(-0.5, -0.9, 0.1), (0.0, -0.4, 0.3), (0.5, 0.2, 0.9)]
  return Ladder(
    "table4",
    tuple(
      Rung(f"suite_{n}", 2, 1e12 * 4**n, MeanTau(*tau, 5, 14, 9))
      for n, tau in enumerate(taus)
    ),
  )


def test_rungs_of_equal_ratios_lie_at_equal_distances():
  svg = charts.ladder(_ladder())
  (x0, y0), (x1, y1), (x2, y2) = _dots(svg)
  assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
  assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
  curve, *intervals = _lines(svg, "series-0")
  assert len(curve) == 3
  high, low = sorted(y for _, y in intervals[0])
  assert low > y0 > high  # Downwards is more.
  assert "<title>suite_2: +0.50</title>" in svg


def test_a_chart_alone_brings_its_colours():
  text = charts.alone(charts.ladder(_ladder()))
  root = xml.etree.ElementTree.fromstring(text)
  assert root.tag == "{http://www.w3.org/2000/svg}svg"
  used = set(re.findall(r"var\((--[\w-]+)\)", text))
  assert used and all(f"{name}: #" in text for name in used)


def test_its_colours_are_those_of_a_page_in_light():
  style = (
    pathlib.Path(charts.__file__).parent / "templates/page.css"
  ).read_text()
  light = dict(re.findall(r"(--[\w-]+): (#\w+);", style.partition("@media")[0]))
  text = charts.alone(charts.ladder(_ladder()))
  alone = dict(re.findall(r"(--[\w-]+): (#\w+)", text))
  assert alone == {name: light[name] for name in alone}


def test_scores_over_the_number_in_the_names_of_columns(make_study):
  columns = tuple(
    Column(name=f"pairs_{shots}", scores=(f"task_{shots}",))
    for shots in (0, 4, 8)
  )
  columns += (Column(name="other_3", scores=("other",)),)

  def of_row(first):
    return {
      seed: {
        "task_0": {"bleu": first + seed},
        "task_4": {"bleu": first + 10.0},
        "task_8": {"bleu": first + 20.0},
        "other": {"bleu": 1.0},
      }
      for seed in (0, 1)
    }

  study = make_study(
    {"small": of_row(0.0), "large": of_row(30.0)}, columns=columns
  )
  table = scores.build(study)
  values = charts.numbered_columns(table)
  assert values == {"pairs": {"pairs_0": 0, "pairs_4": 4, "pairs_8": 8}}
  svg = charts.over_columns(table, "pairs", values["pairs"])
  for colour in ("series-0", "series-1"):
    (points,) = _lines(svg, colour)
    (x0, y0), (x1, y1), (x2, y2) = points
    # Each place is rounded to a tenth of a pixel.
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.21)
    # The means are 0.5, 10 and 20 above the first: a larger score is higher.
    assert (y0 - y1) / (y1 - y2) == pytest.approx(0.95, abs=0.02)
  empty = scores.build(make_study({"a": {0: {}}}, columns=columns))
  assert charts.over_columns(empty, "pairs", values["pairs"]) == ""
