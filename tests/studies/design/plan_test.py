"""Runs of a study, their order, and those that are shared."""

import dataclasses
import pathlib

import pytest

from transformer_zoo import config
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.design.study import Row
from transformer_zoo.studies.design.study import Study
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.design.suite import Suite

SUITE = Suite(
  name="two",
  phases={
    "pretrain": ("MIXTURE_OR_TASK_NAME='corpus'", "STEPS=$(steps)"),
    "multitask": ("MIXTURE_OR_TASK_NAME='all'", "STEPS=3"),
    "finetune": ("STEPS=2",),
    "ensemble": (),
  },
  groups={
    "A": ("MIXTURE_OR_TASK_NAME='a'",),
    "B": ("MIXTURE_OR_TASK_NAME='b'", "STEPS=4"),
  },
  columns=(Column("A", scores=("a",)),),
  values={"steps": 100},
)
BASELINE = Row("baseline")


@pytest.fixture
def runs_of(fake):
  def make(*rows, suite=SUITE, seeds=(0,), output_dir="out", **options):
    study = Study(name="tiny", rows=rows, seeds=seeds)
    return plan.plan(study, suite, output_dir=output_dir, **options)

  return make


def distinct(runs):
  return [run.name for run in plan.distinct(runs)]


def test_a_chain_per_group_shares_what_does_not_depend_on_it(runs_of):
  pretrain, for_a, for_b = runs_of(BASELINE)
  assert [run.name for run in (pretrain, for_a, for_b)] == [
    "baseline / seed 0 / pretrain",
    "baseline / seed 0 / A / finetune",
    "baseline / seed 0 / B / finetune",
  ]
  assert pretrain.starts == () and not pretrain.scored
  assert for_a.starts == for_b.starts == (pretrain.folder,)
  assert for_a.scored and for_b.scored
  assert pretrain.folder == (
    pathlib.Path("out/runs") / f"pretrain-{pretrain.fingerprint[:12]}"
  )


def test_changes_come_from_the_general_to_the_particular(runs_of):
  row = Row(
    "row", changes={"finetune": ("LAST=1",), "all": ("STEPS=$(steps // 2)",)}
  )
  suite = dataclasses.replace(SUITE, after={"finetune": ("STEPS=$(9)",)})
  pretrain, _, for_b = runs_of(row, suite=suite)
  corpus, hundred = "MIXTURE_OR_TASK_NAME='corpus'", "STEPS=100"
  assert pretrain.changes == (corpus, hundred, "STEPS=50")
  assert for_b.changes == (
    *("STEPS=2", "MIXTURE_OR_TASK_NAME='b'", "STEPS=4"),
    *("STEPS=50", "LAST=1", "STEPS=9"),
  )


def test_a_model_comes_before_what_a_group_names(runs_of):
  row = Row("other", changes={"model": ("MODEL=1",), "all": ("STEPS=6",)})
  pretrain, for_a, _ = runs_of(row)
  assert pretrain.changes == (*SUITE.phases["pretrain"][:1], "STEPS=100") + (
    *("MODEL=1", "STEPS=6"),
  )
  assert for_a.changes == (
    *("STEPS=2", "MODEL=1", "MIXTURE_OR_TASK_NAME='a'", "STEPS=6"),
  )


def test_a_phase_may_have_groups_of_its_own(runs_of):
  suite = dataclasses.replace(
    SUITE,
    phases={**SUITE.phases, "longer": ("MIXTURE_OR_TASK_NAME='corpus'",)},
    commands={"longer": "evaluate"},
    own_groups={"longer": {"1x": ("LENGTH=1",), "2x": ("LENGTH=2",)}},
    columns=(*SUITE.columns, Column("twice", "2x", scores=("corpus",))),
  )
  suite.check()
  read = Row("read", phases=("pretrain", "longer"))
  pretrain, once, twice = runs_of(read, suite=suite)
  assert [run.group for run in (pretrain, once, twice)] == ["", "1x", "2x"]
  assert once.changes == ("MIXTURE_OR_TASK_NAME='corpus'", "LENGTH=1")
  assert once.starts == twice.starts == (pretrain.folder,)
  assert twice.command == "evaluate" and twice.scored
  assert {run.group for run in runs_of(BASELINE, suite=suite)} == {"", *"AB"}
  columns = [
    [column.name for column in suite.columns_of(Study(rows=rows))]
    for rows in ((BASELINE,), (read,), (BASELINE, read))
  ]
  assert columns == [["A"], ["twice"], ["A", "twice"]]


