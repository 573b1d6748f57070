"""The page of a study: complete, well formed, alone."""

import dataclasses
import html.parser
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from transformer_zoo.api.studies import FinishedStudy
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import suite
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.report import learning_curves
from transformer_zoo.studies.report import report
from transformer_zoo.studies.statistics import analysis

_VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}
_PUBLISHED = (
  "Study.question",
  "Study.published = 't5/table06_corruption_rates'\n"
  "baseline/Row.published = '15%'\n"
  "no_pretraining/Row.published = '50%'\n"
  "Study.question",
)


class _Balance(html.parser.HTMLParser):
  """Checks that every element is closed in its turn."""

  def __init__(self):
    super().__init__()
    self.open = []

  def handle_starttag(self, tag, attributes):
    if tag not in _VOID:
      self.open.append(tag)

  def handle_startendtag(self, tag, attributes):
    pass

  def handle_endtag(self, tag):
    assert self.open.pop() == tag


@pytest.fixture
def page(finished):
  folder = finished(_PUBLISHED)
  return (folder / "report.html").read_text()


@pytest.mark.slow
def test_the_page_stands_alone_and_is_well_formed(page):
  balance = _Balance()
  balance.feed(page)
  assert balance.open == []
  links = re.findall(r'(?:src|href)="([^"]*)"', page)
  assert not [one for one in links if re.match(r"\w+:|//", one)]
  assert "@import" not in page and "<script src" not in page
  names = re.findall(r' id="([^"]*)"', page)
  assert len(names) == len(set(names))


def test_the_page_has_every_part(page):
  assert re.findall(r"<h2>(.*?)</h2>", page) == [
    "Scores",
    "What can be concluded",
    "Beside the publication",
    "Budgets",
    "Scores of each task",
    "Learning curves",
    "Where each number comes from",
    "Predictions",
    "Configuration",
    "Runs",
    "Environment",
  ]
  assert "Does &lt;pre-training&gt; help?" in page
  assert "50% is worse, by more than chance explains." in page
  assert "paper </span>83.28</small>" not in page  # Of other tasks.
  answer = page.index("Largest difference from the baseline: Sentiment ")
  assert answer < page.index("more than chance explains")
  assert "paper </span>−2.01</small>" in page
  assert "The smallest detectable difference with 3 seeds (80 % power" in page
  assert '<tr><th scope="row">A rate of 15 % before 50 %</th>' in page
  uneven = page.index("the baseline reads 80,000 tokens, 2.0 times the 40,000")
  assert uneven < page.index("<h2>")
  assert "A curve goes on to the last step" in page
  assert "Equal in all rows: parameters (812 k)" in page
  assert "highest average validation score" in page
  assert "sentiment: &lt;b&gt; &amp; c" in page
  assert "jax 0.10" in page and "seqio" not in page
  assert "f" * 40 + " with local changes" in page
  assert "--suite=" in page and "zoo train --gin_file=" in page


def test_every_number_leads_to_its_run_configuration_and_predictions(finished):
  folder = finished(_PUBLISHED)
  page = (folder / "report.html").read_text()
  places = set(re.findall(r' id="([^"]*)"', page))
  anchors = re.findall(r'href="#([^"]*)"', page)
  assert "source-no_pretraining-sentiment" in anchors
  assert set(anchors) <= places
  paths = re.findall(r'href="([^#"][^"]*)"', page)
  assert all((folder / path).exists() for path in paths)
  for name in ("config.gin", "similarity.jsonl"):
    assert [path for path in paths if path.endswith(name)]


def test_scores_that_no_column_has_lead_to_their_runs_too(make_study):
  one = {0: {"cola": {"mcc": 1.0}, "more": {"em": 2.0}}}
  columns = (suite.Column(name="GLUE", scores=("cola",)),)
  study = make_study({"a.b": one, "a-b": one}, columns=columns)
  page = report.write(analysis.analyse(study)).read_text()
  places = re.findall(r' id="([^"]*)"', page)
  assert len(places) == len(set(places))
  anchors = set(re.findall(r'href="#([^"]*)"', page))
  assert {"source-a.b-other-tasks", "source-a-b-GLUE"} <= anchors
  assert anchors <= set(places)


def test_configurations_show_what_differs_from_the_baseline(page):
  assert "<ins>+ TRAIN_STEPS = 10</ins>" in page
  assert "<del>- TRAIN_STEPS = 20</del>" in page
  assert "finetune (sentiment, similarity): lines that differ: 2" in page
  assert "pretrain: the same" in page
  assert "finetune (sentiment, similarity): lines that differ: 1" in page
  assert "<del>- INITIAL_CHECKPOINT_PATH = " in page
  assert "MODEL_DIR" not in "".join(re.findall(r"<(?:ins|del)>.*?</", page))


def test_parts_of_a_group_are_compared_with_their_like(make_study):
  one = {0: {"cola": {"mcc": 1.0}}}
  study = make_study({"a": one, "b": one})
  runs = [
    dataclasses.replace(run, group="GLUE", part=part, folder=run.folder / part)
    for run in study.runs
    for part in ("cola", "mrpc")
  ]
  for run in runs:
    run.folder.mkdir(parents=True)
    (run.folder / "config.gin").write_text(f"TASK = {run.part!r}\n")
  study = dataclasses.replace(study, runs=tuple(runs))
  page = report.write(analysis.analyse(study)).read_text()
  assert "finetune (GLUE / cola, GLUE / mrpc): the same" in page
  assert "seed 0 mrpc" in page


