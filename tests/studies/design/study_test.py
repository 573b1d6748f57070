"""Studies as gin files: how they are found, read and refused."""

import json

import gin
import pytest

from transformer_zoo.cli import main as cli
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import study

GOOD = """
Study.question = 'Does it help?'
Study.seeds = (0, 1)
Study.rows = (@baseline/Row(), @no_pretraining/Row(), @four/Row())
Study.published = 't5/table01_baseline'
no_pretraining/Row.phases = ('finetune',)
no_pretraining/Row.label = 'No pre-training'
no_pretraining/Row.published = 'No pre-training'
four/Row.copies = {'finetune': 4}
four/Row.changes = {
  'all': ('sizes/tiny.gin', 'DROPOUT_RATE=0.0'),
  'finetune': ("TRAIN_STEPS=$(steps * 2)",),
}
"""


@pytest.fixture
def load(tmp_path):
  def load_text(text, name="tiny"):
    folder = tmp_path / "studies" / "tiny"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.gin").write_text(text)
    return loading.load_study(name, [tmp_path])

  return load_text


def test_a_study_is_read_and_gin_is_left_empty(load):
  tiny = load(GOOD)
  assert (tiny.name, tiny.seeds) == ("tiny", (0, 1))
  assert tiny.published == "t5/table01_baseline"
  baseline, no_pretraining, four = tiny.rows
  assert tiny.baseline_name == baseline.name == baseline.shown == "baseline"
  assert baseline.chain == ("pretrain", "finetune")
  assert no_pretraining.chain == ("finetune",)
  assert no_pretraining.shown == "No pre-training"
  assert four.chain == ("pretrain", "finetune", "ensemble")
  assert four.changes["all"] == ("sizes/tiny.gin", "DROPOUT_RATE=0.0")
  assert gin.config_str() == ""


@pytest.mark.parametrize(
  ("old", "new", "error"),
  [
    (
      "'t5/table01_baseline'",
      "'t5/table01'",
      "no published table 't5/table01'; did you mean 't5/table01_baseline'",
    ),
    (
      "published = 'No pre-training'",
      "published = 'No pretraining'",
      "'t5/table01_baseline' has no row 'No pretraining'; did you mean 'No pre",
    ),
    (
      "Study.published = 't5/table01_baseline'",
      "",
      "row is 'No pre-training' but not of which table; bind Study.published",
    ),
    (
      "no_pretraining/Row.published = 'No pre-training'",
      "",
      "study 'tiny' stands beside table 't5/table01_baseline' and no row of it "
      "says beside which line; bind NAME/Row.published to its label there, as "
      "'Baseline average'",
    ),
    (
      "no_pretraining/Row.published = 'No pre-training'",
      "no_pretraining/Row.published = 'No pre-training'\n"
      "four/Row.published = 'No pre-training'",
      "study 'tiny' has 2 published rows named 'No pre-training'; names must",
    ),
  ],
)
def test_published_rows_exist(load, old, new, error):
  assert old in GOOD
  with pytest.raises(UserError, match=error):
    load(GOOD.replace(old, new))


def test_a_study_is_found_by_its_path(load, tmp_path):
  load(GOOD)
  path = str(tmp_path / "studies" / "tiny" / "study.gin")
  assert loading.load_study(path).name == "tiny"
  assert "tiny" in loading.study_names([tmp_path])


def test_studies_are_listed_with_what_is_missing(
  load, tmp_path, monkeypatch, capsys
):
  load(GOOD + "Study.missing = 'There is no Mamba.'\n")
  monkeypatch.chdir(tmp_path)
  assert cli.main(["list", "studies"]) == 0
  lines = capsys.readouterr().out.splitlines()
  (line,) = [line for line in lines if line.startswith("tiny ")]
  assert line.endswith("  cannot be run yet: There is no Mamba.")
  assert cli.main(["list", "studies", "--json"]) == 0
  listed = json.loads(capsys.readouterr().out)
  (tiny,) = [one for one in listed if one["name"] == "tiny"]
  assert tiny["question"] == "Does it help?"
  assert tiny["rows"] == ["baseline", "no_pretraining", "four"]


def test_other_seeds(load):
  assert study.with_seeds(load(GOOD), [7]).seeds == (7,)
  with pytest.raises(UserError, match="seed 7 of study 'tiny' is given twice"):
    study.with_seeds(load(GOOD), [7, 7])


def test_an_unknown_study_names_the_nearest(load):
  with pytest.raises(UserError) as error:
    load(GOOD, name="tyny")
  assert str(error.value) == "unknown study 'tyny'; did you mean 'tiny'?"


