"""Differences that a publication shows, against cells of T5's table 6."""

import dataclasses

import numpy as np
import pytest

from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.report import summary
from transformer_zoo.studies.statistics import analysis
from transformer_zoo.studies.statistics import ranking
from transformer_zoo.studies.statistics import scores
from transformer_zoo.studies.statistics.findings import Finding
from transformer_zoo.studies.statistics.findings import Verdict

# GLUE in print: 83.28, 83.00 and 81.27, with a deviation of 0.235.
_LABELS = {"rate_15": "15%", "rate_25": "25%", "rate_50": "50%"}


@pytest.fixture
def analyse(make_study):
  """Analyses three rows of table 6, of their scores with each seed."""

  def of(*rows, published="t5/table06_corruption_rates"):
    study = make_study(
      {
        row: {
          seed: {"cola": {"mcc": score}} for seed, score in enumerate(values)
        }
        for row, values in zip(_LABELS, rows, strict=True)
      },
      columns=(Column(name="mini_GLUE", scores=("cola",), published="GLUE"),),
      published=published,
      labels=_LABELS,
    )
    return analysis.analyse(study)

  return of


BASE, HIGHER, LOWER = (50.0, 50.1, 50.2), (60.0, 60.1, 60.2), (40, 40.1, 40.2)


@pytest.mark.parametrize(
  "row, verdict, words",
  [
    (LOWER, Verdict.SAME, "As published, by more than chance explains (1)"),
    (HIGHER, Verdict.OPPOSITE, "Against it, by more than chance explains (1)"),
  ],
)
def test_a_difference_in_print_is_found_or_its_opposite(
  analyse, row, verdict, words
):
  found = analyse(BASE, BASE, row)
  (one,) = found.findings
  assert (one.row, one.column, one.verdict) == ("rate_50", "mini_GLUE", verdict)
  assert one.published == pytest.approx(-2.01)
  sign = "−10.00" if verdict is Verdict.SAME else "+10.00"
  assert found.beside_published[:2] == [
    "Differences from 15% that are clear in the publication: 1.",
    f"{words}: 50%: mini_GLUE {sign} [−2.01].",
  ]


def test_what_chance_explains_stays_open_with_its_direction(analyse):
  found = analyse(BASE, BASE, (20.0, 45.0, 80.0))
  assert [one.verdict for one in found.findings] == [Verdict.OPEN]
  assert found.beside_published[1] == (
    "Not significant here (1), in the published direction 1."
  )


def test_what_is_significant_here_alone_is_named(analyse):
  found = analyse(BASE, HIGHER, LOWER)
  verdicts = {one.row: one.verdict for one in found.findings}
  assert verdicts == {"rate_25": Verdict.NEW, "rate_50": Verdict.SAME}
  assert (
    "Significant here and not clear in print (1): 25%: mini_GLUE +10.00 "
    "[−0.28]." in found.beside_published
  )
  assert found.count(Verdict.SAME) == 1
  assert found.summary.startswith("2 of the 2 differences from 15% are more ")
  # Each stands once in the brief: those with a figure in print beside it.
  brief = summary.sentences(found)
  assert not any(line.startswith(("25%: ", "50%: ")) for line in brief)


def test_differences_without_a_figure_in_print_are_listed(make_study):
  rows = {"a": BASE, "b": LOWER}
  study = make_study(
    {
      row: {seed: {"cola": {"mcc": one}} for seed, one in enumerate(values)}
      for row, values in rows.items()
    }
  )
  found = analysis.analyse(study)
  assert found.summary.startswith("The one difference from a is more than ")
  assert "b: cola −10.00." in summary.sentences(found)
  same = analysis.analyse(dataclasses.replace(study, baseline="b"))
  assert "a: cola +10.00." in summary.sentences(same)


def test_scores_of_tasks_in_print_stand_beside_ours(make_study):
  """Those of T5's table 16, by the row of the study's own table."""
  of_rows = {
    row: {0: {"glue_cola_v002": {"matthews_corrcoef": 1.0}}} for row in _LABELS
  }
  study = make_study(
    of_rows, published="t5/table06_corruption_rates", labels=_LABELS
  )
  table = scores.build(study)
  (metric,) = table.every_metric
  assert table.cells["rate_25", metric].published == 53.47


def test_a_study_of_ones_own_has_no_findings(make_study):
  one = {0: {"cola": {"mcc": 1.0}}}
  found = analysis.analyse(make_study({"a": one, "b": one}))
  assert found.findings == () and found.beside_published == []


def test_tau_is_averaged_over_columns_of_three_rows_or_more():
  def agreement(column, ours, published, **noise):
    found = ranking.rank(ours, published, **noise)
    return ranking.Agreement(column, (), found, "")

  three, two = [1.0, 2.0, 3.0], [1.0, 2.0]
  alike = agreement("a", three, three, our_noise_BR=np.zeros((300, 3)))
  noise_BR = np.random.default_rng(0).normal(0, 5, (300, 3))
  unlike = agreement("b", three, three[::-1], our_noise_BR=noise_BR)
  pair = agreement("c", two, two)
  assert ranking.mean_tau([pair]) is None
  found = ranking.mean_tau([alike, unlike, pair])
  assert (found.tau, found.num_columns) == (0.0, 2)
  assert found.low == 0.0 and found.high == 1.0  # (1 + 1) / 2: from −1 to +1.
  assert found.sentence == (
    "Order of the rows: Kendall's tau +0.00, the mean of columns: 2 (95 % "
    "interval +0.00 to +1.00), 1 being the published order and −1 its reverse. "
    "Of 6 pairs of rows that clearly differ in the publication, 3 stand in its "
    "order."
  )
  unknown = agreement("d", three, three, deviation=0.2)
  assert unknown.ranking.low is None
  assert ranking.mean_tau([alike, unknown]).low is None


def test_no_difference_is_like_no_other():
  for ours, published in ((0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)):
    found = Finding("row", "column", ours, published, Verdict.SAME)
    assert not found.is_alike
