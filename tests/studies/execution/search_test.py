"""Searches of grids: first the alternatives, then all seeds with the best."""

import dataclasses

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.execution import choices
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.report import files
from transformer_zoo.studies.report import summary
from transformer_zoo.studies.statistics import analysis

QUESTION = "Study.question"
# More steps score more; half_as_long binds its own steps, and is not searched.
GRID = "Study.grids = {'finetune': (('TRAIN_STEPS=10',), ('TRAIN_STEPS=30',))}"
LONGER = GRID.replace("))}", "), ('TRAIN_STEPS=50',))}")


def searched(grid=GRID):
  return QUESTION, f"{grid}\n{QUESTION}"


def test_all_seeds_run_with_the_alternative_that_is_best(
  run_tiny, fake, capsys
):
  outcome = run_tiny(searched(), seeds=[5, 6])
  assert outcome.failures == ()
  # Two rows are searched for two groups: one more alternative each; the third
  # row has the one that was not chosen, of the baseline.
  assert len(fake.trained) == len(set(fake.trained)) == 7 + 4 - 2 + 7
  out = capsys.readouterr().out
  first = out.index("baseline / seed 5 / sentiment / finetune / TRAIN_STEPS=10")
  assert out.index("baseline / seed 6 / sentiment / finetune  fin") > first
  assert "all done" in out

  study = results.read(outcome.folder)
  assert {run.state for run in study.runs} == {"finished"}
  chosen = study.scored_runs("baseline", "sentiment")
  assert [run.seed for run in chosen] == [5, 6]
  assert [run.result["step"] for run in chosen] == [30, 30]
  (half, _) = study.scored_runs("half_as_long", "sentiment")
  assert half.result["step"] == 10
  (search, *others) = study.searches()
  assert len(others) == 3 and search.chosen == 1
  assert [run.seed for run in search.runs] == [5, 5]
  assert search.runs[1].folder == chosen[0].folder
  assert sum(not run.shared for run in study.runs) == len(fake.trained)
  assert (chosen[1].folder / "run.gin").read_text().count("STEPS = 30") == 1
  assert str(chosen[1].folder) in chosen[1].command

  # The third alternative, and the second seed where it is chosen.
  assert run_tiny(searched(LONGER), seeds=[5, 6]).failures == ()
  changed = results.read(outcome.folder).searches()
  assert [search.chosen for search in changed] == [2, 2, 2, 0]
  assert len(fake.trained) == 16 + 4 + 3


def test_the_report_shows_the_search(run_tiny):
  folder = run_tiny(searched(), seeds=[0, 1]).folder
  table = (folder / "table.md").read_text()
  _, _, section = table.partition("## Search")
  head, _, line = section.strip().splitlines()[:3]
  names = [cell.strip() for cell in head.split("|")]
  assert names[-3:-1] == ["TRAIN_STEPS=10", "TRAIN_STEPS=30"]
  *_, worse, better, _ = (cell.strip() for cell in line.split("|"))
  assert better.startswith("**8") and worse.startswith("8")
  html = (folder / "report.html").read_text()
  assert '<section id="search">' in html
  found = analysis.analyse(results.read(folder))
  text = summary.to_markdown(found)
  assert "for each row and group: TRAIN_STEPS=30 (4)." in text
  entries = files.as_json(found)["searches"]
  assert [one["chosen"] for one in entries] == [False, True] * 4
  # Two groups of 30 steps: what a row costs with one seed is not its search.
  assert found.budgets["baseline"].phases["finetune"].tokens == 2 * 30_000


