"""The faults that `python -m tests.faults` plants."""

import pathlib

import pytest

from tests.faults import table

ROOT = pathlib.Path(__file__).parents[1]


@pytest.mark.parametrize("fault", table.FAULTS, ids=lambda fault: fault.before)
def test_a_fault_can_be_planted(fault):
  """Finds a line that has changed, and a test that has moved."""
  assert (ROOT / fault.path).read_text().count(fault.before) == 1
  assert all((ROOT / test).exists() for test in fault.tests)
