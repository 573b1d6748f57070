"""Columns of losses: less is better, and three decimals are written."""

import dataclasses
import json

import pytest

from transformer_zoo.evaluation import averages
from transformer_zoo.evaluation import evaluator
from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.report import markdown
from transformer_zoo.studies.report import report
from transformer_zoo.studies.report import summary
from transformer_zoo.studies.statistics import analysis
from transformer_zoo.studies.statistics import comparison
from transformer_zoo.studies.statistics import scores
from transformer_zoo.studies.statistics import study_resamples

HELD_OUT = Column(name="held_out", scores=("text: loss",))


@pytest.fixture
def study(make_study):
  """The baseline, one that is clearly better, and one that is worse."""
  losses = {
    "one": (1.500, 1.504, 1.502),
    "lower": (1.400, 1.404, 1.402),
    "higher": (1.600, 1.604, 1.602),
  }
  return make_study(
    {
      row: {seed: {"text": {"loss": loss}} for seed, loss in enumerate(of_row)}
      for row, of_row in losses.items()
    },
    columns=(HELD_OUT,),
  )


def test_the_lowest_is_bold(study):
  cells = scores.build(study).of_column("held_out")
  assert [row for row, cell in cells.items() if cell.bold] == ["lower"]
  assert cells["lower"].difference == pytest.approx(-0.1)
  assert all(cell.is_loss and cell.decimals == 3 for cell in cells.values())
  metric = scores.TaskMetric("held_out", "text", "loss")
  by_task = scores.build(study).of_column(metric)
  assert [row for row, cell in by_task.items() if cell.bold] == ["lower"]


def test_losses_have_three_decimals_in_tables(study):
  found = analysis.analyse(study)
  text = markdown.study_table(found)
  assert "| lower  | **1.402 ± 0.002** |" in text
  assert "| lower  | −0.100   |" in text
  assert "Losses, of which less is better: held_out." in text
  brief = summary.to_markdown(found)
  assert "- lower: held_out −0.100.\n- higher: held_out +0.100.\n" in brief
  page = report.write(found).read_text()
  assert "1.402" in page and "−0.100" in page and "±" in page


def test_a_lower_loss_is_better_in_words(study):
  found = comparison.compare(study).differences
  lower, higher = (
    found[row, "held_out"].sentence for row in ("lower", "higher")
  )
  assert lower.startswith("lower − one = −0.100 (held_out), 95 % interval −0.1")
  assert lower.endswith("lower is better, by more than chance explains.")
  assert higher.endswith("higher is worse, by more than chance explains.")


def test_examples_of_text_are_resampled(study):
  """The predictions of text without metrics give its loss."""
  rows = [(4, 2, -3.0), (2, 1, -4.0), (6, 6, -1.0)]
  lines = [
    {"target_answer": of, "answer": right, "log_likelihood": log_likelihood}
    for of, right, log_likelihood in rows
  ]
  loss = classification.token_loss([4, 2, 6], [-3.0, -4.0, -1.0])
  assert loss == {"loss": pytest.approx(8 / 12)}
  runs = []
  for run in study.runs:
    run.folder.mkdir(parents=True)
    path = run.folder / "text.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    path.with_suffix(".scoring.json").write_text(
      json.dumps(dataclasses.asdict(evaluator.OF_TOKENS))
    )
    result = {"scores": {}, "token_accuracy": {"text": 75.0}, "loss": loss}
    result["loss"] = {"text": loss["loss"], "other": 1.0}
    runs.append(dataclasses.replace(run, result=result))
  study = dataclasses.replace(study, runs=tuple(runs))
  resamples = study_resamples.resample(study)
  assert not resamples.reasons
  values_BS = resamples.of_seeds("held_out", "one", (0, 1, 2))
  assert values_BS.min() >= 1 / 6 and values_BS.max() <= 2.0
  assert values_BS.std() > 0.05


def test_predictions_are_asked_for_the_metrics_of_columns_alone(study):
  """Those of an older run tell nothing of its loss."""
  scoring = dataclasses.replace(evaluator.OF_TOKENS, score_metrics=())
  runs = []
  for run in study.runs:
    run.folder.mkdir(parents=True)
    path = run.folder / "text.jsonl"
    line = {"target_answer": 4, "answer": 3}
    path.write_text(json.dumps(line) + "\n" + json.dumps(line))
    path.with_suffix(".scoring.json").write_text(
      json.dumps(dataclasses.asdict(scoring))
    )
    result = {"scores": {}, "token_accuracy": {"text": 75.0}}
    result["loss"] = {"text": 1.5}
    runs.append(dataclasses.replace(run, result=result))
  column = Column(name="held_out", scores=("text: token_accuracy",))
  study = dataclasses.replace(study, runs=tuple(runs), columns=(column,))
  resamples = study_resamples.resample(study)
  assert not resamples.reasons
  assert (resamples.of_seeds("held_out", "one", (0,)) == 75.0).all()


def test_a_loss_is_no_part_of_a_score():
  found = {"text": {"token_accuracy": 75.0, "loss": 1.5}}
  assert averages.average(found) == 75.0
  column = Column(name="text", scores=("text",))
  assert column.score(found) == 75.0 and not column.is_loss
  assert HELD_OUT.score(found) == 1.5 and HELD_OUT.is_loss
  unnamed = Column(name="c", scores=("text",))
  assert unnamed.score({"text": {"loss": 1.5}}) is None
