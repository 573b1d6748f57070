"""Several studies in one folder: `zoo report` of the folder above them."""

import contextlib
import io
import json
import pathlib
import re
import shutil

import pytest

from tests.studies import conftest
from transformer_zoo.cli import main as cli


@pytest.fixture(scope="module")
def made(tmp_path_factory):
  """The folder of two studies that share a baseline, one run failed."""
  folder = tmp_path_factory.mktemp("studies")
  published = (
    "Study.question",
    "Study.published = 't5/table06_corruption_rates'\n"
    "baseline/Row.published = '15%'\n"
    "no_pretraining/Row.published = '50%'\n"
    "half_as_long/Row.published = '25%'\n"
    "Study.question",
  )
  (folder / "other10.gin").write_text(conftest.OTHER_STUDY)
  command = ["ablate", str(folder / "other10.gin"), "--seeds=2"]
  command += [f"--suite={folder / 'two.gin'}"]
  with pytest.MonkeyPatch.context() as patch:
    fake = conftest.faked(patch)
    fake.broken = lambda what: what == "similarity, seed 1, 30 steps"
    conftest.run_in(folder, published)
    assert cli.main([*command, f"--output_dir={folder / 'runs'}"]) == 2
  return folder / "runs"


@pytest.fixture
def studies(made, tmp_path):
  """A copy of the folder, for a test to change."""
  return pathlib.Path(shutil.copytree(made, tmp_path / "runs"))


@pytest.fixture(scope="module")
def reported(made, tmp_path_factory):
  """A copy of the folder after `zoo report`, and what it printed."""
  folder = tmp_path_factory.mktemp("reported") / "runs"
  shutil.copytree(made, folder)
  with contextlib.redirect_stdout(io.StringIO()) as printed:
    assert cli.main(["report", str(folder)]) == 0
  return folder, printed.getvalue()


@pytest.mark.slow
def test_a_folder_of_studies_has_a_line_for_each(reported):
  studies, printed = reported
  text = (studies / "index.md").read_text()
  assert printed.startswith(text)
  lines = [line.split(" | ") for line in text.splitlines() if "](#" in line]
  assert [line[0] for line in lines] == [
    "| [other10, two (version 1)](#other10-two-version-1)",
    "| [tiny, two (version 1)](#tiny-two-version-1)      ",
  ]
  other, tiny = ([cell.strip() for cell in line] for line in lines)
  assert other[2:6] == ["—"] * 4 and other[6] == "9 of 10 runs, 1 failed"
  assert tiny[2:4] == ["1 of 1", "0 of 1"]
  assert tiny[4] == "2 of 2"
  assert tiny[6:9] == ["finished", "3", "3"]
  # 21 and 10, less the 3 of two seeds of the baseline, and the one that failed.
  assert "2 studies; 24 finished runs, those that studies share once;" in text
  places = re.findall(r"^## (.*)$", text, re.MULTILINE)
  assert places == ["other10, two (version 1)", "tiny, two (version 1)"]


@pytest.mark.slow
def test_each_is_told_in_brief(reported):
  studies, _ = reported
  _, brief = (studies / "index.md").read_text().split("## tiny, two")
  assert "Mean ± standard deviation over 3 seeds" in brief
  assert "[83.28]" not in brief and "[−2.01]" in brief  # Of other tasks.
  assert "Largest difference from the baseline: Sentiment " in brief
  assert "As published, by more than chance explains (1): 50%: " in brief
  commit = "commit ffffffffff with local changes"
  assert f"of computing; {commit}, 2 CPU cores" in brief
  assert re.search(r"^    zoo ablate .*tiny.gin", brief, re.MULTILINE)


@pytest.mark.slow
def test_pages_of_studies_and_their_index_lead_to_one_another(reported):
  studies, _ = reported
  page = (studies / "index.html").read_text()
  assert "Does &lt;more&gt; fine-tuning help?" in page
  failure = "longer / seed 1 / similarity / finetune: FloatingPointError: loss"
  assert failure in page
  assert f"- {failure}" in (studies / "index.md").read_text()
  paths = re.findall(r'href="([^#"]+)"', page)
  assert set(paths) == {"other10-two/report.html", "tiny-two/report.html"}
  for path in paths:
    assert '<a href="../index.html">' in (studies / path).read_text()