def test_a_search_that_fails_keeps_its_seeds_from_running(
  run_tiny, fake, capsys
):
  fake.broken = lambda what: what == "sentiment, seed 0, 30 steps"
  outcome = run_tiny(searched(), seeds=[0, 1])
  lost = [one for one in outcome.failures if one.endswith("finetune failed")]
  assert [one.partition(":")[0] for one in lost] == [
    f"{row} / seed 1 / sentiment / finetune"
    for row in ("baseline", "no_pretraining")
  ]
  study = results.read(outcome.folder)
  waits = [r.sentence for r in study.unfinished() if r.state == "not run"]
  assert waits == [
    f"{row} / seed 1 / sentiment / finetune: not run, because the search failed"
    for row in ("baseline", "no_pretraining")
  ]
  assert study.scores("baseline", "sentiment") == {}
  fake.broken = lambda what: False
  assert run_tiny(searched(), seeds=[0, 1]).failures == ()
  assert results.read(outcome.folder).unfinished() == ()


def test_a_macro_that_nothing_reads_is_no_alternative():
  study = dataclasses.replace(
    loading.load_study("roberta_table1"),
    grids={"heads": (("LEARNING_RAET=1",), ("LEARNING_RATE=2",))},
  )
  with pytest.raises(UserError) as error:
    plan.plan(study, loading.load_suite("miniature"), prepare=False)
  assert str(error.value).startswith(
    "row 'static', phase 'heads', group 'SST2': LEARNING_RAET=1: the macro "
    "'LEARNING_RAET' is used by nothing"
  )


ACCURACY, LOSS = (
  Column("a", scores=("a: f1",)),
  Column("b", scores=("b: loss",)),
)
BOTH = Column("both", scores=("a: f1", "c: f1"))


@pytest.mark.parametrize(
  ("column", "task", "values", "best"),
  [
    (ACCURACY, "a: f1", (1.0, 3.0, 3.0), 1),
    (LOSS, "b: loss", (2.0, 1.0, 3.0), 1),
    (ACCURACY, "a: f1", (float("nan"), 0.0), 1),
    # A run of one of the tasks of a column.
    (BOTH, "c: f1", (1.0, 2.0), 1),
  ],
)
def test_the_best_is_the_first_of_the_highest(column, task, values, best):
  task, _, metric = task.partition(": ")
  found = [{"scores": {task: {metric: one}}} for one in values]
  assert choices.best(found, (column,)) == best


@pytest.mark.parametrize(
  ("grid", "message"),
  [
    (
      "{'finetun': (('A=1',), ('A=2',))}",
      "Study.grids of study 'tiny': last phase of a row 'finetun' is unknown; "
      "did you mean 'finetune'?",
    ),
    (
      "{'finetune': ()}",
      "Study.grids['finetune'] is (); a grid has 2 or more alternatives, each "
      "a list of changes: (('LEARNING_RATE=0.001',), ('LEARNING_RATE=0.01',))",
    ),
    (
      "{'finetune': (('A=1',), ())}",
      "Study.grids['finetune'] has an alternative without changes; name in it "
      "what the others change",
    ),
    (
      "{'finetune': (('A=1'), ('A=2'))}",
      "an alternative of Study.grids['finetune'] must be a list of strings, "
      "like ('...',), not 'A=1'",
    ),
    (
      "{'finetune': (('TRAIN_STEPS=20',), ('TRAIN_STEPS=9',), "
      "('TRAIN_STEPS=20',))}",
      "the alternative 'TRAIN_STEPS=20' in the grid of 'finetune' changes no "
      "run of study 'tiny': it is the same as one before it, or groups and "
      "rows bind the same names",
    ),
    (
      "{'finetune': ((\"MIXTURE_OR_TASK_NAME='a'\",), "
      "(\"MIXTURE_OR_TASK_NAME='b'\",))}",
      "the alternative \"MIXTURE_OR_TASK_NAME='a'\" in the grid of 'finetune' "
      "changes no run of study 'tiny': it is the same as one before it, or "
      "groups and rows bind the same names",
    ),
  ],
)
def test_a_grid_that_chooses_nothing_is_refused(run_tiny, fake, grid, message):
  with pytest.raises(UserError) as error:
    run_tiny(searched(f"Study.grids = {grid}"))
  assert str(error.value) == message
  assert fake.trained == []
