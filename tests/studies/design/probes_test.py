"""Runs that ask pairs and facts: planned, and known by what they ask."""

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design.study import Row
from transformer_zoo.studies.design.study import Study
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.design.suite import Suite

ROW = Row("row")
PAIRS = "good\tbad\nit is\tit am\n"


def planned(folder, *probes, score="own", rows=(ROW,)):
  """Plans a row of which one group is trained on, and one asked before it."""
  asked = (
    *("runs/miniature_pretrain.gin", "runs/evaluate.gin"),
    f"own/Pairs.paths=('{folder}/own.tsv',)",
    f"evaluate.probes=({', '.join(probes or ('@own/Pairs()',))},)",
  )
  suite = Suite(
    name="two",
    phases={
      "pretrain": ("runs/miniature_pretrain.gin",),
      "finetune": ("runs/miniature_finetune.gin",),
    },
    groups={"SST2": ("MIXTURE_OR_TASK_NAME='mini_sst2'",), "own": asked},
    columns=(
      Column("SST2", scores=("mini_sst2",)),
      Column("own", scores=(score,)),
    ),
    commands={"finetune/own": "evaluate"},
  )
  suite.check()
  study = Study(name="tiny", rows=rows, seeds=(0,))
  return plan.plan(study, suite, output_dir=folder / "out", prepare=False)


def test_other_pairs_are_another_run(tmp_path):
  file = tmp_path / "own.tsv"
  file.write_text(PAIRS)
  before, trained, asked = planned(tmp_path)
  assert asked.command == "evaluate" and asked.starts == (before.folder,)
  assert trained.probes == () and asked.probes == ("own",)
  assert planned(tmp_path)[2].fingerprint == asked.fingerprint
  file.write_text(PAIRS.replace("it", "he"))
  changed = planned(tmp_path)
  assert [run.fingerprint for run in changed[:2]] == [
    run.fingerprint for run in (before, trained)
  ]
  assert changed[2].fingerprint != asked.fingerprint


def test_what_a_row_changes_in_the_phase_is_of_training_alone(tmp_path):
  (tmp_path / "own.tsv").write_text(PAIRS)
  rows = (
    ROW,
    Row("unpacked", changes={"finetune": ("train.packing=False",)}),
    Row("no_pretraining", phases=("finetune",)),
  )
  runs = planned(tmp_path, rows=rows)
  asked = {run.row: run for run in runs if run.probes}
  assert {*asked} == {"row", "unpacked"}
  assert asked["unpacked"].folder == asked["row"].folder
  trained = {run.folder for run in runs if run.group == "SST2"}
  assert len(trained) == 3


def test_what_cannot_be_asked_is_refused_before_anything_runs(tmp_path):
  where = "row 'row', phase 'finetune', group 'own': "
  with pytest.raises(UserError, match=f"^{where}cannot read the pairs"):
    planned(tmp_path)
  (tmp_path / "own.tsv").write_text(PAIRS)
  with pytest.raises(UserError, match=f"^{where}evaluate.probes has two"):
    planned(tmp_path, "@own/Pairs()", "@own/Pairs()")
  with pytest.raises(UserError, match="wants the task 'mine', which no run"):
    planned(tmp_path, score="mine")
