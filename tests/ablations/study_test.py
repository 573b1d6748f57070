"""Studies as gin files: how they are found, read and refused."""

import gin
import pytest

from transformer_zoo.ablations import study
from transformer_zoo.errors import UserError

GOOD = """
Study.name = 'tiny'
Study.question = 'Does it help?'
Study.seeds = (0, 1)
Study.rows = (@baseline/Row(), @no_pretraining/Row())
baseline/Row.name = 'baseline'
baseline/Row.phases = (@pretrain/Phase(), @finetune/Phase())
baseline/Row.published = {'average': 83.28}
no_pretraining/Row.name = 'no_pretraining'
no_pretraining/Row.phases = (@scratch/Phase(),)
pretrain/Phase.name = 'pretrain'
pretrain/Phase.gin_files = ('runs/pretrain.gin',)
pretrain/Phase.bindings = ('TRAIN_STEPS=10',)
finetune/Phase.name = 'finetune'
finetune/Phase.gin_files = ('runs/finetune.gin',)
finetune/Phase.starts_from = 'pretrain'
scratch/Phase.name = 'finetune'
scratch/Phase.gin_files = ('runs/finetune.gin',)
"""


@pytest.fixture
def load(tmp_path):
  (tmp_path / "studies").mkdir()

  def load_text(text, name="tiny"):
    (tmp_path / "studies" / "tiny.gin").write_text(text)
    return study.load_study(name, [tmp_path])

  return load_text


def test_a_study_is_read_and_gin_is_left_empty(load):
  tiny = load(GOOD)
  assert (tiny.name, tiny.seeds) == ("tiny", (0, 1))
  assert [row.name for row in tiny.rows] == ["baseline", "no_pretraining"]
  assert tiny.baseline_name == "baseline"
  assert tiny.rows[0].published == {"average": 83.28}
  assert tiny.rows[0].phases[1].starts_from == "pretrain"
  assert gin.config_str() == ""


def test_a_study_is_found_by_its_path(load, tmp_path):
  load(GOOD)
  path = str(tmp_path / "studies" / "tiny.gin")
  assert study.load_study(path).name == "tiny"
  assert "tiny" in study.study_names([tmp_path])


def test_scores_come_from_phases_nothing_starts_from(load):
  baseline, no_pretraining = load(GOOD).rows
  assert [p.name for p in baseline.scored_phases()] == ["finetune"]
  assert [p.name for p in no_pretraining.scored_phases()] == ["finetune"]


def test_other_seeds(load):
  assert study.with_seeds(load(GOOD), [7]).seeds == (7,)
  with pytest.raises(UserError, match="seed 7 of study 'tiny' is given twice"):
    study.with_seeds(load(GOOD), [7, 7])


def test_an_unknown_study_names_the_nearest(load):
  with pytest.raises(UserError) as error:
    load(GOOD, name="tinny")
  assert str(error.value) == "unknown study 'tinny'; did you mean 'tiny'?"


def test_a_missing_file():
  with pytest.raises(UserError, match="there is no study file 'nowhere.gin'"):
    study.load_study("nowhere.gin")


@pytest.mark.parametrize(
  "old, new, message",
  [
    (
      "no_pretraining/Row.name = 'no_pretraining'",
      "no_pretraining/Row.name = 'baseline'",
      "study 'tiny' has 2 rows named 'baseline'; names must differ",
    ),
    (
      "(@pretrain/Phase(), @finetune/Phase())",
      "(@finetune/Phase(), @pretrain/Phase())",
      "phase 'finetune' of row 'baseline' starts from 'pretrain', which comes "
      "later; list 'pretrain' first",
    ),
    (
      "starts_from = 'pretrain'",
      "starts_from = 'pretrian'",
      "phase 'finetune' of row 'baseline' starts from 'pretrian', which is no "
      "phase of that row; did you mean 'pretrain'?",
    ),
    (
      "starts_from = 'pretrain'",
      "starts_from = 'finetune'",
      "phase 'finetune' of row 'baseline' starts from itself; name an earlier "
      "phase",
    ),
    (
      "Phase.name = 'pretrain'",
      "Phase.name = 'finetune'",
      "row 'baseline' has 2 phases named 'finetune'; names must differ",
    ),
    (
      "@no_pretraining/Row()",
      "'no_pretraining'",
      "Study.rows holds 'no_pretraining', which is no Row; write "
      "@name/Row() with its parentheses",
    ),
    (
      "('TRAIN_STEPS=10',)",
      "('TRAIN_STEPS',)",
      "the binding 'TRAIN_STEPS' of phase 'pretrain' of row 'baseline' is not "
      "of the form NAME=VALUE",
    ),
    (
      "('TRAIN_STEPS=10',)",
      "('TRAIN_STEPS=10')",
      "bindings of phase 'pretrain' of row 'baseline' must be a list of "
      "strings, like ['...'], not 'TRAIN_STEPS=10'",
    ),
    (
      "Study.name = 'tiny'",
      "Study.name = 'tiny/one'",
      "Study.name is 'tiny/one'; it names a folder, so use letters, digits "
      "and _ . + - only",
    ),
    (
      "Study.seeds = (0, 1)",
      "Study.seeds = (0, 'one')",
      "seed 'one' of study 'tiny' is not a whole number from 0 up",
    ),
    (
      "Study.seeds = (0, 1)",
      "Study.seeds = ()",
      "study 'tiny' has no seeds; give at least one, like (0,)",
    ),
    (
      "Study.seeds = (0, 1)",
      "Study.baseline = 'base'",
      "the baseline of study 'tiny' is 'base', which is no row of it; did you "
      "mean 'baseline'?",
    ),
    (
      "Study.rows = (@baseline/Row(), @no_pretraining/Row())",
      "",
      "study 'tiny' has no rows; list them in Study.rows as "
      "(@first/Row(), @second/Row())",
    ),
  ],
)
def test_a_study_that_cannot_run_is_refused(load, old, new, message):
  assert old in GOOD
  with pytest.raises(UserError) as error:
    load(GOOD.replace(old, new))
  assert str(error.value) == message
  assert gin.config_str() == ""


@pytest.mark.parametrize(
  "wrong", ["Study.quesion = 'what'", "Stuudy.name = 'x'", "Study.name ="]
)
def test_what_gin_refuses_names_the_file(load, tmp_path, wrong):
  with pytest.raises(UserError, match="tiny.gin is not a study: ") as error:
    load(GOOD + wrong + "\n")
  assert "\n" not in str(error.value)
  assert gin.config_str() == ""


def test_a_study_may_include_another_and_change_it(tmp_path):
  path = tmp_path / "shorter.gin"
  path.write_text(
    "include 'studies/quickstart.gin'\n"
    "Study.name = 'shorter'\n"
    "finetune/Phase.bindings = ('TRAIN_STEPS=1',)\n"
  )
  shipped = study.load_study("quickstart")
  changed = study.load_study(str(path))
  assert changed.name == "shorter"
  assert [row.name for row in changed.rows] == [
    row.name for row in shipped.rows
  ]
  assert changed.rows[0].phases[1].bindings == ("TRAIN_STEPS=1",)


def test_a_missing_include_is_named(tmp_path):
  path = tmp_path / "shorter.gin"
  path.write_text("include 'studies/quickstrt.gin'\n")
  with pytest.raises(
    UserError, match="includes 'studies/quickstrt.gin', .* me"
  ):
    study.load_study(str(path))