@pytest.mark.slow
def test_json_names_the_group_of_every_cell(studies, capsys):
  capsys.readouterr()
  assert cli.main(["report", str(studies), "--json"]) == 0
  other, tiny = json.loads(capsys.readouterr().out)
  cells = {
    (one["row"], one["group"], one.get("column") or one["metric"]): one
    for one in tiny["cells"]
  }
  column = cells["baseline", "sentiment", "Sentiment"]
  assert column["mean"] == cells["baseline", "sentiment", "accuracy"]["mean"]
  assert len(column["values"]) == 3 and column["published"] == 83.28
  assert cells["baseline", "similarity", "spearman_corrcoef"]["deviation"] > 0
  (found,) = tiny["findings"]
  assert (found["row"], found["verdict"]) == ("no_pretraining", "as published")
  assert [one["verdict"] for one in tiny["conclusions"]] == ["holds"] * 2
  assert tiny["conclusions"][1]["conclusion"]["than"] == ["50%"]
  powers = {one["column"]: one for one in tiny["powers"]}
  assert powers["Sentiment"]["smallest"] > powers["Sentiment"]["deviation"] > 0
  differences = {(d["row"], d["group"]): d for d in tiny["differences"]}
  assert differences["no_pretraining", "sentiment"]["concluded"]
  failed = [run for run in other["runs"] if run["state"] == "failed"]
  assert [(run["group"], run["seed"]) for run in failed] == [("similarity", 1)]
  assert not (studies / "index.html").exists()  # It writes nothing.


@pytest.mark.slow
def test_a_damaged_study_keeps_the_others_from_nothing(studies, capsys):
  damaged = studies / "tiny-two" / "study.json"
  damaged.write_text("{}")
  capsys.readouterr()
  assert cli.main(["report", str(studies)]) == 2
  printed = capsys.readouterr()
  assert "| [other10, two (version 1)](#other10-two-version-1) |" in printed.out
  assert (studies / "other10-two" / "report.html").exists()
  assert printed.err == (
    f"zoo: error: {damaged} is not as zoo ablate writes it (KeyError: "
    "'columns'); run the study again to write it anew\n"
  )


@pytest.mark.slow
def test_a_damaged_result_is_named(studies, capsys):
  result = next(studies.glob("runs/finetune-*/result.json"))
  result.write_text("{}")
  capsys.readouterr()
  assert cli.main(["report", str(studies)]) == 2
  assert f"{result} has no scores, so neither zoo" in capsys.readouterr().err


@pytest.mark.slow
def test_studies_of_several_folders_are_published(studies, tmp_path, capsys):
  given = [str(studies / name) for name in ("tiny-two", "other10-two")]
  folder = tmp_path / "results"
  assert cli.main(["report", *given, "--publish", str(folder)]) == 0
  assert capsys.readouterr().out.endswith(f"\n{folder / 'index.md'}\n")
  page = (folder / "tiny.md").read_text()
  # 21 runs of 61 seconds, of 2 cores each.
  assert "0.71 core hours; commit ffffffffff with local changes" in page
  assert "2 CPU cores (a fast one), jax 0.10; 20" in page
  assert "9 finished, 1 failed" in (folder / "other10.md").read_text()


def test_a_folder_without_studies(tmp_path, capsys):
  assert cli.main(["report", str(tmp_path)]) == 2
  assert capsys.readouterr().err == (
    f"zoo: error: {tmp_path} is neither the folder of a study, which has a "
    "study.json, nor that above the folders of studies, which is the "
    "--output_dir of `zoo ablate`\n"
  )


def test_versions_of_a_suite_are_not_compared(studies, capsys):
  described = studies / "tiny-two" / "study.json"
  study = json.loads(described.read_text())
  assert study.pop("suite_version") == 1  # As it was before suites had any.
  described.write_text(json.dumps(study))
  capsys.readouterr()
  assert cli.main(["report", str(studies), "--json"]) == 0
  _, tiny = json.loads(capsys.readouterr().out)
  assert tiny["suite_version"] == 1
  described.write_text(json.dumps(study | {"suite_version": 2}))
  assert cli.main(["report", str(studies)]) == 2
  assert capsys.readouterr().err == (
    f"zoo: error: {studies / 'other10-two'} is of version 1 of suite 'two' and "
    f"{studies / 'tiny-two'} of version 2, which are never compared; run the "
    "older one again, or keep it in another folder\n"
  )
  assert not (studies / "index.html").exists()


@pytest.mark.slow
def test_a_study_on_two_suites_is_a_ladder(studies, capsys):
  """A second suite of more FLOPs: the same study, with other numbers."""
  other = studies / "tiny-larger"
  shutil.copytree(studies / "tiny-two", other)
  described = json.loads((other / "study.json").read_text())
  described["suite"] = "larger"
  pool = studies / "larger_runs"
  shutil.copytree(studies / "runs", pool)
  for path in pool.glob("*/result.json"):
    result = json.loads(path.read_text())
    result["budget"]["flops"] *= 4
    path.write_text(json.dumps(result))
  text = json.dumps(described).replace("../runs/", "../larger_runs/")
  (other / "study.json").write_text(text)
  assert cli.main(["report", str(studies)]) == 0
  text = (studies / "index.md").read_text()
  _, _, section = text.partition("## Agreement over training FLOPs")
  first, second = re.findall(r"^\| tiny +\| (\w+) \(version 1\)", section, re.M)
  assert (first, second) == ("two", "larger")
  assert "![tiny](ladder-tiny.svg)" in section
  assert (studies / "ladder-tiny.svg").read_text().startswith("<svg ")
  assert "Agreement over training FLOPs" in (studies / "index.html").read_text()
