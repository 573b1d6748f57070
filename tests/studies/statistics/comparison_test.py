"""Conclusions from whole studies with predictions in their folders."""

import csv
import dataclasses
import io
import json

import numpy as np
import pytest

from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.report import files
from transformer_zoo.studies.statistics import comparison
from transformer_zoo.studies.statistics import inference
from transformer_zoo.studies.statistics import predictions
from transformer_zoo.studies.statistics import ranking
from transformer_zoo.studies.statistics import scores
from transformer_zoo.studies.statistics import study_resamples

N = 100
TASKS = {
  "sentiment": (classification.accuracy,),
  "acceptability": (classification.matthews_corrcoef, classification.accuracy),
}
COLUMNS = (
  Column(name="GLUE", group="all", scores=tuple(TASKS)),
  Column(name="SQuAD", group="all", scores=("acceptability: accuracy",)),
)


class Study:
  """Rows whose answers are right with some probability."""

  def __init__(self, folder, rows, *, seeds=(0, 1, 2), published=""):
    self.folder = folder
    self.targets = np.random.default_rng(0).integers(0, 2, N).tolist()
    self.answers = {}  # (row, seed, task) -> answers.
    runs = tuple(
      self._run(row, seed, probability)
      for row, by_seed in rows.items()
      for seed, probability in zip(seeds, by_seed, strict=True)
    )
    self.results = results.StudyResults(
      folder=folder,
      name="tiny",
      question="Why?",
      suite="two",
      baseline=next(iter(rows)),
      seeds=seeds,
      command="zoo ablate tiny",
      published=published,
      columns=COLUMNS,
      rows={
        row: results.RowInfo(row, row if published else "") for row in rows
      },
      runs=runs,
    )

  def _run(self, row, seed, probability):
    of_seed = np.random.default_rng([seed, *row.encode()])
    of_row = np.random.default_rng([*row.encode()])
    folder = self.folder / f"{row}-{seed}".replace("%", "")
    found = {}
    for task, functions in TASKS.items():
      # Half of the examples fare with every seed of the row alike.
      chances = np.where(np.arange(N) % 2, of_row.random(N), of_seed.random(N))
      right = chances < probability
      answers = np.where(right, self.targets, 1 - np.array(self.targets))
      self.answers[row, seed, task] = answers.tolist()
      found[task] = {}
      for function in functions:
        found[task] |= function(self.targets, answers.tolist())
      self._write(folder / "predictions" / "7", task, answers.tolist())
    return results.RunResult(
      row=row,
      seed=seed,
      group="all",
      phase="finetune",
      member=0,
      scored=True,
      folder=folder,
      starts=(),
      shared=False,
      state="finished",
      reason="",
      command="",
      fingerprint="",
      result={"scores": found, "step": 7, "best_step": None},
    )

  def _write(self, folder, task, answers):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
      json.dumps({"target_answer": target, "answer": answer})
      for target, answer in zip(self.targets, answers, strict=True)
    ]
    (folder / f"{task}.jsonl").write_text("\n".join(lines) + "\n")
    references = [
      {"function": f"{function.__module__}:{function.__name__}", "kwargs": {}}
      for function in TASKS[task]
    ]
    (folder / f"{task}.scoring.json").write_text(
      json.dumps({"metrics": references, "score_metrics": []})
    )

  def path(self, row, seed, name):
    return self.folder / f"{row}-{seed}" / "predictions" / "7" / name


@pytest.fixture
def study(tmp_path):
  rows = {"base": (0.9, 0.9, 0.88), "worse": (0.6, 0.62, 0.58)}
  return Study(tmp_path, rows | {"same": (0.9, 0.88, 0.9)})


def test_a_resampled_column_is_the_column_of_resampled_scores(study):
  """One resample, drawn and scored again by itself."""
  found = study_resamples.resample(study.results)
  assert found.reasons == ()
  drawn = found.of_seeds("GLUE", "base", (0, 1, 2))
  assert drawn.shape == (study_resamples.RESAMPLES, 3)
  cells = scores.build(study.results).cells
  assert drawn.mean(0) == pytest.approx(
    [cells["base", "GLUE"].values[seed] for seed in range(3)], abs=0.5
  )
  # The examples of the column SQuAD are those of one task: their error is that
  # of a mean of N right or wrong answers.
  accuracies = found.of_seeds("SQuAD", "base", (0, 1, 2))
  share = cells["base", "SQuAD"].values[0] / 100
  error = 100 * np.sqrt(share * (1 - share) / N)
  assert accuracies[:, 0].std() == pytest.approx(error, rel=0.1)


