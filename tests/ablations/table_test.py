"""Means, deviations, bold and verdicts, against numbers worked out by hand."""

import csv
import math
import pathlib

import pytest

from transformer_zoo.ablations import results
from transformer_zoo.ablations import scores
from transformer_zoo.ablations import table


def _study(rows, *, seeds=(0, 1), published=None):
  """A study from {row: {seed: {task: {metric: value}}}}."""
  runs = tuple(
    results.RunResult(
      row=row,
      seed=seed,
      phase="finetune",
      scored=True,
      folder=pathlib.Path("nowhere"),
      shared=False,
      state="finished",
      reason="",
      command="",
      result={"scores": by_task},
    )
    for row, by_seed in rows.items()
    for seed, by_task in by_seed.items()
  )
  return results.StudyResults(
    folder=pathlib.Path("nowhere"),
    name="tiny",
    question="Why?",
    baseline=next(iter(rows)),
    seeds=seeds,
    command="zoo ablate tiny",
    published={row: (published or {}).get(row, {}) for row in rows},
    runs=runs,
  )


def _one_task(**rows):
  return _study(
    {
      row: {seed: {"cola": {"mcc": v}} for seed, v in enumerate(values)}
      for row, values in rows.items()
    },
    seeds=tuple(range(max(map(len, rows.values())))),
  )


def test_scores_of_a_task_and_their_average():
  metrics = {"f1": 90.0, "accuracy": 80.0}
  built = scores.build(
    _study({"baseline": {0: {"mrpc": metrics, "cola": {"mcc": 45.0}}}})
  )
  assert built.columns == ("average", "cola (mcc)", "mrpc")
  assert built.metrics == ("mrpc: accuracy", "mrpc: f1")
  assert built.cells["baseline", "mrpc"].mean == 85.0
  assert built.cells["baseline", "average"].mean == 65.0


def test_mean_deviation_and_difference():
  built = scores.build(_one_task(baseline=[50, 54], other=[40, 40]))
  base = built.cells["baseline", "average"]
  assert base.mean == 52.0
  assert base.deviation == pytest.approx(math.sqrt(8.0))
  assert base.difference is None
  assert built.cells["other", "average"].difference == -12.0


def test_bold_is_within_two_deviations_of_the_baseline_from_the_best():
  # The baseline's deviation is sqrt(8) = 2.83: 54 − 5.66 = 48.34.
  built = scores.build(
    _one_task(baseline=[50, 54], best=[54, 54], near=[48.4, 48.4], far=[48, 48])
  )
  bold = [r for r in built.rows if built.cells[r, "average"].bold]
  assert bold == ["baseline", "best", "near"]


def test_a_single_seed_has_no_deviation_and_only_the_best_is_bold():
  built = scores.build(_one_task(baseline=[50], other=[49.9]))
  assert built.cells["baseline", "average"].deviation is None
  assert not built.cells["other", "average"].bold
  assert table.verdict(built, "other") == (
    "baseline − other = +0.10 (average). A row has a single seed, which has no "
    "standard deviation, so nothing can be concluded."
  )


def test_the_verdict_takes_the_larger_deviation_and_shows_the_pooled_one():
  built = scores.build(_one_task(baseline=[50, 54], other=[47, 47]))
  assert table.verdict(built, "other") == (
    "baseline − other = +5.00 (average), which does not exceed two standard "
    "deviations: 2 × 2.83 = 5.66, by the larger of the two rows' sample "
    "standard deviations over 2 and 2 seeds. By the pooled one, 2 × 2.00 = "
    "4.00: exceeded."
  )
  built = scores.build(_one_task(baseline=[50, 54], other=[46, 46]))
  assert ", which exceeds two standard" in table.verdict(built, "other")


def test_the_verdict_without_runs():
  built = scores.build(_one_task(baseline=[50, 54], other=[]))
  assert table.verdict(built, "other") == (
    "baseline − other: a row has no finished run, so nothing can be said."
  )


def test_benchmark_averages_appear_when_complete():
  glue = {}
  for members in scores.averages.GLUE_GROUPS.values():
    for task, metric in members:
      glue.setdefault(task, {})[metric] = 80.0
  built = scores.build(_study({"baseline": {0: glue}}))
  assert built.columns[:2] == ("average", "GLUE average")
  del glue["glue_rte_v002"]
  built = scores.build(_study({"baseline": {0: glue}}))
  assert "GLUE average" not in built.columns


def test_the_published_score_stands_beside_ours():
  study = _study(
    {"baseline": {0: {"cola": {"mcc": 45.0}}}, "other": {}},
    seeds=(0, 1),
    published={"baseline": {"average": 83.28, "cola": 53.84}},
  )
  text = table.to_markdown(study, scores.build(study))
  assert "| average    | **45.00 1 of 2 seeds [83.28]** | —" in text
  assert "| cola (mcc) | **45.00 1 of 2 seeds [53.84]** |" in text
  assert "- In brackets the published score." in text


def test_the_files_of_a_study(run_tiny):
  folder = run_tiny().folder
  text = (folder / "table.md").read_text()
  assert text.startswith("# tiny\n\nDoes <pre-training> help?\n\n|")
  assert "- baseline − no_pretraining = +" in text
  assert "which exceeds two standard deviations" in text
  assert "## Metrics of tasks that have several" in text
  with open(folder / "table.csv") as file:
    lines = list(csv.DictReader(file))
  (line,) = [
    one
    for one in lines
    if (one["row"], one["column"]) == ("baseline", "average")
  ]
  values = [float(line[f"seed_{seed}"]) for seed in (0, 1, 2)]
  assert float(line["mean"]) == pytest.approx(sum(values) / 3)
  assert line["published"] == "83.28"
