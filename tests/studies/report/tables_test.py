"""Means, deviations, bold and files, against numbers worked out by hand."""

import csv
import dataclasses
import io
import math

import pytest

from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.report import files
from transformer_zoo.studies.report import markdown
from transformer_zoo.studies.report import tables
from transformer_zoo.studies.statistics import analysis
from transformer_zoo.studies.statistics import budgets
from transformer_zoo.studies.statistics import scores
from transformer_zoo.studies.statistics import wording


@pytest.fixture
def one_task(make_study):
  def make(**rows):
    by_row = {
      row: {seed: {"cola": {"mcc": v}} for seed, v in enumerate(values)}
      for row, values in rows.items()
    }
    return make_study(by_row)

  return make


@pytest.fixture
def table6(make_study):
  """Two rows of T5's table 6, our scores at half of theirs and below."""
  return make_study(
    {
      "rate_15": {0: {"cola": {"mcc": 41.0}}, 1: {"cola": {"mcc": 42.0}}},
      "rate_50": {0: {"cola": {"mcc": 31.0}}},
    },
    columns=(Column(name="mini_GLUE", scores=("cola",), published="GLUE"),),
    published="t5/table06_corruption_rates",
    labels={"rate_15": "15%", "rate_50": "50%"},
  )


@pytest.fixture
def same_tasks(table6):
  """The same, of the tasks of the published column."""
  (column,) = table6.columns
  column = dataclasses.replace(column, name="GLUE", published="")
  return dataclasses.replace(table6, columns=(column,))


def test_a_column_takes_tasks_or_their_metrics():
  found = {"mrpc": {"f1": 90.0, "accuracy": 80.0}, "cola": {"mcc": 45.0}}

  def score(*wanted):
    return Column(name="c", scores=wanted).score(found)

  assert score("mrpc") == 85.0
  assert score("mrpc: f1") == 90.0
  assert score("mrpc", "cola") == 65.0
  assert score("mrpc", "rte") is None
  assert score("mrpc: em") is None


def test_a_median_over_templates_has_quartiles(make_study):
  tasks = ("t_1", "t_2", "t_3", "t_4")
  column = Column(name="RTE", scores=tasks, average="median")
  rows = {
    seed: {
      task: {"accuracy": value}
      for task, value in zip(tasks, values, strict=True)
    }
    for seed, values in {0: (50, 60, 70, 90), 1: (40, 50, 60, 80)}.items()
  }
  study = make_study({"a": rows}, columns=(column,))
  (cell,) = scores.build(study).of_column("RTE").values()
  assert cell.values == {0: 65.0, 1: 55.0}
  # By seed 57.5 and 75, 47.5 and 65.
  assert cell.quartiles == (52.5, 70.0)
  text = markdown.study_table(analysis.analyse(study))
  assert "60.00 ± 7.07** (quartiles 52.50 to 70.00)" in text
  assert "Medians over the templates of a set, with quartiles: RTE." in text
  built = scores.build(study)
  (line, *_) = csv.DictReader(io.StringIO(files.to_csv(study, built)))
  quartiles = (line["first_quartile"], line["third_quartile"])
  assert (line["column"], *quartiles) == ("RTE", "52.5", "70.0")
  assert (
    r"\textbf{60.00}{\scriptsize\,$\pm$7.07 (quartiles 52.50 to 70.00)}"
    in files.to_latex(analysis.analyse(study))
  )
  del rows[1]["t_4"]
  study = make_study({"a": rows}, columns=(column,))
  (cell,) = scores.build(study).of_column("RTE").values()
  assert cell.values == {0: 65.0} and cell.quartiles == (57.5, 75.0)


def test_a_benchmark_average_is_there_when_complete():
  glue = {}
  for members in scores.averages.GLUE_GROUPS.values():
    for task, metric in members:
      glue.setdefault(task, {})[metric] = 80.0
  column = Column(name="GLUE", scores=tuple(glue), average="glue")
  assert column.score(glue) == pytest.approx(80.0)
  del glue["glue_rte_v002"]
  assert column.score(glue) is None


def test_mean_deviation_and_difference(one_task):
  built = scores.build(one_task(baseline=[50, 54], other=[40, 40]))
  base = built.cells["baseline", "cola"]
  assert base.mean == 52.0
  assert base.deviation == pytest.approx(math.sqrt(8.0))
  assert base.difference is None
  assert built.cells["other", "cola"].difference == -12.0


def test_bold_is_within_two_deviations_of_the_baseline_from_the_best(one_task):
  # The baseline's deviation is sqrt(8) = 2.83: 54 − 5.66 = 48.34.
  built = scores.build(
    one_task(baseline=[50, 54], best=[54, 54], near=[48.4, 48.4], far=[48, 48])
  )
  bold = [row for row in built.rows if built.cells[row, "cola"].bold]
  assert bold == ["baseline", "best", "near"]


