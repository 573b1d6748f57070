"""Several seeds of one run, and restarts of those that failed.

Large encoders sometimes learn nothing from small tasks and give the same answer
always (Devlin et al. 2019, section 4.1, who start several times; Liu et al.
2019 report medians of five seeds). A run is *degenerate* if its score at its
last step is not above the score of one answer for every example, the most
frequent one of the validation split.
"""

import collections
from collections.abc import Callable
import dataclasses
import json
import math
import pathlib
import statistics
from typing import Any

from transformer_zoo.checkpoints import run_layout
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import averages
from transformer_zoo.evaluation import task_scores

SUMMARY = "seeds.json"
# Trains a run of a seed in a folder.
Train = Callable[[int, pathlib.Path], Any]


@dataclasses.dataclass(frozen=True)
class Outcome:
  """A finished run of one seed.

  Attributes:
    seed: The seed.
    score: The score of its best checkpoint, the mean over its tasks.
    last_score: The score at its last step.
    constant_score: The score of the most frequent answer, given always.
    median_of_tasks: The median over the tasks of its best checkpoint, as of the
      templates of a set (Liu et al. 2022, section 3.1).
    instead_of: The seed of the degenerate run that it replaces, or None.
  """

  seed: int
  score: float
  last_score: float
  constant_score: float
  median_of_tasks: float
  instead_of: int | None = None

  @property
  def is_degenerate(self) -> bool:
    """Whether it learned no more than the most frequent answer."""
    return not self.last_score > self.constant_score

  def __str__(self) -> str:
    text = f"seed {self.seed}: {self.score:.2f}"
    if self.instead_of is not None:
      text += f", instead of seed {self.instead_of}"
    if self.is_degenerate:
      text += (
        f"; degenerate: {self.last_score:.2f} at the last step is not above "
        f"{self.constant_score:.2f}, the score of one answer given always"
      )
    return text


def train(
  run: Train,
  folder: pathlib.Path,
  *,
  first_seed: int,
  seeds: int,
  restarts: int,
  report: Callable[[str], None] = print,
) -> pathlib.Path:
  """Trains runs of consecutive seeds, one after another.

  A degenerate run is started again with the next seed that none has had. The
  same call goes on where an earlier one stopped.

  Args:
    run: Trains one run.
    folder: The folder of the runs, `seed_0` and so on.
    first_seed: The seed of the first run.
    seeds: The number of runs that count.
    restarts: The most runs that are started again.
    report: A function that is called with a sentence on each run.

  Returns:
    The path of `seeds.json`: the runs, and the median, mean and standard
    deviation of those that count; `median_of_tasks` is the median over seeds of
    the median over tasks.

  Raises:
    UserError: A number is too small, or a run has no score.
  """
  if seeds < 1 or restarts < 0:
    raise UserError(
      f"--seeds={seeds} must be at least 1 and --restarts={restarts} at least 0"
    )
  waiting = collections.deque(
    (first_seed + number, None) for number in range(seeds)
  )
  unused = iter(range(first_seed + seeds, first_seed + seeds + restarts))
  outcomes, counted = [], []
  while waiting:
    seed, instead_of = waiting.popleft()
    path = folder / f"seed_{seed}"
    run(seed, path)
    outcome = outcome_of(path, seed, instead_of)
    outcomes.append(outcome)
    report(str(outcome))
    following = next(unused, None) if outcome.is_degenerate else None
    if following is None:
      counted.append(outcome)
    else:
      waiting.append((following, seed))
  scores = [outcome.score for outcome in counted]
  summary = {
    "median": statistics.median(scores),
    "mean": statistics.fmean(scores),
    "standard_deviation": statistics.stdev(scores) if seeds > 1 else None,
    "median_of_tasks": statistics.median(
      outcome.median_of_tasks for outcome in counted
    ),
    "seeds": [outcome.seed for outcome in counted],
    "runs": [
      dataclasses.asdict(outcome) | {"degenerate": outcome.is_degenerate}
      for outcome in outcomes
    ],
  }
  path = folder / SUMMARY
  run_layout.replace(path, json.dumps(summary, indent=2) + "\n")
  medians = f"median of {seeds} seeds {summary['median']:.2f}"
  if summary["median_of_tasks"] != summary["median"]:  # There are several.
    medians += f", over tasks too {summary['median_of_tasks']:.2f}"
  report(
    f"{medians}, {sum(o.is_degenerate for o in outcomes)} of {len(outcomes)} "
    "runs degenerate"
  )
  return path


def outcome_of(
  folder: pathlib.Path, seed: int, instead_of: int | None = None
) -> Outcome:
  """Reads the scores of a finished run.

  Args:
    folder: The run folder.
    seed: Its seed.
    instead_of: The seed of the run that it replaces, or None.

  Raises:
    UserError: It has no scores.
  """
  result = json.loads((folder / run_layout.RESULT).read_text())
  found = {
    path.stem: _scores(path)
    for path in sorted((folder / "predictions").glob(f"{result['step']}/*"))
    if path.suffix == ".jsonl"
  }
  if not found or result["average"] is None:
    raise UserError(
      f"{folder} has no scores to compare seeds by: it needs a task with a "
      "validation split and a metric, and an evaluation (EVAL_PERIOD)"
    )
  last, constant = (
    averages.average({task: pair[i] for task, pair in found.items()})
    for i in range(2)
  )
  tasks = filter(averages.has_score, result["scores"].values())
  median = statistics.median(map(averages.task_score, tasks))
  return Outcome(seed, result["average"], last, constant, median, instead_of)


def _scores(path: pathlib.Path) -> tuple[dict[str, float], dict[str, float]]:
  """Scores predictions again, and the most frequent answer in their place."""
  lines = [json.loads(line) for line in path.read_text().splitlines()]
  scoring = json.loads(run_layout.scoring_path(path).read_text())
  scoring = manifest.Scoring(**scoring)
  targets = [line["target_answer"] for line in lines]
  counts = collections.Counter(json.dumps(target) for target in targets)
  constant = json.loads(counts.most_common(1)[0][0])
  log_likelihoods = [line["log_likelihood"] for line in lines]

  def measure(answers):
    values = task_scores.measure(
      scoring,
      task_scores.Answers(targets, answers, None),
      log_likelihoods,
      path.stem,
      task_scores.columns(lines),
    )
    # The correlation of what does not vary is no number.
    return {
      name: value if math.isfinite(value) else 0.0
      for name, value in values.items()
    }

  return (
    measure([line["answer"] for line in lines]),
    measure([constant] * len(lines)),
  )
