"""Marks that tell the data of a run apart from other data of its name."""

import dataclasses
import types

import pytest

from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.runs import inputs
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design.study import Study
from transformer_zoo.studies.design.suite import Suite


def mixture(**changes):
  """A prepared mixture of one task."""
  told = {"checksum": "c" * 64, "pieces": "v", "rates": (1.0,)} | changes
  split = types.SimpleNamespace(checksum=told.pop("checksum"))
  pieces = types.SimpleNamespace(checksum=told.pop("pieces"), extra_ids=100)
  rates = told.pop("rates")
  task = manifest.PreparedTask(
    name="a",
    folder="runs/prepared/a",
    kind="examples",
    features=("inputs", "targets"),
    vocabulary=pieces,
    eos_after_trim=True,
    corruption=None,
    corruption_seed=0,
    splits={"train": split},
    scoring=None,
    definition="d",
  )
  task = dataclasses.replace(task, **told)
  return manifest.PreparedMixture("m", (task,), rates)


@pytest.fixture
def mark(monkeypatch):
  def of(**changes):
    prepared = mixture(**changes)
    monkeypatch.setattr(inputs, "prepared", lambda *_: prepared)
    monkeypatch.setattr(manifest, "load", lambda *_: prepared)
    made = plan.mark_of_made_data("m", "prepared")
    assert plan.mark_of_found_data("m", "prepared") == made
    return made

  return of


@pytest.mark.parametrize(
  "change",
  [
    {"checksum": "e" * 64},
    {"pieces": "another"},
    {"rates": (0.5,)},
    {"features": ("targets",)},
    {"eos_after_trim": False},
    {"corruption": {"noise_density": 0.5}},
    {"corruption_seed": 1},
    {"trimming": {"from": "start"}},
    {"scoring": manifest.Scoring(None, ({"function": "a:b", "kwargs": {}},))},
  ],
)
def test_other_data_has_another_mark(mark, change):
  assert mark(**change) != mark()


def test_where_data_lies_is_no_difference(mark):
  assert mark(folder="elsewhere/a") == mark()


def test_the_same_records_made_anew_are_no_other_data(mark):
  # As when the raw files were copied or mounted again: their times are others.
  assert mark(definition="another") == mark()


def test_data_that_is_not_prepared_is_unknown(tmp_path):
  assert plan.mark_of_found_data("a", str(tmp_path)) == plan.UNKNOWN_DATA


@pytest.mark.parametrize(
  "files, name",
  [
    (["architectures/bert.gin", "heads/classes.gin"], "mini_mrpc:classes"),
    (["architectures/t5_1_0.gin"], "mini_mrpc"),
  ],
)
def test_the_data_of_a_head_is_that_of_its_form(files, name, tmp_path):
  """The rows of a study differ in their heads alone."""
  read = []

  def mark(mixture, prepared_dir):
    read.append((mixture, prepared_dir))
    return "as it was"

  planner = plan._Planner(Study(), Suite(name="one"), tmp_path, (), mark)
  architecture, *heads = files
  changes = (
    architecture,
    "sizes/bert_tiny.gin" if heads else "sizes/tiny.gin",
    "runs/finetune.gin",
    *heads,
    "MIXTURE_OR_TASK_NAME='mini_mrpc'",
    "PREPARED_DIR='prepared'",
    "INITIAL_CHECKPOINT_PATH=None",
  )
  _, found = planner._identify("train", changes, 0, [])
  assert found == plan.Read(name, "prepared")
  assert read == [(name, "prepared")]


def test_ids_without_a_row_of_the_embedding_are_found_in_the_plan(
  monkeypatch, tmp_path
):
  """A vocabulary that has grown, and a row that binds VOCAB_SIZE."""
  pieces = types.SimpleNamespace(checksum="v", extra_ids=100, size=40, pad_id=0)
  task = dataclasses.replace(mixture().tasks[0], vocabulary=pieces)
  prepared = manifest.PreparedMixture("m", (task,), (1.0,))
  monkeypatch.setattr(manifest, "load", lambda *_: prepared)
  mark = plan.mark_of_found_data
  planner = plan._Planner(Study(), Suite(name="one"), tmp_path, (), mark)
  changes = ("runs/miniature_pretrain.gin", "MIXTURE_OR_TASK_NAME='m'")
  planner._identify("train", (*changes, "VOCAB_SIZE=40"), 0, [])
  told = "the vocabulary of task 'a' has 40 ids but the embedding has 32 rows"
  with pytest.raises(UserError, match=told):
    planner._identify("train", (*changes, "VOCAB_SIZE=32"), 0, [])
