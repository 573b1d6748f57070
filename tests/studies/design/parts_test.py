"""A study whose last phase runs tasks of a group one by one, end to end."""

import pytest

from tests.studies import conftest
from transformer_zoo.studies import runner
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.report import learning_curves
from transformer_zoo.studies.report import report
from transformer_zoo.studies.statistics import analysis

STUDY = """
Study.question = 'Why?'
Study.rows = (@together/Row(), @apart/Row())
together/Row.label = 'Together, $(finetune_steps) steps'
apart/Row.phases = ('pretrain', 'individual')
"""
SUITE = conftest.SUITE.replace(
  "'ensemble': (),", "'ensemble': (), 'individual': ('TRAIN_STEPS=10',),"
).replace(
  "Similarity/Column.scores = ('similarity: pearson_corrcoef',)",
  """
Similarity/Column.scores = ('similarity: pearson_corrcoef', 'sentiment')
Suite.own_groups = {
  'individual': {
    'sentiment': ("MIXTURE_OR_TASK_NAME='sentiment'", "TRAIN_STEPS=15"),
    'similarity': {
      'first': ("MIXTURE_OR_TASK_NAME='similarity'",),
      'second': ("MIXTURE_OR_TASK_NAME='sentiment'",),
    },
  },
}
""",
)


@pytest.mark.slow
def test_the_columns_of_a_group_take_what_its_parts_score(fake, tmp_path):
  study, suite = tmp_path / "tiny.gin", tmp_path / "two.gin"
  study.write_text(STUDY)
  suite.write_text(SUITE)
  came = runner.run_study(
    str(study), suite=str(suite), output_dir=tmp_path / "runs", seeds=[0]
  )
  assert came.failures == ()
  read = results.read(came.folder)
  assert [run.name for run in read.runs if run.part] == [
    "apart / seed 0 / similarity / individual / first",
    "apart / seed 0 / similarity / individual / second",
  ]
  assert read.rows["together"].label == "Together, 20 steps"
  first, second = (run.scores for run in read.runs if run.part)
  table = analysis.analyse(read).table
  expected = (
    first["similarity"]["pearson_corrcoef"] + second["sentiment"]["accuracy"]
  ) / 2
  assert table.cells["apart", "Similarity"].values == {0: expected}
  assert table.cells["together", "Similarity"].values == {}
  drawn = learning_curves.read(read, "individual", "similarity")
  assert {
    f"{part}: {learning_curves.LOSS}" for part in ("first", "second")
  } < set(drawn)
  page = report.write(analysis.analyse(read)).read_text()
  assert "apart / seed 0 / similarity / individual / second" in page
