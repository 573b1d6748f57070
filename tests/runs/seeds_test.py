"""Several seeds of a run, and which of them are degenerate."""

import json

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.runs import seeds

ACCURACY = "transformer_zoo.evaluation.metrics.classification:accuracy"
PEARSON = "transformer_zoo.evaluation.metrics.classification:pearson_corrcoef"
SPREAD = (-4.0, 1.0, 3.0)
TARGETS = ["yes", "yes", "yes", "no", "no"]


def write(folder, answers, targets=TARGETS, metric=ACCURACY, score=80.0):
  """A finished run with these answers at its last step."""
  predictions = folder / "predictions" / "12"
  predictions.mkdir(parents=True)
  lines = [
    {
      "target_answer": target,
      "answer": answer,
      "log_likelihood": -1.0,
      "target_tokens": 1,
    }
    for target, answer in zip(targets, answers, strict=True)
  ]
  text = "".join(f"{json.dumps(line)}\n" for line in lines)
  (predictions / "task.jsonl").write_text(text)
  scoring = {
    "postprocess": None,
    "metrics": [{"function": metric, "kwargs": {}}],
  }
  (predictions / "task.scoring.json").write_text(json.dumps(scoring))
  # Of three templates, whose mean is the score.
  scores = {f"task_{i}": {"accuracy": score + x} for i, x in enumerate(SPREAD)}
  result = {"step": 12, "average": score, "scores": scores}
  (folder / "result.json").write_text(json.dumps(result))


def runs(tmp_path, answers_of, **numbers):
  """Trains with the answers of each seed; returns reports and the summary."""
  started, reports = [], []

  def run(seed, folder):
    started.append(seed)
    if not folder.exists():
      write(folder, answers_of[seed], score=70.0 + seed)

  path = seeds.train(run, tmp_path, report=reports.append, **numbers)
  return started, reports, json.loads(path.read_text())


@pytest.mark.parametrize(
  "answers, is_degenerate",
  [
    (["yes"] * 5, True),
    (["no"] * 5, True),
    (["yes", "yes", "no", "no", "yes"], True),  # 60 %, as "yes" always
    (["yes", "yes", "yes", "no", "yes"], False),
  ],
)
def test_degenerate_is_what_one_answer_would_score(
  tmp_path, answers, is_degenerate
):
  write(tmp_path / "run", answers)
  found = seeds.outcome_of(tmp_path / "run", 0)
  assert found.is_degenerate == is_degenerate
  assert found.constant_score == 60.0
  assert found.score == 80.0  # of the best step, which does not count here


@pytest.mark.parametrize(
  "answers, is_degenerate",
  [([2.5] * 5, True), ([5.0, 4.0, 3.0, 2.0, 1.0], True), ([1, 2, 2, 2, 5], 0)],
)
def test_numbers_without_correlation_are_degenerate(
  tmp_path, answers, is_degenerate
):
  targets = [1.0, 2.0, 3.0, 4.0, 5.0]
  write(tmp_path / "run", answers, targets, PEARSON)
  found = seeds.outcome_of(tmp_path / "run", 0)
  assert found.is_degenerate == is_degenerate


GOOD, BAD = ["yes", "yes", "yes", "no", "yes"], ["yes"] * 5


def test_degenerate_runs_are_started_again_with_other_seeds(tmp_path):
  answers = {4: GOOD, 5: BAD, 6: GOOD, 7: BAD, 8: GOOD}
  numbers = {"first_seed": 4, "seeds": 3, "restarts": 2}
  started, reports, summary = runs(tmp_path, answers, **numbers)
  assert started == [4, 5, 6, 7, 8]
  assert summary["seeds"] == [4, 6, 8]
  assert summary["median"] == 76.0
  assert summary["median_of_tasks"] == 77.0
  assert [run["instead_of"] for run in summary["runs"]] == [
    *(None, None, None),
    *(5, 7),
  ]
  assert reports[1] == (
    "seed 5: 75.00; degenerate: 60.00 at the last step is not above 60.00, the "
    "score of one answer given always"
  )
  assert reports[4] == "seed 8: 78.00, instead of seed 7"
  assert reports[-1] == (
    "median of 3 seeds 76.00, over tasks too 77.00, 2 of 5 runs degenerate"
  )
  # Called again, it reads what is there.
  assert runs(tmp_path, {}, **numbers) == (started, reports, summary)


def test_a_degenerate_run_counts_where_no_restart_is_left(tmp_path):
  answers = {0: BAD, 1: GOOD, 2: BAD}
  numbers = {"first_seed": 0, "seeds": 2, "restarts": 1}
  started, _, summary = runs(tmp_path, answers, **numbers)
  assert started == [0, 1, 2]
  assert summary["seeds"] == [1, 2]
  assert [run["degenerate"] for run in summary["runs"]] == [True, False, True]


def test_what_cannot_be_compared(tmp_path):
  with pytest.raises(UserError, match="--seeds=0 must be at least 1 and --res"):
    runs(tmp_path, {}, first_seed=0, seeds=0, restarts=0)
  (tmp_path / "seed_0").mkdir()
  result = json.dumps({"step": 12, "average": None})
  (tmp_path / "seed_0" / "result.json").write_text(result)
  with pytest.raises(UserError, match="has no scores to compare seeds by: it"):
    runs(tmp_path, {}, first_seed=0, seeds=1, restarts=0)


@pytest.mark.slow
def test_the_command_trains_each_seed_in_a_folder(zoo, gin_file, tmp_path):
  words = [
    *("train", f"--gin_file={gin_file}", "--seeds", "2"),
    f"--gin.MODEL_DIR={str(tmp_path / 'run')!r}",
    *("--gin.RANDOM_SEED=3", "--gin.TRAIN_STEPS=4"),
    *("--gin.EVAL_PERIOD=4", "--gin.CHECKPOINT_PERIOD=4"),
  ]
  code, output, error = zoo(*words)
  assert code == 0, error
  assert output.strip().endswith("run/seeds.json")
  summary = json.loads((tmp_path / "run" / "seeds.json").read_text())
  assert summary["seeds"] == [3, 4]
  metrics = {
    (tmp_path / "run" / f"seed_{seed}" / "metrics.jsonl").read_text()
    for seed in (3, 4)
  }
  assert len(metrics) == 2
  code, again, _ = zoo(*words)
  assert code == 0
  assert again.splitlines()[-2:] == output.splitlines()[-2:]


def test_restarts_need_seeds(zoo, gin_file):
  code, _, error = zoo("train", f"--gin_file={gin_file}", "--restarts", "2")
  assert code == 2
  assert "--restarts needs --seeds, the number of runs that count" in error


def test_seeds_need_a_local_folder(zoo, gin_file):
  folder = "--gin.MODEL_DIR='gs://bucket/run'"
  code, _, error = zoo("train", f"--gin_file={gin_file}", folder, "--seeds=2")
  assert code == 2
  assert "from a local folder, in one process; MODEL_DIR is 'gs://buc" in error
