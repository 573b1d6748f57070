"""A study whose columns are pairs and facts, from its gin file to its table."""

import collections
import json
import statistics

import pytest

from tasks.miniature.probes import files
from transformer_zoo.cli import main as cli
from transformer_zoo.evaluation.probes import pairs
from transformer_zoo.runs.analysis import probing
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.statistics import analysis
from transformer_zoo.studies.statistics import study_resamples
from transformer_zoo.studies.statistics.scores import TaskMetric

STUDY = """
Study.question = "Who knows what?"
Study.rows = (@t5/Row(), @gpt/Row(), @bert/Row())
Row.phases = ("pretrain", "probed")
gpt/Row.changes = {"model": (
  "architectures/gpt_2.gin", "$(size)", "MAX_POSITIONS=64", "objectives/lm.gin",
)}
bert/Row.phases = ("pretrain_encoder", "probed")
bert/Row.changes = {"model": (
  "architectures/bert.gin", "$(size)", "MAX_POSITIONS=64",
  "objectives/bert.gin",
)}
"""
COLUMNS = ("grammar", "kinds", "kinds_typed")


@pytest.fixture
def few_steps(few_steps):
  """Writes the study beside the suite."""
  (few_steps / "asked.gin").write_text(STUDY)
  return few_steps


@pytest.mark.slow
def test_every_shape_has_a_score_in_every_column(few_steps, capsys):
  code = cli.main(["ablate", "asked.gin", "--suite=few.gin", "--seeds=2"])
  said = capsys.readouterr()
  assert code == 0, said.out + said.err
  study = results.read(few_steps / "runs" / "asked-few")
  assert tuple(column.name for column in study.columns) == COLUMNS
  table = analysis.analyse(study).table
  for run in study.runs:
    if run.scored:
      for task in COLUMNS:
        lines = run.predictions(task).read_text().splitlines()
        by_kind = collections.defaultdict(list)
        for line in map(json.loads, lines):
          by_kind[line["target_answer"]].append(line["answer"])
        means = [statistics.fmean(of) for of in by_kind.values()]
        assert table.cells[run.row, task].values[run.seed] == pytest.approx(
          100 * statistics.fmean(means)
        )
  # The same as `zoo probe` says of the checkpoint of a row.
  (run, _) = study.scored_runs("bert", "probes")
  asked = pairs.read(files.FOLDER / "grammar.tsv")
  found = probing.probe(run.result["checkpoint"], asked, whole=True)
  for kind, score in found["scores"].items():
    cell = table.cells["bert", TaskMetric("probes", "grammar", kind)]
    assert cell.values[run.seed] == pytest.approx(score["accuracy"], abs=0.01)
  # Examples are drawn again, as those of any column.
  resamples = study_resamples.resample(study)
  assert resamples.reasons == ()
  for row in study.rows:
    assert resamples.of_seeds("grammar", row, (0, 1)).std() > 0
  text = (study.folder / "table.md").read_text()
  for row in study.rows:
    assert f"{table.cells[row, 'grammar'].mean:.2f}" in text