def test_curves_are_read_by_row_and_seed_with_what_they_cost(finished):
  study = results.read(finished(_PUBLISHED))
  found = learning_curves.read(study, "finetune", "sentiment")
  assert list(found)[:2] == ["train/loss", "Sentiment"]
  assert "sentiment/accuracy" in found
  curve = found["Sentiment"]["baseline"][2]
  assert curve.steps.tolist() == [5, 10, 15, 20]
  # 1,000 tokens, 1.5 seconds and 4 GFLOPs a step.
  assert curve.costs["tokens"].tolist() == [5e3, 10e3, 15e3, 20e3]
  np.testing.assert_allclose(curve.costs["minutes"], curve.steps * 1.5 / 60)
  np.testing.assert_allclose(curve.costs["FLOPs"], curve.steps * 4e9)


def test_a_study_in_python(finished):
  study = FinishedStudy(finished(_PUBLISHED))
  table = study.table()
  shown = study.analysis.table
  for row in shown.rows:
    for column in shown.columns:
      mean = shown.cells[row, column].mean
      found = table.loc[shown.labels[row], column]
      assert found == mean or np.isnan(found) and mean is None
  differences = study.differences()
  known = study.analysis.comparison.differences
  assert len(differences) == len(known)
  one, expected = differences.iloc[0], next(iter(known.values()))
  assert (one["row"], one["column"]) == (
    shown.labels[expected.row],
    expected.column,
  )
  assert one["difference"] == expected.estimate.difference
  assert one["low"] == expected.estimate.low < one["high"]
  assert study.figure()._repr_svg_().startswith("<svg ")
  assert study.report.exists() and "<table" in study._repr_html_()
  with pytest.raises(UserError, match="no column 'Sentimint'; did you mean"):
    study.figure("Sentimint")


def test_the_reported_checkpoint_is_marked():
  steps, values = np.array([5, 10, 15]), np.array([1.0, 3.0, 2.0])
  curves = [
    learning_curves.Curve(steps, values, {"steps": steps}, best_step=best)
    for best in (None, 10)
  ]
  last, marked = (
    learning_curves.chart("score", {"baseline": {0: curve}}, ["baseline"])
    for curve in curves
  )
  assert marked.count("cx=") - last.count("cx=") == 1


@pytest.mark.slow
def test_a_shared_run_is_drawn_once(finished):
  study = results.read(finished(seeds=(0,)))
  assert list(learning_curves.read(study, "pretrain", "")["train/loss"]) == [
    "baseline"
  ]
  assert learning_curves.read(study, "no such phase", "") == {}


@pytest.mark.slow
def test_an_axis_of_which_nothing_is_known_is_left_out(finished):
  study = results.read(finished(seeds=(0,)))
  (curve,) = learning_curves.read(study, "pretrain", "")["train/loss"][
    "baseline"
  ].values()
  alone = learning_curves.Curve(
    curve.steps, curve.values, {"steps": curve.steps}
  )
  drawn = {"baseline": {0: alone}}
  assert "var(--series-0)" in learning_curves.chart("loss", drawn, ["baseline"])
  assert (
    learning_curves.chart("loss", drawn, ["baseline"], learning_curves.FLOPS)
    == ""
  )


def test_what_was_recorded_once_is_named_and_not_drawn(finished, tmp_path):
  folder = finished(seeds=(0,))
  shutil.copytree(folder.parent, tmp_path / "runs")
  folder = tmp_path / "runs" / folder.name
  for path in folder.parent.glob("runs/finetune-*/metrics.jsonl"):
    lines = map(json.loads, path.read_text().splitlines())
    kept = [line for line in lines if line["step"] in (1, 2, 10)]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
  found = analysis.analyse(results.read(folder))
  page = report.write(found).read_text()
  assert (
    "Recorded at a single step, so without a curve: Sentiment, "
    "sentiment: validation/loss, sentiment/accuracy, Similarity, " in page
  )
  curves = page[page.index('id="learning-curves"') :]
  assert 'aria-label="train/loss"' in curves
  assert 'aria-label="sentiment: train: loss"' in curves
  assert 'aria-label="Sentiment"' not in curves


@pytest.mark.slow
def test_matplotlib_waits_for_the_first_chart():
  code = (
    "import sys\n"
    "from transformer_zoo.studies.report import report\n"
    "sys.exit('matplotlib' in sys.modules)"
  )
  subprocess.run([sys.executable, "-c", code], check=True)


def test_a_study_without_a_finished_run_still_has_a_page(run_tiny, fake):
  fake.broken = lambda folder: True
  folder = run_tiny(seeds=[0]).folder
  page = (folder / "report.html").read_text()
  paths = re.findall(r'href="([^#"][^"]*)"', page)
  assert all((folder / path).exists() for path in paths)
  assert "No run is finished yet." in page
  assert "FloatingPointError" in page