def test_a_study_may_name_its_columns(fake):
  suite = dataclasses.replace(
    SUITE,
    columns=(
      Column("A", scores=("a",)),
      Column("B", scores=("b",), published="Bs"),
      Column("B_loss", "B", scores=("b: loss",)),
    ),
  )
  study = Study(name="tiny", rows=(BASELINE,), columns={"B_loss": "ppl"})
  runs = plan.plan(dataclasses.replace(study, seeds=(0,)), suite)
  assert [run.group for run in runs] == ["", "B"]
  (column,) = suite.columns_of(study)
  assert (column.name, column.published) == ("B_loss", "ppl")
  both = dataclasses.replace(study, columns={"B": "", "A": "As"})
  assert [(c.name, c.published) for c in suite.columns_of(both)] == [
    ("B", ""),
    ("A", "As"),
  ]
  wrong = dataclasses.replace(study, columns={"B_los": ""})
  with pytest.raises(UserError) as error:
    plan.plan(wrong, suite)
  assert str(error.value) == (
    "Study.columns of study 'tiny' on suite 'two': column 'B_los' is unknown; "
    "did you mean 'B_loss'?"
  )


def test_a_group_may_be_scored_by_a_command_of_its_own(runs_of):
  suite = dataclasses.replace(SUITE, commands={"finetune/B": "evaluate"})
  suite.check()
  _, for_a, for_b = runs_of(BASELINE, suite=suite)
  assert (for_a.command, for_b.command) == ("train", "evaluate")
  # The phase's changes are those of training.
  assert for_b.changes == ("MIXTURE_OR_TASK_NAME='b'", "STEPS=4")


def test_a_phase_that_other_suites_have(runs_of):
  suite = dataclasses.replace(SUITE, missing={"heads": "It has no encoders."})
  with pytest.raises(UserError, match="the phase 'heads', .* It has no encod"):
    runs_of(Row("row", phases=("pretrain", "heads")), suite=suite)


IN_PARTS = dataclasses.replace(
  SUITE,
  phases={**SUITE.phases, "individual": ("STEPS=5",)},
  own_groups={
    "individual": {
      "A": {
        "one": ("MIXTURE_OR_TASK_NAME='a1'",),
        "two": ("MIXTURE_OR_TASK_NAME='a2'",),
      },
      "B": ("MIXTURE_OR_TASK_NAME='b'",),
    }
  },
)


def test_parts_of_a_group_are_runs_of_their_own(runs_of):
  IN_PARTS.check()
  row = Row("apart", phases=("pretrain", "individual"))
  pretrain, *runs = runs_of(row, suite=IN_PARTS)
  assert [(run.name, run.group, run.part) for run in runs] == [
    ("apart / seed 0 / A / individual / one", "A", "one"),
    ("apart / seed 0 / A / individual / two", "A", "two"),
    ("apart / seed 0 / B / individual", "B", ""),
  ]
  assert runs[0].changes == ("STEPS=5", "MIXTURE_OR_TASK_NAME='a1'")
  assert all(run.scored and run.starts == (pretrain.folder,) for run in runs)
  assert len({run.folder for run in runs}) == 3


@pytest.mark.parametrize(
  "row",
  [
    Row("on", phases=("individual", "finetune")),
    Row("on", phases=("individual",), copies={"individual": 2}),
  ],
)
def test_nothing_goes_on_from_parts_of_a_group(runs_of, row):
  with pytest.raises(UserError) as error:
    runs_of(row, suite=IN_PARTS)
  assert str(error.value) == (
    "row 'on' of study 'tiny': the phase 'individual' has groups in parts on "
    "suite 'two', so that it must be the row's last one, without copies"
  )


def test_equal_runs_are_one(runs_of):
  rows = (
    BASELINE,
    Row("same", changes={"pretrain": ("STEPS=100",)}),
    Row("longer", changes={"pretrain": ("STEPS=200",)}),
    Row("later", changes={"finetune": ("STEPS=7",)}),
  )
  runs = runs_of(*rows)
  assert distinct(runs) == [
    "baseline / seed 0 / pretrain",
    "baseline / seed 0 / A / finetune",
    "baseline / seed 0 / B / finetune",
    "longer / seed 0 / pretrain",
    "longer / seed 0 / A / finetune",
    "longer / seed 0 / B / finetune",
    "later / seed 0 / A / finetune",
    "later / seed 0 / B / finetune",
  ]
  folders = {run.folder for run in runs}
  assert len(folders) == 8 and len(runs) == 12


def test_nothing_is_shared_between_seeds(runs_of):
  runs = runs_of(BASELINE, seeds=(3, 0))
  assert len(distinct(runs)) == 6
  assert [run.random_seed for run in runs] == [3, 3, 3, 0, 0, 0]


