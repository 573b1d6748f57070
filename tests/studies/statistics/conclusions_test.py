"""Verdicts on published conclusions, of T5's table 6 and table 7."""

import math
import re

import numpy as np
import pytest

from transformer_zoo.studies import published
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.design.suite import MEAN
from transformer_zoo.studies.statistics import analysis
from transformer_zoo.studies.statistics import conclusions
from transformer_zoo.studies.statistics import inference
from transformer_zoo.studies.statistics.conclusions import Verdict

_RATES = {"rate_10": "10%", "rate_15": "15%", "rate_50": "50%"}
_SPANS = {"iid": "Baseline (i.i.d.)", "span_3": "3"}
_COLUMNS = (
  Column(name="mini_GLUE", scores=("cola",), published="GLUE"),
  Column(name="mini_SQuAD", scores=("squad",), published="SQuAD"),
  Column(name="corpus", scores=("corpus: loss",)),
)


@pytest.fixture
def judge(make_study):
  """Judges rows whose scores of each seed are the same in every column."""

  def of(labels, *rows, key="t5/table06_corruption_rates", **options):
    study = make_study(
      {
        row: {
          seed: {
            "cola": {"mcc": score + 1},
            "squad": {"em": score - 1},
            "corpus": {"loss": 100 - score},
          }
          for seed, score in enumerate(of_row)
        }
        for row, of_row in zip(labels, rows, strict=True)
      },
      columns=_COLUMNS,
      published=key,
      labels=labels,
      **options,
    )
    return analysis.analyse(study)

  return of


def test_the_mean_of_columns_is_compared_without_losses(judge):
  found = judge(_RATES, (70, 70.2, 70.4), (71, 71.2, 71.4), (50, 50.2, 50.4))
  not_worse, better = found.judged  # 25 % is no row of the study.
  assert (not_worse.column, better.column) == (MEAN, MEAN)
  assert not_worse.verdict is better.verdict is Verdict.HOLDS
  assert better.estimate == inference.estimate(
    np.array([71, 71.2, 71.4]), np.array([50, 50.2, 50.4])
  )
  assert found.verdicts == [
    "Conclusions of the publication (2): holds 2, reversed 0, cannot be "
    "told 0, not run 0.",
    "A rate of 15 % is not worse than 10 %: holds. 15% − 10% (mean of columns; "
    "not worse, margin 3): +1.00 (+0.55 to +1.45).",
    "A rate of 15 % before 50 %: holds. 15% − 50% (mean of columns; better): "
    "+21.00 (+20.55 to +21.45).",
  ]


def test_the_opposite_is_reversed_and_noise_cannot_be_told(judge):
  found = judge(_RATES, (80, 80.2, 80.4), (70, 70.2, 70.4), (40, 70, 95))
  assert [one.verdict for one in found.judged] == [
    Verdict.REVERSED,
    Verdict.OPEN,
  ]


def test_a_single_seed_tells_nothing(judge):
  found = judge(_RATES, (10,), (90,), (10,))
  assert {one.verdict for one in found.judged} == {Verdict.OPEN}


@pytest.mark.parametrize(
  "ours, verdict, measured",
  [
    (9e9, Verdict.HOLDS, "× 0.90"),
    (11e9, Verdict.REVERSED, "× 1.10"),
    (10e9, Verdict.OPEN, "× 1.00"),
  ],
)
def test_what_is_cheaper_follows_from_the_flops(judge, ours, verdict, measured):
  counts = ("parameters", "trained_parameters", "steps", "input_tokens")
  budget = dict.fromkeys((*counts, "target_tokens"), 1)
  found = judge(
    _SPANS,
    (70, 71),
    (70, 71),
    key="t5/table07_span_lengths",
    budgets={
      "iid": budget | {"flops": 10e9},
      "span_3": budget | {"flops": ours},
    },
  )
  cheaper = found.judged[1]
  assert (cheaper.verdict, cheaper.measured) == (verdict, measured)
  assert cheaper.sentence.startswith(
    f"Spans of 3 are cheaper than single tokens: {verdict.value}. 3 over "
    "Baseline (i.i.d.) (FLOPs; cheaper)"
  )


def test_a_column_is_compared_alone(judge):
  labels = {"all": "All parameters", "small": "Adapter layers, d=32"}
  found = judge(
    labels, (70, 71, 72), (60, 61, 62), key="t5/table10_finetuning_methods"
  )
  (questions,) = found.judged
  assert questions.column == "mini_SQuAD"
  assert questions.verdict is Verdict.REVERSED


@pytest.mark.parametrize(
  "relation, holds, is_reversed, is_open",
  [
    ("better", (1, 2), (-2, -1), (-1, 1)),
    ("worse", (-2, -1), (1, 2), (-1, 1)),
    ("slightly worse", (-2, -1), (-9, -4), (-4, -1)),
    ("equal", (-2, 2), (4, 5), (-4, 1)),
    ("not worse", (-2, 9), (-9, -4), (-4, 4)),
  ],
)
def test_each_relation_has_its_intervals(relation, holds, is_reversed, is_open):
  for (low, high), verdict in (
    (holds, Verdict.HOLDS),
    (is_reversed, Verdict.REVERSED),
    (is_open, Verdict.OPEN),
  ):
    estimate = inference.Estimate((low + high) / 2, 1, None, 4, low, high, 0.5)
    assert conclusions.of_interval(relation, estimate) is verdict


# Less is better in these columns.
_LOSSES = re.compile("loss$|PPL|perplexity|^logppl")


def _judged_in_print(table, conclusion):
  """The verdict of the published figures with the paper's own deviations."""
  rows = [table.row(r) for r in (*conclusion.rows, *conclusion.than)]
  columns = (
    [conclusion.column]
    if conclusion.column
    else [
      column
      for column in table.columns
      if not _LOSSES.search(column) and all(column in row for row in rows)
    ]
  )
  ours, theirs = (
    np.mean([[table.row(r)[c] for c in columns] for r in side])
    for side in (conclusion.rows, conclusion.than)
  )
  # Two deviations of a row's mean of columns, as T5 prints bold; others give
  # none.
  deviations = [table.deviations.get(c, 0.0) for c in columns]
  error = 2 * math.hypot(*deviations) / len(columns)
  difference = ours - theirs
  ends = difference - error, difference + error
  estimate = inference.Estimate(difference, 0, None, 9, *ends, 0.5)
  relation = conclusion.relation
  if _LOSSES.search(conclusion.column):
    relation = conclusions.OF_LOSSES[relation]
  return conclusions.of_interval(relation, estimate)


def test_every_conclusion_holds_in_the_figures_that_it_was_drawn_from():
  for key in published.keys():
    table = published.load(key)
    for one in table.conclusions:
      assert one.relation in published.RELATIONS
      assert {*one.rows, *one.than} <= table.rows.keys()
      if one.relation != "cheaper":
        assert _judged_in_print(table, one) is Verdict.HOLDS, one.claim


def test_studies_beside_a_table_have_its_conclusions():
  """But for tables that compare with other papers' models, or have one row."""
  beside = {loading.load_study(n).published for n in loading.study_names()}
  without = {k for k in beside if k and not published.load(k).conclusions}
  assert without == {
    "bloom/language_adaptation",
    "gpt/table2_inference",
    "t5/table14_final_test_results",
    "tfew/table1_costs",
  }
