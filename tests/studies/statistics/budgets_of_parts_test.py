"""Rows that train a part of a model have their bytes in the report too."""

from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics.budgets import Budget


def budget(trained, **num_bytes):
  return Budget(
    parameters=100.0, trained=trained, phases={}, seconds=1.0, **num_bytes
  )


def test_bytes_are_reported_where_a_row_trains_a_part():
  whole = {"a": budget(100.0), "b": budget(100.0)}
  assert budgets.quantities(whole) == budgets.QUANTITIES
  assert not budgets.trains_parts(whole)
  some = {**whole, "c": budget(3.0, checkpoint_bytes=48.0, step_bytes=700.0)}
  assert budgets.trains_parts(some)
  found = budgets.quantities(some)
  assert [*found][-2:] == ["checkpoint bytes", "step bytes"]
  assert [of(some["c"]) for of in found.values()][-2:] == [48.0, 700.0]
