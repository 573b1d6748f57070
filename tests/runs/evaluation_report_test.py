"""Figures that an evaluation reports beside the scores of its tasks."""

import dataclasses
import types

from transformer_zoo.evaluation.evaluator import TaskResult
from transformer_zoo.runs import evaluation_report


def result(accuracy, template_of=None):
  return TaskResult(
    loss=1.0,
    accuracy=0.5,
    scores={"accuracy": accuracy},
    predictions=[],
    num_examples=7,
    template_of=template_of,
  )


def lines_of(found):
  evaluator = types.SimpleNamespace(
    lengths={"inputs": 8, "targets": 4},
    converter=types.SimpleNamespace(features=("inputs", "targets")),
  )
  return evaluation_report.of_checkpoint(found, evaluator)


def test_medians_over_templates_with_their_quartiles():
  results = {
    "rte_1": result(50.0, "rte"),
    "rte_2": result(58.0, "rte"),
    "rte_3": result(70.0, "rte"),
    "cb_1": result(40.0, "cb"),
    "other": result(99.0),
  }
  found = evaluation_report.as_json("run/7", "validation", results, [])
  assert found["templates"] == {
    "sets": {
      "rte": {"templates": 3, "median": 58.0, "quartiles": (54.0, 64.0)},
      "cb": {"templates": 1, "median": 40.0, "quartiles": (40.0, 40.0)},
    },
    "average": 49.0,
  }
  assert lines_of(found)[-4:] == [
    "medians over the templates of a set, and quartiles",
    "  rte  58.00 (54.00 to 64.00) of 3 templates",
    "  cb   40.00 (40.00 to 40.00) of 1 template",
    "mean of 2 medians: 49.00",
  ]


def test_tasks_that_are_no_templates_have_no_medians():
  found = evaluation_report.as_json("run", "test", {"a": result(1.0)}, [])
  assert "templates" not in found
  # One template alone is its own median.
  one = {"a": result(1.0, "a"), "b": result(2.0, "b")}
  found = evaluation_report.as_json("run", "test", one, [])
  assert not any("median" in line for line in lines_of(found))


def test_scores_by_step():
  scores = {20: {"a": {"f1": 3.0}}, 10: {"a": {"f1": 1.0}, "b": {}}}
  assert evaluation_report.of_steps(scores) == [
    "scores by step",
    "  a: 1.00 at step 10, 3.00 at step 20",
  ]
  assert evaluation_report.as_metrics(scores, "test") == (
    '{"step": 10, "test/a/f1": 1.0}\n{"step": 20, "test/a/f1": 3.0}\n'
  )
  assert evaluation_report.of_steps({10: {}}) == []


def test_the_table_of_an_evaluation():
  scored = dataclasses.replace(
    result(88.5), scores={"accuracy": 88.5, "f1": 7.0}, invalid=2
  )
  unscored = dataclasses.replace(result(0.0), scores={})
  assert evaluation_report.of_step(
    400, {"mini_mrpc": scored, "corpus": unscored}, 47.75
  ) == [
    "validation at step 400",
    "  task         loss  scores",
    "  mini_mrpc  1.0000  accuracy 88.50  f1 7.00  2 invalid predictions",
    "  corpus     1.0000  50.00 % of target tokens",
    "  average            47.75",
  ]
  # One task has no average of its own.
  assert len(evaluation_report.of_step(0, {"corpus": unscored}, None)) == 3