def test_a_run_of_another_study_is_reused_whatever_its_phase_is(
  runs_of, tmp_path
):
  (pretrain, *_) = runs_of(BASELINE, output_dir=tmp_path)
  other = tmp_path / "runs" / f"training-{pretrain.fingerprint[:12]}"
  other.mkdir(parents=True)
  again, finetune, _ = runs_of(BASELINE, output_dir=tmp_path)
  assert again.folder == other and finetune.starts == (other,)


def test_scores_of_a_phase_for_all_groups(runs_of):
  runs = runs_of(Row("together", phases=("multitask",)))
  assert [run.name for run in runs] == ["together / seed 0 / multitask"]
  assert runs[0].scored and runs[0].group == ""


def test_a_change_may_depend_on_the_group(runs_of):
  change = "MIXTURE_OR_TASK_NAME='all_without_$(group)'"
  row = Row(
    "left_out",
    phases=("multitask", "finetune"),
    changes={"multitask": (change,)},
  )
  runs = runs_of(row)
  assert distinct(runs) == [
    "left_out / seed 0 / A / multitask",
    "left_out / seed 0 / A / finetune",
    "left_out / seed 0 / B / multitask",
    "left_out / seed 0 / B / finetune",
  ]
  assert runs[1].starts == (runs[0].folder,)
  assert runs[3].starts == (runs[2].folder,)
  assert runs[2].changes[-1] == "MIXTURE_OR_TASK_NAME='all_without_B'"


def test_members_of_an_ensemble_are_trained_from_the_start(runs_of):
  runs = runs_of(BASELINE, Row("four", copies={"pretrain": 4}))
  of_four = [run for run in runs if run.row == "four"]
  for_a = [run for run in of_four if run.group == "A"]
  assert len([r for r in of_four if r.phase == "pretrain"]) == 4
  *members, ensemble = for_a
  assert [run.random_seed for run in members] == [0, 1000, 2000, 3000]
  assert len({run.starts for run in members}) == 4
  assert ensemble.phase == "ensemble" and ensemble.command == "evaluate"
  assert ensemble.starts == tuple(run.folder for run in members)
  assert [run.scored for run in for_a] == [False] * 4 + [True]
  assert members[3].name == "four / seed 0 / A / finetune / member 3"
  # The first member is the baseline itself.
  assert [run.shared for run in members] == [True, False, False, False]


def test_members_of_an_ensemble_from_one_pre_training(runs_of):
  runs = runs_of(Row("four", copies={"finetune": 2}))
  assert distinct(runs) == [
    "four / seed 0 / pretrain",
    "four / seed 0 / A / finetune",
    "four / seed 0 / A / finetune / member 1",
    "four / seed 0 / A / ensemble",
    "four / seed 0 / B / finetune",
    "four / seed 0 / B / finetune / member 1",
    "four / seed 0 / B / ensemble",
  ]


def test_other_data_makes_other_runs_of_all_that_start_from_it(
  runs_of, monkeypatch
):
  def changed(mixture, prepared_dir):
    return "other text" if mixture == "corpus" else f"{mixture} as it was"

  before = runs_of(BASELINE)
  monkeypatch.setattr(plan, "mark_of_made_data", changed)
  after = runs_of(BASELINE)
  assert not {r.folder for r in before} & {r.folder for r in after}
  assert [run.changes for run in before] == [run.changes for run in after]


def test_a_plan_prepares_nothing(runs_of, monkeypatch, tmp_path):
  def never(mixture, prepared_dir):
    raise AssertionError(mixture)

  monkeypatch.setattr(plan, "mark_of_made_data", never)
  assert len(runs_of(BASELINE, prepare=False)) == 3
  assert (
    plan.mark_of_found_data("no_such_task", str(tmp_path)) == plan.UNKNOWN_DATA
  )


def test_a_study_whose_part_is_missing(fake):
  study = Study(name="tiny", rows=(BASELINE,), missing="There is no Mamba.")
  with pytest.raises(UserError) as error:
    plan.plan(study, SUITE)
  assert str(error.value) == (
    "study 'tiny' cannot be run yet: There is no Mamba."
  )


def test_a_row_that_the_suite_cannot_run(runs_of):
  suite = dataclasses.replace(SUITE, missing={"web": "No web text is at hand."})
  row = Row("row", changes={"pretrain": ("MIXTURE_OR_TASK_NAME='$(web)'",)})
  with pytest.raises(UserError) as error:
    runs_of(BASELINE, row, suite=suite)
  assert str(error.value) == (
    "row 'row', phase 'pretrain', group 'A': suite 'two' cannot run it: No web "
    "text is at hand."
  )


