"""Costs that a plan remembers for the next one."""

import dataclasses

import pytest

from tests.studies.planned import COSTS
from transformer_zoo import environment
from transformer_zoo.studies.execution import known_costs


@pytest.fixture
def book(tmp_path, monkeypatch):
  """The costs that a version of the code finds in one file."""

  def of_version(code):
    monkeypatch.setattr(
      environment, "describe_software", lambda: {"code": code}
    )
    return known_costs.KnownCosts(tmp_path / "runs" / "costs.json")

  return of_version


def never():
  raise AssertionError("it is known")


def test_costs_are_counted_once(book):
  without = dataclasses.replace(COSTS, executed=None)
  first = book("a")
  assert first.of("small", lambda: COSTS) == COSTS
  assert first.of("small", never) == COSTS
  first.of("large", lambda: without)
  first.write()
  again = book("a")
  assert again.of("small", never) == COSTS
  assert again.of("large", never) == without


def test_another_version_counts_anew(book):
  before = book("a")
  before.of("small", lambda: COSTS)
  before.write()
  after = book("b")
  changed = dataclasses.replace(COSTS, flops=7)
  assert after.of("small", lambda: changed) == changed
  after.write()
  assert book("b").of("small", never) == changed
