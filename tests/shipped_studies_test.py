"""Agreement of each study's README with the study."""

import dataclasses
import functools
import pathlib
import re

import pytest

import transformer_zoo
from transformer_zoo.errors import UserError
from transformer_zoo.studies import published
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import study as studies

ROOT = pathlib.Path(transformer_zoo.__file__).parent.parent
STUDIES = ROOT / "gin_configs" / "studies"


load_study = functools.cache(loading.load_study)
load_suite = functools.cache(loading.load_suite)


def readme(name):
  return (STUDIES / name / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def once():
  """A configuration that several studies run is loaded for one of them."""
  load = plan._Planner._configuration_uncached
  known = {}

  def loaded(self, *asked):
    if asked not in known:
      known[asked] = load(self, *asked)
    return known[asked]

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(plan._Planner, "_configuration_uncached", loaded)
    yield


# Of each kind of step, and of those that are named first; the others are slow.
FEW = (
  *("quickstart", "table4", "table10_methods", "bert_table5", "editing"),
  *("t0_prompts", "gpt_zero_shot", "translation_lengths"),
)


@pytest.mark.parametrize(
  "name",
  [
    pytest.param(name, marks=() if name in FEW else pytest.mark.slow)
    for name in loading.study_names()
  ],
)
def test_question_command_and_cost(name, once, tmp_path):
  study, text = load_study(name), readme(name)
  assert study.question in " ".join(text.split())
  assert f"    zoo ablate {name} --suite miniature\n" in text
  runs = plan.plan(
    dataclasses.replace(study, seeds=(0,)),
    load_suite("miniature"),
    output_dir=tmp_path,
    prepare=False,
  )
  said = re.search(r"^\| `miniature` \| (\d+) ", text, re.M)
  assert int(said[1]) == len(list(plan.distinct(runs)))
  assert {run.row for run in runs} == {row.name for row in study.rows}


def studies_on_suites():
  """All on each suite; one where a suite is another with other budgets.

  Those on the miniature one are planned above.
  """
  for suite in sorted(set(loading.suite_names()) - {"miniature"}):
    text = (STUDIES.parent / "suites" / f"{suite}.gin").read_text()
    rebound = re.search(r"^include 'suites/\w+\.gin'", text, re.MULTILINE)
    for name in ["table4"] if rebound else loading.study_names():
      yield name, suite


@pytest.mark.slow
@pytest.mark.parametrize(("name", "suite"), list(studies_on_suites()))
def test_every_run_is_a_configuration(name, suite, once, tmp_path):
  study, on = load_study(name), load_suite(suite)
  study = studies.with_seeds(study, study.seeds[:1])
  try:
    runs = plan.plan(study, on, output_dir=tmp_path, prepare=False)
  except UserError as error:
    told = (study.missing, *on.missing.values())
    assert str(error).endswith(tuple(filter(None, told)))
    return
  assert {run.row for run in runs} == {row.name for row in study.rows}


@pytest.mark.parametrize("name", loading.study_names())
def test_every_published_row_stands_in_the_readme(name):
  study = load_study(name)
  if not study.published:
    return
  table = published.load(study.published)
  cells = {}
  before, _, _ = readme(name).partition("**Ours**")
  for line in re.findall(r"^\|.*\|$", before, re.M):
    label, *values = (cell.strip() for cell in line[1:-1].split("|"))
    cells[label] = [value.strip("*") for value in values]
  head = cells[""]
  for row in filter(None, (row.published for row in study.rows)):
    printed = dict(zip(head, cells[row], strict=True))
    scores = {c: float(v) for c, v in printed.items() if v}
    assert scores == {
      column: table.row(row)[column] for column in head if column in scores
    }
    assert scores


@pytest.mark.parametrize("name", loading.study_names())
def test_the_readme_leads_to_the_results(name):
  """To the page of a study that has one, and to what the archive has of it."""
  folder = ROOT / "docs/results"
  _, _, ours = readme(name).partition("**Ours**")
  links = re.findall(r"docs/results/([\w.]+)", ours)
  archive = (folder / "archive.md").read_text(encoding="utf-8")
  expected = [f"{name}.md"] if (folder / f"{name}.md").exists() else []
  expected += ["archive.md"] if f"\n## {name}, " in archive else []
  assert links == expected
  assert expected or "has not been run" in ours or "docs/log" in ours
