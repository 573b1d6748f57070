"""The best checkpoint per task and per group."""

import math

from transformer_zoo.evaluation import averages
from transformer_zoo.evaluation import best

SCORES = {
  20: {"a": {"f1": 50.0, "accuracy": 70.0}, "b": {"accuracy": 10.0}},
  4: {"a": {"f1": 60.0, "accuracy": 60.0}, "b": {"accuracy": 40.0}},
  8: {"a": {"f1": 80.0, "accuracy": 60.0}, "b": {"accuracy": 20.0}},
}


def test_per_task_and_per_group():
  chosen = best.choose(SCORES)
  assert chosen["tasks"] == {
    "a": {
      "step": 8,
      "score": 70.0,
      "scores": {"f1": 80.0, "accuracy": 60.0},
    },
    "b": {"step": 4, "score": 40.0, "scores": {"accuracy": 40.0}},
  }
  assert chosen["mean_of_best"] == 55.0
  assert chosen["groups"] == {"all tasks": {"step": 4, "average": 50.0}}
  assert "mean of the task's metrics" in chosen["task_rule"]
  assert "one step for all its tasks" in chosen["group_rule"]


def test_both_sets_of_mnli_are_of_one_step():
  """As t5's metric_group_max: the mean of both is the highest at step 2."""
  sets = ("glue_mnli_matched_v002", "glue_mnli_mismatched_v002")
  scores = {
    step: {sets[0]: {"accuracy": both[0]}, sets[1]: {"accuracy": both[1]}}
    for step, both in {1: (80.0, 70.0), 2: (79.0, 75.0), 3: (60, 76)}.items()
  }
  chosen = best.choose(scores)
  assert [chosen["tasks"][task]["step"] for task in sets] == [2, 2]
  assert [chosen["tasks"][task]["score"] for task in sets] == [79.0, 75.0]
  assert chosen["mean_of_best"] == 77.0
  del scores[2][sets[1]]
  chosen = best.choose(scores)
  assert [chosen["tasks"][task]["step"] for task in sets] == [2, 1]


def test_an_undefined_score_is_never_the_best():
  steps = {1: {"a": {"r": math.nan}}, 2: {"a": {"r": -3.0}}}
  chosen = best.choose(steps)
  assert chosen["tasks"]["a"]["step"] == 2
  assert chosen["groups"] == {"all tasks": {"step": 2, "average": -3.0}}


def test_of_equal_steps_the_first():
  chosen = best.choose({9: {"a": {"f1": 5.0}}, 3: {"a": {"f1": 5.0}}})
  assert chosen["tasks"]["a"]["step"] == 3
  assert chosen["groups"]["all tasks"]["step"] == 3


def test_a_benchmark_only_with_all_its_members():
  whole = {}
  for members in averages.GLUE_GROUPS.values():
    for task, metric in members:
      whole.setdefault(task, {})[metric] = 80.0
  partial = {k: v for k, v in whole.items() if k != "glue_rte_v002"}
  partial["glue_cola_v002"] = {"matthews_corrcoef": 99.0}
  chosen = best.choose({1: whole, 2: partial})
  assert chosen["groups"]["GLUE"] == {"step": 1, "average": 80.0}
  assert "SuperGLUE" not in chosen["groups"]


def test_without_scores_there_is_no_best():
  chosen = best.choose({1: {}, 2: {}})
  assert chosen["tasks"] == {} and chosen["groups"] == {}
  assert chosen["mean_of_best"] is None


def test_a_loss_is_no_score_to_choose_by():
  chosen = best.choose({1: {"lm": {"loss": 3.0}, "a": {"f1": 5.0}}})
  assert list(chosen["tasks"]) == ["a"] and chosen["mean_of_best"] == 5.0
  assert best.choose({1: {"lm": {"loss": 3.0}}})["groups"] == {}
