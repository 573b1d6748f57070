"""The smallest detectable difference of a study."""

import dataclasses

import numpy as np
import pytest

from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.design.suite import MEAN
from transformer_zoo.studies.statistics import analysis
from transformer_zoo.studies.statistics import inference


@pytest.mark.parametrize(
  "num_seeds, deviations", [(2, 5.653), (3, 3.071), (5, 2.024), (10, 1.325)]
)
def test_it_is_that_of_tables_of_power(num_seeds, deviations):
  # As G*Power and statsmodels' TTestIndPower solve it for two equal groups.
  found = inference.smallest_difference(2.0, num_seeds)
  assert found == pytest.approx(2 * deviations, abs=2e-3)


def test_examples_alone_are_of_a_normal_distribution():
  found = inference.smallest_difference(0.0, 3, 4.0)
  assert found == pytest.approx(2 * (1.959964 + 0.841621), abs=1e-3)
  assert inference.smallest_difference(0.0, 3) == 0.0


def test_four_of_five_studies_see_it():
  draws = np.random.default_rng(0)
  difference = inference.smallest_difference(1.0, 3)
  seen = [
    inference.estimate(draws.normal(difference, 1, 3), draws.normal(0, 1, 3))
    for _ in range(2000)
  ]
  # Welch's degrees of freedom are fewer than those of a pooled deviation.
  share = np.mean([one.low > 0 for one in seen])
  assert 0.70 < share < 0.82


@pytest.fixture
def analyse(make_study):
  def of(*rows, rounding=None):
    study = make_study(
      {
        f"row_{number}": {
          seed: {
            "cola": {"mcc": score},
            "squad": {"em": 5.0 * score},
            "corpus": {"loss": score},
          }
          for seed, score in enumerate(of_row)
        }
        for number, of_row in enumerate(rows)
      },
      columns=(
        Column(name="GLUE", scores=("cola",)),
        Column(name="SQuAD", scores=("squad",)),
        Column(name="corpus", scores=("corpus: loss",)),
      ),
    )
    study = dataclasses.replace(study, rounding=rounding or {})
    return analysis.analyse(study)

  return of


def test_deviations_are_pooled_and_columns_that_see_too_little_are_named(
  analyse,
):
  found = analyse((10, 11, 12), (20, 20, 20), (30, 30.5, 31))
  pooled = np.sqrt((1 + 0 + 0.25) / 3)
  powers = {one.column: one for one in found.powers}
  assert list(powers) == ["GLUE", "SQuAD", "corpus", MEAN]
  assert powers["GLUE"].deviation == pytest.approx(pooled)
  assert powers["SQuAD"].deviation == pytest.approx(5 * pooled)
  assert powers[MEAN].deviation == pytest.approx(3 * pooled)
  assert found.blind == {"SQuAD", MEAN}
  assert found.power == (
    "The smallest detectable difference with 3 seeds (80 % power, two-sided "
    "5 %): GLUE 1.98, SQuAD 9.91, corpus 1.982, mean of columns 5.95. It is "
    "above 3 points in: SQuAD, mean of columns."
  )


def test_seeds_that_agree_by_chance_do_not_hide_the_rounding(analyse):
  found = analyse((10, 11, 12), (20, 20, 20), (30, 30.5, 31))
  rounding = {"GLUE": 2.0, "SQuAD": 0.1}
  rounded = analyse(
    (10, 11, 12), (20, 20, 20), (30, 30.5, 31), rounding=rounding
  )
  before, powers = (
    {one.column: one for one in of.powers} for of in (found, rounded)
  )
  assert powers["GLUE"].deviation == before["GLUE"].deviation
  assert powers["GLUE"].smallest == pytest.approx(2 * 3.071, abs=2e-3)
  assert powers["SQuAD"].smallest == before["SQuAD"].smallest
  assert rounded.power.endswith(
    " The rounding of a machine alone moves a score of one seed by (standard "
    "deviation): GLUE 2.0, SQuAD 0.1."
  )


def test_with_one_seed_nothing_is_known(analyse):
  found = analyse((10,), (20,))
  assert found.blind == {"GLUE", "SQuAD", MEAN}
  assert found.power == (
    "The smallest detectable difference is unknown: it follows from the "
    "deviation over seeds, and no row has two seeds."
  )