def test_differences_are_paired_and_corrected(study):
  found = comparison.compare(study.results)
  cells = scores.build(study.results).cells
  assert found.num_comparisons == 4
  assert set(found.differences) == {
    (row, column) for row in ("worse", "same") for column in ("GLUE", "SQuAD")
  }
  worse = found.differences["worse", "SQuAD"]
  values = [[*cells[row, "SQuAD"].values.values()] for row in ("worse", "base")]
  assert worse.estimate.difference == pytest.approx(np.subtract(*values).mean())
  seeds = np.var(values, axis=1, ddof=1).sum() / 3
  assert worse.estimate.seeds_error == pytest.approx(np.sqrt(seeds))
  # On the same examples: what is hard for both is no error of the difference.
  drawn = study_resamples.resample(study.results)
  mine, base = (
    drawn.of_seeds("SQuAD", row, (0, 1, 2)) for row in ("worse", "base")
  )
  variance = inference.examples_variance(mine - base)
  assert worse.estimate.examples_error == pytest.approx(np.sqrt(variance))
  low, high = worse.bootstrap_interval
  assert low < worse.estimate.difference < high
  p_values = [one.estimate.p_value for one in found.differences.values()]
  corrected = [one.corrected_p_value for one in found.differences.values()]
  assert min(corrected) == pytest.approx(4 * min(p_values))


def test_verdicts_in_words(study):
  found = comparison.compare(study.results)
  worse, same = (found.differences[row, "GLUE"] for row in ("worse", "same"))
  assert worse.concluded and not same.concluded
  assert worse.sentence.startswith(
    f"worse − base = −{-worse.estimate.difference:.2f} (GLUE), 95 % interval −"
  )
  assert worse.sentence.endswith(
    "worse is worse, by more than chance explains."
  )
  half = (same.estimate.high - same.estimate.low) / 2
  assert same.sentence.endswith(
    "No difference can be concluded: with these seeds and examples one below "
    f"about {half:.2f} cannot be detected."
  )
  assert found.notes[0].startswith(
    "What 3 seeds can show: a single difference counts from about 2.3 standard "
    "deviations over seeds on, the clearest of 4 comparisons from about 3.5."
  )


def test_files_have_all_digits(study):
  found = comparison.compare(study.results)
  lines = csv.DictReader(io.StringIO(files.differences_csv(found)))
  first = next(lines)
  one = found.differences[first["row"], first["column"]]
  assert float(first["low"]) == one.estimate.low
  assert float(first["corrected_p_value"]) == one.corrected_p_value
  assert float(first["bootstrap_high"]) == one.bootstrap_interval[1]
  agreements = {"GLUE": ranking.agreement(study.results, "GLUE")}
  (line,) = csv.DictReader(io.StringIO(files.agreements_csv(agreements)))
  assert line["tau"] == "" and line["num_rows"] == "0"


def test_without_predictions_the_examples_are_taken_as_they_are(study):
  study.path("worse", 1, "sentiment.jsonl").unlink()
  found = comparison.compare(study.results)
  lost, kept = (found.differences["same", c] for c in ("GLUE", "SQuAD"))
  assert lost.estimate.examples_error is None
  assert lost.bootstrap_interval is None
  assert lost.estimate.p_value is not None
  assert kept.estimate.examples_error is not None
  assert found.notes[-1] == (
    "Evaluation examples are taken as they are, not as drawn from more of "
    "their kind, in columns that need predictions of sentiment: a file cannot "
    "be read (FileNotFoundError), 'worse-1/predictions/7/sentiment.jsonl'."
  )


def test_a_median_is_resampled_as_a_median(study):
  parts = ("sentiment", "acceptability: accuracy")
  parts += ("acceptability: matthews_corrcoef",)
  columns = [Column(name=part, group="all", scores=(part,)) for part in parts]
  median = Column(name="median", group="all", scores=parts, average="median")
  found = study_resamples.resample(
    dataclasses.replace(study.results, columns=(*columns, median))
  )
  of_parts = [found.of_seeds(part, "base", (0, 1, 2)) for part in parts]
  np.testing.assert_allclose(
    found.of_seeds("median", "base", (0, 1, 2)), np.median(of_parts, axis=0)
  )