def test_a_value_may_have_the_name_of_a_phase_that_is_missing(runs_of):
  suite = dataclasses.replace(
    SUITE, values={"steps": 1, "heads": 4}, missing={"heads": "No encoders."}
  )
  row = Row("row", changes={"all": ("NUM_HEADS=$(heads)",)})
  assert "NUM_HEADS=4" in runs_of(row, suite=suite)[0].changes


def test_a_mistake_names_its_row_phase_and_group(runs_of):
  row = Row("wrong", changes={"finetune": ("STEPS=$(stpes)",)})
  with pytest.raises(UserError) as error:
    runs_of(BASELINE, row)
  assert str(error.value) == (
    "row 'wrong', phase 'finetune', group 'A': $(stpes) names 'stpes', which "
    "is no value of the suite; did you mean 'steps'?"
  )


def test_two_rows_of_one_label(runs_of):
  rows = [Row(name, label="$(steps) steps") for name in ("one", "two")]
  with pytest.raises(UserError) as error:
    runs_of(*rows)
  assert str(error.value) == (
    "study 'tiny' has 2 row labels named '100 steps'; names must differ"
  )


def test_a_run_of_no_steps(runs_of):
  row = Row("none", changes={"finetune": ("TRAIN_STEPS=$(steps - 100)",)})
  with pytest.raises(UserError) as error:
    runs_of(row)
  assert str(error.value) == (
    "row 'none', phase 'finetune', group 'A': TRAIN_STEPS=0 must be at least 1"
  )


def test_seeds_whose_ensembles_would_have_members_in_common(runs_of):
  row = Row("four", copies={"finetune": 4})
  with pytest.raises(UserError) as error:
    runs_of(BASELINE, row, seeds=(0, 1, 2000))
  assert str(error.value) == (
    "study 'tiny' has ensembles and the seeds [0, 1, 2000], of which some "
    "differ by a multiple of 1000; their members would be the same runs, so "
    "take other seeds"
  )
  assert runs_of(BASELINE, seeds=(0, 1000))


def test_a_value_may_be_a_file(runs_of):
  suite = dataclasses.replace(SUITE, values={"steps": 1, "size": "b.gin"})
  with pytest.raises(UserError, match="there is no gin file 'b.gin'"):
    runs_of(Row("row", changes={"all": ("$(size)",)}), suite=suite)
  with pytest.raises(UserError) as error:
    runs_of(Row("row", changes={"pretrain": ("$(steps)",)}))
  assert str(error.value) == (
    "row 'row', phase 'pretrain', group 'A': '100' in its changes is neither a "
    "gin file (*.gin) nor of the form NAME=VALUE"
  )


FIELDS = [field.name for field in dataclasses.fields(planned_run.Run)]
RUN = ("runs/miniature_pretrain.gin", "TRAIN_STEPS=7", "MODEL_DIR='x'")


def test_a_file_after_a_binding_wins_and_is_written_so(tmp_path):
  (tmp_path / "later.gin").write_text("TRAIN_STEPS = 9\nWARMUP_STEPS = 5\n")
  changes = (*RUN, "later.gin", "WARMUP_STEPS = 6")
  config.load((), (), [tmp_path], changes=changes)
  assert config.setting("train_steps") == 9
  assert config.setting("prepared_dir") == "runs/prepared"
  assert config.setting("packing") is True
  operative = config.operative_config()
  assert "WARMUP_STEPS = 6" in operative

  run = planned_run.Run(**dict.fromkeys(FIELDS))
  text = planned_run.as_gin(dataclasses.replace(run, changes=changes))
  (tmp_path / "run.gin").write_text(text)
  config.load(["run.gin"], (), [tmp_path])
  assert config.operative_config() == operative


@pytest.mark.parametrize(
  "change, message",
  [
    ("TRAIN_STPES=9", "TRAIN_STPES=9: the macro 'TRAIN_STPES' is used by not"),
    ("nowhere.gin", "the study includes 'nowhere.gin', which is in none of"),
    ("TRAIN_STEPS=many", "--gin.TRAIN_STEPS: A bare word stands where a value"),
    ("TRAIN_STEPS='many'", "TRAIN_STEPS='many': train.train_steps must be int"),
  ],
)
def test_changes_are_judged_as_overrides(change, message):
  with pytest.raises(UserError) as error:
    config.load(changes=(*RUN, change))
  assert str(error.value).startswith(message)


def test_runs_of_two_versions_of_a_suite_are_never_the_same(runs_of):
  second = dataclasses.replace(SUITE, version=2)
  third = dataclasses.replace(SUITE, version=3)
  marks = [
    {run.fingerprint for run in runs_of(BASELINE, suite=suite)}
    for suite in (SUITE, second, third)
  ]
  assert [len(of_version) for of_version in marks] == [3, 3, 3]
  assert len(set().union(*marks)) == 9
