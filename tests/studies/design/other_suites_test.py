"""Studies on other suites than the miniature one: every run can be loaded."""

import pytest

from tests.studies import shipped
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import study as studies

STUDIES = {
  "small": ("table2", "table11", "table12", "table15"),
  "small_night": ("table2", "table11", "table12", "table15"),
  "miniature_4x": ("table4", "table2_denoising"),
  "miniature_16x": ("table4",),
  "first_look": ("quickstart",),
  "paper": ("table2", "table13", "table14"),
}


@pytest.mark.slow
@pytest.mark.parametrize("suite", STUDIES)
def test_a_name_that_a_run_of_a_suite_misspells_is_found(suite):
  """Also in evaluations and in groups, which other tests do not load."""
  for study in STUDIES[suite]:
    loaded = studies.with_seeds(loading.load_study(study), (0,))
    runs = plan.plan(loaded, loading.load_suite(suite), prepare=False)
    expected = [run.name for run in shipped.runs(study, suite)]
    assert [run.name for run in runs] == expected
