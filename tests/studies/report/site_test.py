"""Published pages of studies, and their index."""

import dataclasses
import json

import pytest

from transformer_zoo.cli import main as cli
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.report import page_files
from transformer_zoo.studies.report import site
from transformer_zoo.studies.statistics import analysis

_CLAIM = "A rate of 15 % before 50 %"


@pytest.fixture
def tiny(make_study):
  """Makes a study of two rates and three seeds, on a suite and version."""

  def make(suite="two", version=1, flops=1e9, better="rate_15", **changes):
    counts = ("parameters", "trained_parameters", "steps", "input_tokens")
    budget = dict.fromkeys((*counts, "target_tokens"), 1) | {"flops": flops}
    rows = {"rate_15": "15%", "rate_50": "50%"}
    study = make_study(
      {
        row: {
          seed: {"cola": {"mcc": 50 + seed / 10 + 20 * (row == better)}}
          for seed in range(3)
        }
        for row in rows
      },
      columns=(Column(name="mini_GLUE", scores=("cola",), published="GLUE"),),
      published="t5/table06_corruption_rates",
      labels=rows,
      budgets=dict.fromkeys(rows, budget),
    )
    changes |= {"suite": suite, "suite_version": version}
    return analysis.analyse(dataclasses.replace(study, **changes))

  return make


def _hand(folder, **fields):
  """Writes by hand into the JSON of the tiny study."""
  path = folder / "tiny.json"
  content = json.loads(path.read_text())
  content["sections"][0]["text"] = ["By **hand**."]
  path.write_text(json.dumps(content | fields))


def test_a_page_has_table_verdict_cost_and_command(tiny, tmp_path):
  command = "zoo ablate tiny --data_dir=/home/me/data"
  made = tiny(command=command)
  assert site.publish(tmp_path, [made]) == tmp_path / "index.md"
  page = (tmp_path / "tiny.md").read_text()
  assert "# tiny\n\n**Question.** Why?\n\n## two (version 1)\n" in page
  assert "| ★\u00a015% | **70.10 ± 0.10** |" in page
  assert f"| {_CLAIM} " in page and "| holds " in page
  assert "6 runs: 6 finished; 6.00 G FLOPs of training; " in page
  assert page.endswith("\n    zoo ablate tiny --data_dir=DATA\n")
  assert "](images/tiny-two.svg)" in page
  assert (tmp_path / "images/tiny-two.svg").exists()


def test_losses_over_flops_are_kept_and_drawn(tiny, tmp_path):
  """Steps for FLOPs, one seed for the mean; curves lost with the runs."""
  made = tiny()
  for run in made.study.runs:
    run.folder.mkdir(parents=True)
    lines = [
      {"step": step, "train/loss": 8 / step + run.seed} for step in (1, 2)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run.folder / "metrics.jsonl").write_text(text)
  folder = tmp_path / "site"
  site.publish(folder, [made])
  (section,) = page_files.read(folder / "tiny.json").sections
  curve = [[1e9, 2e9], [9, 5]]
  assert section.curves == {"15%": curve, "50%": curve}
  assert (
    '"15%": [\n     [ 1000000000.0, 2000000000.0 ],'
    in (folder / "tiny.json").read_text()
  )
  assert "](images/tiny-two-curves.svg)" in (folder / "tiny.md").read_text()
  figure = (folder / "images/tiny-two-curves.svg").read_text()
  assert ">15%<" in figure and ">50%<" in figure and ">loss<" in figure
  # A colour for each row, of its line and in the legend.
  assert figure.count("stroke: #0072b2") == figure.count("stroke: #d55e00") == 2


def test_what_was_published_before_stays(tiny, tmp_path):
  site.publish(tmp_path, [tiny(name="other")])
  other = (tmp_path / "other.json").read_text()
  site.publish(tmp_path, [tiny()])
  _hand(tmp_path)
  site.publish(tmp_path, [tiny()])
  texts = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
  site.publish(tmp_path, [tiny()])
  assert texts == {path: path.read_bytes() for path in texts}
  assert (tmp_path / "other.json").read_text() == other
  assert "\n\nBy **hand**.\n\n" in (tmp_path / "tiny.md").read_text()
  index = (tmp_path / "index.md").read_text()
  assert "| [other](other.md) |" in index and "| [tiny](tiny.md) " in index


def test_the_index_counts_a_conclusion_once_at_its_largest_budget(
  tiny, tmp_path
):
  site.publish(tmp_path, [tiny()])
  _hand(tmp_path, notes={_CLAIM: "It turns. Nobody knows why."})
  site.publish(tmp_path, [tiny("another", flops=2e9, better="rate_50")])
  index = (tmp_path / "index.md").read_text()
  lines = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in index.splitlines()
    if line.startswith("| all ") or _CLAIM in line and line[0] == "|"
  ]
  all_suites, small, large = lines
  assert all_suites[:5] == ["all", "1", "0", "1", "0"]
  assert int(all_suites[5]) > 80
  assert small[2:6] == ["two (version 1)", "1.00 G", "3", "holds"]
  assert large[2:6] == ["another (version 1)", "2.00 G", "3", "reversed"]
  assert f"another (version 1): {_CLAIM}: −20.00" in index
  figure = (tmp_path / site.BUDGETS_FIGURE).read_text()
  # A panel with the mean of all and the bar of each; nothing below a mean.
  assert _CLAIM in figure and figure.count(">FLOPs of a row<") == 1
  assert index.index("over_budgets.svg") < index.index("| study")
  assert "It turns. Nobody knows why." in index
  assert "It turns." in (tmp_path / "tiny.md").read_text()


def test_an_older_version_moves_to_the_archive(tiny, tmp_path):
  site.publish(tmp_path, [tiny()])
  _hand(tmp_path)
  site.publish(tmp_path, [tiny(version=2)])
  assert "version 1" not in (tmp_path / "tiny.md").read_text()
  archive = (tmp_path / "archive.md").read_text()
  assert "\n## tiny, two (version 1)\n" in archive and "**hand**" in archive
  assert "\narchive\n" in (tmp_path / "index.md").read_text()
  with pytest.raises(UserError, match="of version 1 .* has version 2; run"):
    site.publish(tmp_path, [tiny()])


def test_a_damaged_file_is_named(tmp_path, capsys):
  (tmp_path / "tiny.json").write_text('{"study": "tiny"}')
  assert cli.main(["report", "--publish", str(tmp_path)]) == 2
  assert "tiny.json is not as zoo report --publish" in capsys.readouterr().err
  assert cli.main(["report"]) == 2
  assert "needs the folder of a study, or" in capsys.readouterr().err
