"""Every published number: by sums, by its neighbours, by T5's own rules."""

import json
import pathlib

import pytest

from transformer_zoo.cli import main as cli
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import averages
from transformer_zoo.studies import published
from transformer_zoo.studies.statistics import scores

# Of rows and columns, written down from the sources: one wrong cell changes a
# row's and a column's.
GOLDEN = pathlib.Path("tests/golden/published_sums.json")
T5 = [key for key in published.keys() if key.startswith("t5/")]
EVERY_TASK = "t5/table16_all_per_task_scores"


def test_rows_and_columns_have_the_sums_of_the_sources():
  golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
  assert set(golden) == set(published.keys())
  for key, sums in golden.items():
    table = published.load(key)
    rows = [round(sum(row.values()), 3) for row in table.rows.values()]
    assert rows == sums["rows"], key
    columns = {
      column: round(sum(row.get(column, 0) for row in table.rows.values()), 3)
      for column in table.columns
    }
    assert columns == sums["columns"], key


def test_table_16_repeats_the_other_tables_but_for_the_misprints():
  differences, compared = set(), 0
  for key in T5:
    per_task = published.per_task(key)
    for label, row in published.load(key).rows.items() if per_task else ():
      if label not in per_task.rows:
        differences.add((key, label))
        continue
      for column, value in row.items():
        compared += 1
        if per_task.rows[label][column] != value:
          differences.add((key, label, column))
  assert compared == 68 * 7
  assert differences == {
    ("t5/table10_finetuning_methods", "Adapter layers, d=2048 (main text)"),
    ("t5/table13_scaling", "4x ensembled", "EnRo"),
    ("t5/table13_scaling", "4x ensembled, fine-tune only", "SGLUE"),
  }


def test_the_averages_of_table_16_are_those_of_its_scores():
  metrics = {
    column: name.split(": ")
    for column, name in published.task_metrics().items()
  }
  for label, row in published.load(EVERY_TASK).rows.items():
    found = {}
    for column, value in row.items():
      if column in metrics:
        task, metric = metrics[column]
        found.setdefault(task, {})[metric] = value
    # Half a unit of the last digit, of the average and of what it is made of.
    assert averages.glue_average(found) == pytest.approx(row["GLUE"], abs=0.01)
    assert averages.super_glue_average(found) == pytest.approx(
      row["SGLUE"], abs=0.01
    ), label


def test_bold_follows_the_rule_but_for_what_the_notes_say():
  exceptions = set()
  for key in T5:
    table = published.load(key)
    if key == EVERY_TASK or not table.deviations:
      continue
    for column, deviation in table.deviations.items():
      bold = scores.within_two_deviations(
        {label: row[column] for label, row in table.rows.items()}, deviation
      )
      exceptions |= {
        (key, label, column)
        for label in table.rows
        if (label in bold) != (column in table.bold[label])
      }
  assert exceptions == {
    ("t5/table02_architectures", "Enc-dec, shared, Denoising", "GLUE"),
    ("t5/table08_pretraining_datasets", "Wikipedia + TBC", "GLUE"),
    ("t5/table08_pretraining_datasets", "RealNews-like", "EnDe"),
  }
  for key, label, column in exceptions:
    notes = " ".join(published.load(key).notes)
    assert f"{label}: {column}" in notes


def test_the_baseline_of_every_table_of_t5_is_the_same():
  first = published.load("t5/table01_baseline")
  baseline = first.rows["Baseline average"]
  for key in T5:
    table = published.load(key)
    if table.baseline:
      assert table.rows[table.baseline] == baseline
  assert first.deviations == {
    **{"GLUE": 0.235, "CNNDM": 0.065, "SQuAD": 0.343, "SGLUE": 0.416},
    **{"EnDe": 0.112, "EnFr": 0.090, "EnRo": 0.108},
  }


def test_scores_of_tasks_go_by_the_rows_of_their_table():
  per_task = published.per_task("t5/table06_corruption_rates")
  assert tuple(per_task.rows) == ("10%", "15%", "25%", "50%")
  assert per_task.rows["25%"]["CoLA_MCC"] == 53.47
  assert per_task.deviations["CoLA_MCC"] == 1.111
  assert published.per_task("t5/table15_one_trillion_tokens") is None
  assert published.per_task("glu/tables2_to_4") is None


def test_the_table_of_glu_averages_is_made_of_the_three_tables():
  glue, super_glue, squad = (
    published.load(f"glu/{name}")
    for name in ("table2_glue", "table3_superglue", "table4_squad")
  )
  together = published.load("glu/tables2_to_4")
  assert together.deviations == {"GLUE": 0.235, "SGLUE": 0.416, "SQuAD": 0.343}
  for label, row in together.rows.items():
    assert row == {
      "GLUE": glue.rows[label]["Average"],
      "SGLUE": super_glue.rows[label]["Average"],
      "SQuAD": squad.rows[label]["EM"],
    }


def test_every_table_says_what_it_is():
  for key in published.keys():
    table = published.load(key)
    assert table.title.startswith("Table") and table.source
    assert not table.baseline or table.baseline in table.rows
    assert all(bold <= set(table.columns) for bold in table.bold.values())


def test_tables_are_listed_with_their_rows(capsys):
  assert cli.main(["list", "published", "--json"]) == 0
  rows = json.loads(capsys.readouterr().out)
  assert [row["name"] for row in rows] == list(published.keys())
  (row,) = (row for row in rows if row["name"] == "t5/table06_corruption_rates")
  assert row["summary"] == "Table 6: corruption rates (Raffel et al. 2020)"
  assert row["rows"] == ["10%", "15%", "25%", "50%"]
  assert row["columns"][0] == "GLUE"


def test_names_that_do_not_exist_are_refused():
  with pytest.raises(UserError, match="no published table 't5/table06_rates'"):
    published.load("t5/table06_rates")
  table = published.load("t5/table06_corruption_rates")
  with pytest.raises(UserError, match="no row '10 %'; did you mean '10%'"):
    table.row("10 %")