def test_a_single_seed_has_no_deviation_and_only_the_best_is_bold(one_task):
  built = scores.build(one_task(baseline=[50], other=[49.9]))
  assert built.cells["baseline", "cola"].deviation is None
  assert not built.cells["other", "cola"].bold


def test_every_metric_of_a_task_is_told_under_its_group(make_study):
  one = {"mrpc": {"f1": 90.0, "accuracy": 80.0}, "more": {"em": 1.0}}
  column = Column(name="GLUE", scores=("mrpc",))
  built = scores.build(make_study({"a": {0: one}}, columns=(column,)))
  told = {group: [*map(str, of)] for group, of in built.metrics.items()}
  assert told == {
    "GLUE": ["GLUE / mrpc: f1", "GLUE / mrpc: accuracy"],
    scores.NO_GROUP: ["other tasks / more: em"],
  }
  assert built.cells["a", built.metrics["GLUE"][0]].mean == 90.0


def test_groups_that_score_the_same_task_have_numbers_of_their_own(make_study):
  columns = tuple(
    Column(name=group, scores=("mrpc",)) for group in ("slow", "fast", "both")
  )
  study = make_study(
    {
      row: {0: {"mrpc": {"f1": value}}}
      for row, value in (("a", 7.0), ("b", 8.0))
    },
    columns=columns,
  )
  grouped, ungrouped = study.runs
  runs = [
    dataclasses.replace(grouped, group="slow"),
    dataclasses.replace(
      grouped,
      group="fast",
      result=grouped.result | {"scores": {"mrpc": {"f1": 9.0}}},
    ),
    ungrouped,
  ]
  study = dataclasses.replace(study, runs=tuple(runs))
  built = scores.build(study)
  assert [built.cells["a", c.name].mean for c in columns] == [7.0, 9.0, None]
  assert [built.cells["b", c.name].mean for c in columns] == [8.0, 8.0, 8.0]
  lines = csv.DictReader(io.StringIO(files.to_csv(study, built)))
  means = {(x["row"], x["group"], x["column"]): x["mean"] for x in lines}
  assert means["a", "slow", "mrpc: f1"] == "7.0"
  assert means["a", "fast", "mrpc: f1"] == "9.0"


def test_scores_that_are_no_numbers_are_left_out_and_named(make_study):
  rows = {
    "a": {0: {"cola": {"mcc": 41.0}}, 1: {"cola": {"mcc": math.nan}}},
    "b": {0: {"cola": {"mcc": 31.0}}, 1: {"cola": {"mcc": math.inf}}},
  }
  found = analysis.analyse(make_study(rows))
  cell = found.table.cells["a", "cola"]
  assert (cell.values, cell.deviation) == ({0: 41.0}, None)
  assert found.gaps == [
    "cola leaves out runs with scores that are no finite numbers: a with seed "
    "1, b with seed 1."
  ]
  assert found.gaps[0] in markdown.study_table(found)


def test_a_column_that_no_run_scores_says_what_they_score(make_study):
  columns = (Column(name="GLUE", scores=("cola: mmc",)),)
  study = make_study({"a": {0: {"cola": {"mcc": 41.0}}}}, columns=columns)
  assert analysis.analyse(study).gaps == [
    "GLUE wants cola: mmc, which runs of these rows do not score: a. They "
    "score cola: mcc."
  ]
  unfinished = [dataclasses.replace(run, result=None) for run in study.runs]
  study = dataclasses.replace(study, runs=tuple(unfinished))
  assert analysis.analyse(study).gaps == []


def test_two_columns_may_stand_beside_one_published_column(table6):
  one = table6.columns[0]
  columns = (one, dataclasses.replace(one, name="also_GLUE"))
  built = scores.build(dataclasses.replace(table6, columns=columns))
  beside = [
    built.cells["rate_15", column].published for column in built.columns
  ]
  assert beside == [83.28, 83.28]


def test_the_published_score_stands_beside_ours(same_tasks):
  text = markdown.study_table(analysis.analyse(same_tasks))
  assert "| ★\u00a015% | **41.50 ± 0.71** [83.28]" in text
  assert "| 50%   | 31.00 (1 of 2 seeds) [81.27]" in text


def test_only_published_differences_stand_beside_other_tasks(table6):
  found = analysis.analyse(table6)
  assert found.answer == "Difference from 15%: mini_GLUE −10.00, 50%."
  text = markdown.study_table(found)
  assert "**41.50 ± 0.71** " in text and "[83.28]" not in text
  # Of the seed that both have: 31 − 41.
  assert "| 50% | −10.00 (1 of 2 seeds) [−2.01] |" in text
  assert "than the published ones, mini_GLUE beside GLUE: only" in text
  assert "Table 6" in text


