"""Retention of checkpoints, and the choice of the best."""

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.retention import KEEP_NEWEST_AND_BEST
from transformer_zoo.training.checkpoints.retention import Scores

STEPS = range(10, 101, 10)
SCORES = {20: 0.5, 40: 0.9, 60: 0.7, 80: 0.9, 100: 0.1}


@pytest.mark.parametrize(
  "options, kept",
  [
    ({}, {90, 100, 40}),
    ({"newest": 3, "best": 0}, {80, 90, 100}),
    ({"newest": 1, "best": 0, "every": 40}, {40, 80, 100}),
    ({"newest": 1, "best": 3}, {40, 80, 60, 100}),
    ({"newest": 1, "best": 2, "highest": False}, {100, 20}),
    ({"newest": 2, "best": 1, "every": 30}, {90, 100, 40, 30, 60}),
    ({"newest": 50}, set(STEPS)),
  ],
)
def test_what_one_rule_keeps_stays(options, kept):
  assert Checkpointing(**options).kept(STEPS, SCORES) == kept
  assert Checkpointing(**options).kept(reversed(STEPS), SCORES) == kept


def test_the_best_that_is_gone_takes_no_place():
  assert KEEP_NEWEST_AND_BEST.kept([60, 90, 100], SCORES) == {60, 90, 100}


LINES = [
  {"step": 2, "train/loss": 3.0},
  {"step": 4, "validation/average": 0.5, "validation/a/loss": 2.0},
  {"step": 8, "validation/average": 0.5, "validation/a/loss": 1.0},
  {"step": 12, "validation/average": 0.2, "validation/a/loss": float("nan")},
]


@pytest.mark.parametrize(
  "options, best",
  [
    ({}, (4, 0.5)),
    ({"highest": False}, (12, 0.2)),
    ({"metric": "validation/a/loss", "highest": False}, (8, 1.0)),
    ({"metric": "validation/a/loss"}, (8, 1.0)),
    ({"metric": "validation/a/loss", "highest": True}, (4, 2.0)),
  ],
)
def test_the_best_of_recorded_lines(options, best):
  scores = Scores(Checkpointing(**options), LINES)
  assert (scores.best_step, scores.best_score) == best
  assert scores.evaluated == {4, 8, 12}


def test_without_scores():
  scores = Scores(KEEP_NEWEST_AND_BEST, [{"step": 4, "validation/a/loss": 2.0}])
  assert scores.best_step is None and scores.best_score is None
  assert scores.evaluated == {4}


def test_how_the_best_was_chosen():
  assert KEEP_NEWEST_AND_BEST.selection == (
    "highest mean of the task scores on the validation split"
  )
  better = {"loss": 1, "invalid": 1, "perplexity": 1, "accuracy": 2}
  for metric, best in better.items():
    options = Checkpointing(metric=f"validation/a/{metric}")
    end = "lowest" if best == 1 else "highest"
    assert options.selection == f"{end} validation/a/{metric}"
    assert options.ranked({1: 0.3, 2: 2.0})[0] == best


@pytest.mark.parametrize(
  "options, sentence",
  [
    (
      {"newest": 0},
      "Checkpointing.newest=0 must be at least 1, every=0 and best=1 at least "
      "0",
    ),
    (
      {"grace_seconds": 0},
      "Checkpointing.grace_seconds=0 must be positive",
    ),
    (
      {"folder": "s3://bucket/checkpoints"},
      "Checkpointing.folder='s3://bucket/checkpoints' is not supported: Orbax "
      "writes to local folders and to gs:// URLs; bind MODEL_DIR to a URL of "
      "another scheme instead, and its checkpoints are uploaded",
    ),
  ],
)
def test_refused(options, sentence):
  with pytest.raises(UserError) as caught:
    Checkpointing(**options)
  assert str(caught.value) == sentence


def test_a_metric_that_is_not_evaluated():
  for metric in ("loss", "validation/loss", "validation/b/loss", "train/a/x"):
    with pytest.raises(UserError) as caught:
      Checkpointing(metric=metric).check_metric(["a", "c"], {}.get)
    assert str(caught.value) == (
      f"Checkpointing.metric={metric!r} is not evaluated; it is "
      "'validation/average' or 'validation/<task>/<metric>' of one of: a, c"
    )
  misspelt = Checkpointing(metric="validation/a/los")
  misspelt.check_metric(["a"], {"a": []}.get)  # not known yet
  with pytest.raises(UserError, match="; did you mean 'validation/a/loss'"):
    misspelt.check_metric(["a"], {"a": ["loss", "accuracy"]}.get)
  with pytest.raises(UserError, match="; did you mean 'validation/a/loss'"):
    misspelt.score({"validation/a/loss": 1.0})
  Checkpointing(metric="validation/a/loss").check_metric(
    ["a"], {"a": ["loss"]}.get
  )
