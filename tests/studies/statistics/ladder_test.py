"""Ladders: a study on several suites, by rising FLOPs."""

import types

from transformer_zoo.studies.statistics import ladder
from transformer_zoo.studies.statistics.ranking import MeanTau


def analysis(study, suite, flops, tau=0.5):
  """What the ladder reads of an analysis; no tau without an order."""
  order = None if tau is None else MeanTau(tau, tau - 0.1, tau + 0.2, 5, 14, 9)
  return types.SimpleNamespace(
    study=types.SimpleNamespace(
      name=study, suite_title=suite, seeds=(0, 1), baseline="base"
    ),
    budgets={"base": types.SimpleNamespace(flops=flops)} if flops else {},
    tau=order,
  )


def test_rungs_are_sorted_by_flops():
  found = ladder.ladders(
    [
      analysis("table4", "large", 16e12, 0.8),
      analysis("table2", "small", 1e12),
      analysis("table4", "small", 1e12, -0.2),
    ]
  )
  assert [one.study for one in found] == ["table4"]
  assert [rung.suite for rung in found[0].rungs] == ["small", "large"]
  assert [rung.tau.tau for rung in found[0].rungs] == [-0.2, 0.8]


def test_a_suite_without_order_or_baseline_is_no_rung():
  one = analysis("table1", "small", 1e12)
  assert not ladder.ladders([one, analysis("table1", "large", 4e12, None)])
  assert not ladder.ladders([one, analysis("table1", "large", None)])