def test_the_csv_has_every_digit(table6):
  lines = csv.DictReader(
    io.StringIO(files.to_csv(table6, scores.build(table6)))
  )
  first = next(iter(lines))
  assert first["row"] == "rate_15" and first["label"] == "15%"
  assert float(first["standard_deviation"]) == pytest.approx(math.sqrt(0.5))
  assert (first["published"], first["seed_1"]) == ("83.28", "42.0")


def test_latex_has_a_cell_for_every_column(same_tasks):
  text = files.to_latex(analysis.analyse(same_tasks))
  rows = [line for line in text.splitlines() if line.endswith(r"\\")]
  assert [line.count("&") for line in rows] == [1] * 5
  assert r"$\star$~15\% & \textbf{41.50}{\scriptsize\,$\pm$0.71} \\" in text
  assert r"\quad{\scriptsize published} & {\scriptsize 83.28} \\" in text
  assert text.count(r"\begin") == text.count(r"\end") == 2
  assert not set(text) & set("★±−\u00a0")


def test_latex_shows_special_characters_as_they_are():
  plain = r"50% of $5 & a_b^{c} #1 ~ \x <y> | ± − ★"
  assert tables.escape(plain) == (
    r"50\% of \$5 \& a\_b\textasciicircum{}\{c\} \#1 \textasciitilde{} "
    r"\textbackslash{}x \textless{}y\textgreater{} \textbar{} $\pm$ $-$ $\star$"
  )
  assert tables.escape("K = 2^16") == "K = 2$^{16}$"
  assert tables.escape("α ≠ Δ") == r"$\alpha$ $\neq$ $\Delta$"


def test_markdown_shows_labels_as_they_are():
  assert tables.plain("*half* <mask> <b>, p < 0.1") == (
    r"\*half\* \<mask> \<b>, p < 0.1"
  )


def test_numbers_are_written_with_a_typographic_minus():
  assert wording.number(-1.005) == "−1.00"
  assert wording.signed(0.5) == "+0.50"


def test_counts_have_three_digits():
  counts = (7, 99_999, 1e5, 812_032, 9.996e6, 1.234e9, 2e18)
  written = [wording.compact(count) for count in counts]
  assert written[:4] == ["7", "99,999", "100 k", "812 k"]
  assert written[4:] == ["10.0 M", "1.23 G", "2.00 E"]


def _budget(**other):
  budget = {"parameters": 10, "trained_parameters": 10, "steps": 4}
  budget |= {"input_tokens": 90.0, "target_tokens": 10.0, "flops": 2e9}
  return budget | other


def test_equal_budgets_are_proved_and_others_named(make_study):
  one = {0: {"cola": {"mcc": 1.0}}, 1: {"cola": {"mcc": 1.0}}}
  study = make_study(
    {"baseline": one, "same": one, "twice": one},
    budgets={
      "baseline": _budget(),
      "same": _budget(),
      "twice": _budget(flops=4e9),
    },
  )
  found = budgets.of_rows(study)
  assert found["baseline"].seconds == 60.0  # Of one seed.
  assert found["twice"].phases["finetune"].flops == 4e9
  assert budgets.sentences(study, found) == [
    "Equal in all rows: parameters (10), trained parameters (10), tokens "
    "(100), steps (4).",
    "Not equal: FLOPs, from 1.00 (baseline) to 2.00 (twice) of the baseline's "
    "2.00 G.",
  ]


@pytest.mark.slow
def test_the_files_of_a_study(run_tiny):
  folder = run_tiny().folder
  text = (folder / "table.md").read_text()
  assert text.startswith(
    "# tiny, suite two (version 1)\n\nDoes \\<pre-training> help?\n\n|"
  )
  cost = "| no_pretraining | 812 k      | 812 k              | 40,000 × 0.50 |"
  assert cost in text and "160 G × 0.50 | 20 × 0.33 |" in text
  assert "no_pretraining − the baseline = −3" in text
  assert "no_pretraining is worse, by more than chance explains." in text
  assert "## Scores of each task" in text
  with open(folder / "table.csv") as file:
    lines = list(csv.DictReader(file))
  line = next(one for one in lines if one["column"] == "Similarity")
  assert line["first_quartile"] == ""  # Of a mean.
  values = [float(line[f"seed_{seed}"]) for seed in (0, 1, 2)]
  assert float(line["mean"]) == pytest.approx(sum(values) / 3)
  assert (folder / "table.tex").read_text().startswith("% zoo ablate")