def test_a_missing_file():
  with pytest.raises(UserError, match="there is no study file 'nowhere.gin'"):
    loading.load_study("nowhere.gin")


ROWS = "(@baseline/Row(), @no_pretraining/Row(), @four/Row())"


@pytest.mark.parametrize(
  "old, new, message",
  [
    (
      "no_pretraining/Row.label = 'No pre-training'",
      "no_pretraining/Row.name = 'baseline'",
      "study 'tiny' has 2 rows named 'baseline'; names must differ",
    ),
    (
      "('finetune',)\n",
      "('finetune', 'finetune')\n",
      "row 'no_pretraining' has 2 phases named 'finetune'; names must differ",
    ),
    (
      "('finetune',)\n",
      "'finetune'\n",
      "phases of row 'no_pretraining' must be a list of strings, like "
      "('...',), not 'finetune'",
    ),
    (
      "('finetune',)\n",
      "()\n",
      "row 'no_pretraining' has no phases; list them in "
      "no_pretraining/Row.phases as ('pretrain', 'finetune')",
    ),
    (
      "@no_pretraining/Row()",
      "'no_pretraining'",
      "Study.rows holds 'no_pretraining', which is no Row; write "
      "@name/Row() with its parentheses",
    ),
    (
      ROWS,
      "(@baseline/Row())",
      "which is no list; write (@name/Row(),) with its comma",
    ),
    (
      "'DROPOUT_RATE=0.0'",
      "'DROPOUT_RATE'",
      "'DROPOUT_RATE' in the 'all' changes of row 'four' is neither a gin "
      "file (*.gin) nor of the form NAME=VALUE",
    ),
    (
      "'finetune': (",
      "'finetun': (",
      "changes of row 'four': phase 'finetun' is unknown; did you mean "
      "'finetune'?",
    ),
    (
      '("TRAIN_STEPS=$(steps * 2)",)',
      '"TRAIN_STEPS=2"',
      "the 'finetune' changes of row 'four' must be a list of strings, like "
      "('...',), not 'TRAIN_STEPS=2'",
    ),
    (
      "{'finetune': 4}",
      "{'finetune': 1}",
      "row 'four' has 1 copies of 'finetune'; an ensemble has 2 or more",
    ),
    (
      "{'finetune': 4}",
      "{'ensemble': 4}",
      "copies of row 'four': phase 'ensemble' is unknown; allowed: "
      "'finetune', 'pretrain'",
    ),
    (
      "Study.seeds = (0, 1)",
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
      "Study.seeds = 3",
      "the seeds of study 'tiny' are 3; list them: (0, 1, 2)",
    ),
    (
      "Study.seeds = (0, 1)",
      "four/Row.label = 25",
      "label of row 'four' must be one line of text, '...', not 25",
    ),
    (
      "Study.seeds = (0, 1)",
      "Study.question = 3",
      "Study.question must be one line of text, '...', not 3",
    ),
    (
      "Study.seeds = (0, 1)",
      "fuor/Row.label = 'Four'",
      "fuor/Row.label is bound, but no list has @fuor/Row(); did you mean "
      "'four'?",
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
      "@baseline/Row()",
      "@Row()",
      "the name of a row, as @name/Row(), is ''; it names a folder, so use "
      "letters, digits and _ . + - only",
    ),
    (
      f"Study.rows = {ROWS}",
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
  assert str(error.value).endswith(message)
  assert gin.config_str() == ""


@pytest.mark.parametrize(
  "wrong", ["Study.quesion = 'what'", "Stuudy.name = 'x'", "Study.name ="]
)
def test_what_gin_refuses_names_the_file(load, wrong):
  with pytest.raises(UserError, match="study.gin is not a study: ") as error:
    load(GOOD + wrong + "\n")
  assert "\n" not in str(error.value)
  assert gin.config_str() == ""


def test_a_study_may_include_another_and_change_it(tmp_path):
  path = tmp_path / "shorter.gin"
  path.write_text(
    "include 'studies/quickstart/study.gin'\n"
    "baseline/Row.changes = {'finetune': ('TRAIN_STEPS=1',)}\n"
  )
  shipped = loading.load_study("quickstart")
  changed = loading.load_study(str(path))
  assert changed.name == "shorter"
  assert changed.rows[0].changes == {"finetune": ("TRAIN_STEPS=1",)}
  assert changed.rows[1:] == shipped.rows[1:]


def test_a_missing_include_is_named(tmp_path):
  path = tmp_path / "shorter.gin"
  path.write_text("include 'studies/quickstrt/study.gin'\n")
  with pytest.raises(
    UserError, match="includes 'studies/quickstrt/study.gin', .* me"
  ):
    loading.load_study(str(path))
