"""Budgets of the rungs of the miniature suite."""

import collections
import functools

import pytest

from tests.studies import shipped
from transformer_zoo.studies.execution import costs


@functools.cache
def jobs(study, suite):
  return costs.jobs(shipped.runs(study, suite))


def flops(study, suite):
  """The FLOPs of each row, pre-training and fine-tuning together."""
  found = collections.Counter()
  for job in jobs(study, suite):
    found[job.run.row] += job.costs.flops
  return found


@pytest.mark.slow
@pytest.mark.parametrize("factor", [4, 16])
def test_rungs_have_4_and_16_times_the_flops_of_the_suite(factor):
  base = flops("table4", "miniature")
  rung = flops("table4", f"miniature_{factor}x")
  for row in base:
    assert rung[row] == pytest.approx(factor * base[row], rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [4, 16])
def test_model_and_data_grow_together(factor):
  base, rung = (
    jobs("table4", suite) for suite in ("miniature", f"miniature_{factor}x")
  )
  for small, large in zip(base, rung, strict=True):
    model = large.costs.parameters / small.costs.parameters
    data = large.costs.input_tokens / small.costs.input_tokens
    assert model > factor**0.3
    assert data > factor**0.3


@pytest.mark.slow
def test_table_2_has_about_4_times_its_flops_row_by_row():
  # Layers double and the softmax stays: rows with few layers grow less.
  base = flops("table2_denoising", "miniature")
  rung = flops("table2_denoising", "miniature_4x")
  for row in base:
    assert rung[row] == pytest.approx(4 * base[row], rel=0.125)


def test_denoising_rows_are_runs_of_table_2():
  whole, own = (
    {run.fingerprint for run in shipped.runs(study, "miniature")}
    for study in ("table2", "table2_denoising")
  )
  assert own < whole