def test_predictions_have_to_give_the_score(study):
  path = study.path("same", 2, "acceptability.jsonl")
  text = path.read_text()
  path.write_text(text.replace('"answer": 1', '"answer": 0', 1))
  (reason,) = study_resamples.resample(study.results).reasons
  assert "predictions do not give the run's matthews_corrcoef, " in reason


def test_metrics_have_to_have_a_value_on_every_resample(study, monkeypatch):
  of_metric = predictions.resampled_metrics.of_metric

  def gaps_in(*arguments):
    function = of_metric(*arguments)

    def resampled(counts_BN):
      found = function(counts_BN)
      if len(counts_BN) > 1:  # The examples as they are have a score.
        for values in found.values():
          values[3] = np.nan
      return found

    return resampled

  monkeypatch.setattr(predictions.resampled_metrics, "of_metric", gaps_in)
  found = comparison.compare(study.results)
  one = found.differences["worse", "SQuAD"]
  assert one.estimate.examples_error is None
  assert "accuracy has no value on some resamples" in found.notes[-1]


def test_rows_that_the_same_runs_score_are_not_compared(study):
  runs = [
    dataclasses.replace(
      run, folder=study.folder / f"base-{run.seed}", shared=True
    )
    if run.row == "same"
    else run
    for run in study.results.runs
  ]
  found = comparison.compare(
    dataclasses.replace(study.results, runs=tuple(runs))
  )
  assert found.num_comparisons == 2
  one = found.differences["same", "GLUE"]
  assert one.is_same and one.estimate is None and not one.concluded
  assert one.sentence == (
    "same and base (GLUE) are the very same runs: what differs between the "
    "rows changes nothing here."
  )


def test_predictions_have_to_be_of_the_same_examples(study):
  path = study.path("same", 2, "sentiment.jsonl")
  lines = path.read_text().splitlines()
  path.write_text("\n".join(lines[::-1]) + "\n")
  (reason,) = study_resamples.resample(study.results).reasons
  assert reason.startswith("of sentiment: other examples than in other runs, ")


def test_rows_that_are_not_finished(study):
  """One row has a seed less than the baseline, another none at all."""
  kept = [
    run
    for run in study.results.runs
    if run.row == "base" or (run.row, run.seed) == ("worse", 2)
  ]
  found = comparison.compare(dataclasses.replace(study.results, runs=kept))
  worse, same = (found.differences[row, "GLUE"] for row in ("worse", "same"))
  assert worse.seeds == (2,) and worse.estimate.p_value is None
  assert same.estimate is None
  assert same.sentence == (
    "same − base (GLUE): no seed has both scores, so nothing can be said."
  )
  assert found.num_comparisons == 0


def test_one_seed_concludes_nothing(tmp_path):
  rows = {"base": (0.95,), "worse": (0.5,)}
  found = comparison.compare(Study(tmp_path, rows, seeds=(0,)).results)
  worse = found.differences["worse", "GLUE"]
  assert worse.corrected_p_value is None and not worse.concluded
  assert worse.estimate.high < 0
  assert worse.sentence.endswith(
    "These two models differ by more than their examples do; with one seed "
    "nothing can be concluded about others."
  )
  assert found.num_comparisons == 0
  assert found.notes[0].startswith("With one seed, the variation between seeds")


def test_agreement_with_the_published_order(tmp_path):
  rows = {"15%": 0.95, "10%": 0.85, "25%": 0.75, "50%": 0.6}
  study = Study(
    tmp_path,
    {row: (p, p, p) for row, p in rows.items()},
    published="t5/table06_corruption_rates",
  ).results
  found = ranking.agreement(study, "GLUE")
  # Published: 83.28, 82.82, 83.00, 81.27; 10 % and 25 % stand the other way.
  assert found.rows == tuple(rows)
  assert found.ranking.tau == pytest.approx(2 / 3)
  assert found.ranking.low <= found.ranking.tau <= found.ranking.high
  assert found.sentence == (
    "GLUE: Kendall's tau +0.67 (95 % interval "
    f"{found.ranking.low:+.2f} to {found.ranking.high:+.2f}) over 4 rows; "
    "5 of 6 pairs stand in the published order, and 3 of the 3 that are more "
    "than two deviations apart in print. An order at random agrees so much "
    "with p = 0.333: 4 rows are too few to show agreement, the very same order "
    "has p = 0.083."
  ).replace("-", "−")


def test_no_published_column(study):
  found = ranking.agreement(study.results, "GLUE")
  assert found.ranking.tau is None
  assert "there is no order to compare" in found.sentence
