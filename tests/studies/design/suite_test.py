"""Suites as gin files: how they are found, read and refused."""

import pytest

from tests.studies import conftest
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import study


@pytest.fixture
def load(tmp_path):
  def load_text(text, name="two"):
    (tmp_path / "suites").mkdir(exist_ok=True)
    (tmp_path / "suites" / "two.gin").write_text(text)
    return loading.load_suite(name, [tmp_path])

  return load_text


def test_a_suite_is_read(load, tmp_path):
  two = load(conftest.SUITE)
  assert two.name == "two" and "two" in loading.suite_names([tmp_path])
  assert [column.name for column in two.columns] == ["Sentiment", "Similarity"]
  assert two.columns[1].tasks == ("similarity",)
  assert two.per_group == ("finetune", "ensemble")
  assert two.commands == {"ensemble": "evaluate"}


def test_a_suite_may_include_another_and_change_a_macro(load, tmp_path):
  load(
    conftest.SUITE.replace("'finetune_steps': 20", "'steps': %STEPS")
    + "STEPS = 20\n"
  )
  path = tmp_path / "longer.gin"
  path.write_text("include 'suites/two.gin'\nSTEPS = 200\n")
  longer = loading.load_suite(str(path), [tmp_path])
  assert longer.name == "longer" and longer.values == {"steps": 200}
  assert loading.load_suite("two", [tmp_path]).values == {"steps": 20}


def test_an_unknown_suite_names_the_nearest(load):
  with pytest.raises(UserError) as error:
    load(conftest.SUITE, name="tow")
  assert str(error.value) == "unknown suite 'tow'; did you mean 'two'?"


@pytest.mark.parametrize(
  "old, new, message",
  [
    (
      "'finetune': ('TRAIN_STEPS",
      "'finetune': ('TRAIN STEPS",
      "'TRAIN STEPS=$(finetune_steps)' in Suite.phases['finetune'] is neither "
      "a gin file (*.gin) nor of the form NAME=VALUE",
    ),
    (
      "Sentiment/Column.group = 'sentiment'",
      "Sentiment/Column.group = 'feelings'",
      "column 'Sentiment' of suite 'two': group 'feelings' is unknown; "
      "allowed: 'sentiment', 'similarity'",
    ),
    (
      "Sentiment/Column.scores = ('sentiment',)",
      "",
      "column 'Sentiment' of suite 'two' has no scores; name tasks in "
      "Column.scores",
    ),
    (
      "Sentiment/Column.scores = ('sentiment',)",
      "Sentiment/Column.scores = 'sentiment'",
      "scores of column 'Sentiment' of suite 'two' must be a list of strings, "
      "like ('...',), not 'sentiment'",
    ),
    (
      "Sentiment/Column.group = 'sentiment'",
      "Sentiment/Column.group = 'sentiment'\n"
      "Sentiment/Column.average = 'superglue'",
      "column 'Sentiment' of suite 'two': average 'superglue' is unknown; did "
      "you mean 'super_glue', 'glue'?",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.version = '2'",
      "Suite.version of suite 'two' is '2'; it is a whole number from 1 up",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.rounding = {'Sentimnt': 1.0}",
      "Suite.rounding of suite 'two': column 'Sentimnt' is unknown; did you "
      "mean 'Sentiment'?",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.rounding = {'Sentiment': '1.0'}",
      "Suite.rounding['Sentiment'] of suite 'two' is '1.0'; it is a standard "
      "deviation in points, 0 or more",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.per_group = ('fine_tune',)",
      "Suite.per_group of suite 'two': phase 'fine_tune' is unknown; did you "
      "mean 'finetune'?",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.commands = {'finetun': 'train'}",
      "Suite.commands of suite 'two': phase 'finetun' is unknown; did you mean "
      "'finetune'?",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.own_groups = {'longr': {'a': ()}}",
      "Suite.own_groups of suite 'two': phase 'longr' is unknown; allowed: "
      "'ensemble', 'finetune', 'pretrain'",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.own_groups = {'pretrain': {'a': ('A=1', 'B')}}",
      "'B' in Suite.own_groups['pretrain']['a'] is neither a gin file (*.gin) "
      "nor of the form NAME=VALUE",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.own_groups = {'pretrain': {'a': {'b': ('A=1', 'B')}}}",
      "'B' in Suite.own_groups['pretrain']['a']['b'] is neither a gin file "
      "(*.gin) nor of the form NAME=VALUE",
    ),
    (
      "Sentiment/Column.scores = ('sentiment',)",
      "Sentiment/Column.scores = ('sentiment', 'corpus: loss')",
      "column 'Sentiment' of suite 'two' has losses beside scores; give losses "
      "a column of their own",
    ),
    (
      "@Sentiment/Column()",
      "@Column()",
      "suite 'two' has a column without a name: @name/Column()",
    ),
    (
      "Suite.columns = (@Sentiment/Column(), @Similarity/Column())",
      "",
      "suite 'two' has no columns; bind Suite.columns",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.values = (1, 2)",
      "Suite.values must be like {'name': ...}, not (1, 2)",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.after = {'pretrian': ('A=1',)}",
      "Suite.after of suite 'two': phase 'pretrian' is unknown; did you mean "
      "'pretrain'?",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.grids = {'finetun': (('A=1',), ('A=2',))}",
      "Suite.grids of suite 'two': phase 'finetun' is unknown; did you mean "
      "'finetune'?",
    ),
    (
      "Suite.values = {'finetune_steps': 20}",
      "Suite.commands = {'finetune': 'infer'}",
      "Suite.commands of suite 'two': 'infer' is unknown; allowed: 'evaluate', "
      "'train'",
    ),
  ],
)
def test_a_suite_that_nothing_runs_on_is_refused(load, old, new, message):
  assert old in conftest.SUITE
  with pytest.raises(UserError) as error:
    load(conftest.SUITE.replace(old, new))
  assert str(error.value) == message


def test_a_study_needs_phases_that_the_suite_has(load):
  row = study.Row(name="mixed", phases=("multitask",))
  with pytest.raises(UserError) as error:
    load(conftest.SUITE).check_study(study.Study(name="tiny", rows=(row,)))
  assert str(error.value) == (
    "row 'mixed' of study 'tiny' needs the phase 'multitask', which suite "
    "'two' does not have; it has pretrain, finetune, ensemble"
  )
