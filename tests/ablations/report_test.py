"""The page of a study: complete, self-contained, well formed."""

import html.parser
import re
import xml.etree.ElementTree

from transformer_zoo.ablations import plots
from transformer_zoo.ablations import results

_VOID = {"meta", "link", "br", "img", "input", "hr"}


class _Balance(html.parser.HTMLParser):
  """Checks that every element is closed in its turn."""

  def __init__(self):
    super().__init__()
    self.open = []

  def handle_starttag(self, tag, attributes):
    if tag not in _VOID:
      self.open.append(tag)

  def handle_endtag(self, tag):
    assert self.open.pop() == tag


def test_the_page_stands_alone_and_is_well_formed(run_tiny):
  page = (run_tiny().folder / "report.html").read_text()
  balance = _Balance()
  balance.feed(page)
  assert balance.open == []
  links = re.findall(r'(?:src|href)="([^"]*)"', page)
  assert not [one for one in links if re.match(r"\w+:|//", one)]
  assert "<script" not in page
  assert "@import" not in page


def test_the_page_has_every_part(run_tiny):
  outcome = run_tiny()
  page = (outcome.folder / "report.html").read_text()
  titles = re.findall(r"<h2>(.*?)</h2>", page)
  assert titles == [
    "Scores",
    "Learning curves",
    "Predictions",
    "Configuration",
    "Runs",
    "Commands",
    "Environment",
  ]
  assert "Does &lt;pre-training&gt; help?" in page
  assert "baseline − no_pretraining = +" in page
  assert "highest average validation score" in page
  assert 'href="half_as_long/seed_0/finetune/"' in page
  assert (outcome.folder / "half_as_long/seed_0/finetune").is_dir()
  assert "finished (shared)" in page
  assert "sentiment: &lt;b&gt; &amp; c" in page
  assert "jax 0.10" in page and "seqio" not in page
  assert "f" * 40 + " with local changes" in page
  assert "tiny.gin --output_dir=" in page


def test_configurations_mark_what_differs_from_the_baseline(run_tiny):
  page = (run_tiny().folder / "report.html").read_text()
  assert "<ins>+ TRAIN_STEPS = 10</ins>" in page
  assert "<del>- TRAIN_STEPS = 20</del>" in page
  assert "half_as_long: finetune — lines that differ: 2" in page
  assert "half_as_long: pretrain — lines that differ: 0" in page
  assert "no_pretraining: finetune — lines that differ: 1" in page
  assert "<del>- INITIAL_CHECKPOINT_PATH = " in page
  assert "MODEL_DIR" not in "".join(re.findall(r"<(?:ins|del)>.*?</", page))


def test_curves_are_read_by_metric_row_and_seed(run_tiny):
  study = results.read(run_tiny().folder)
  curves = plots.curves(study, "finetune")
  assert list(curves)[:2] == ["train/loss", "validation/loss"]
  assert "train/learning_rate" not in curves
  by_seed = curves["validation/sentiment/accuracy"]["baseline"]
  assert sorted(by_seed) == [0, 1, 2]
  assert sorted(by_seed[0]) == [5, 10, 15, 20]


def test_a_shared_run_is_drawn_once(run_tiny):
  study = results.read(run_tiny(seeds=[0]).folder)
  assert list(plots.curves(study, "pretrain")["train/loss"]) == ["baseline"]


def test_plots_are_svg_that_follows_the_page(run_tiny):
  study = results.read(run_tiny().folder)
  svg = plots.learning_curves(study, "finetune")
  xml.etree.ElementTree.fromstring(svg)
  assert "var(--series-0)" in svg and "currentColor" in svg
  assert "#0a0" not in svg
  assert not re.search(r' (width|height)="', svg.split(">")[0])
  assert svg == plots.learning_curves(study, "finetune")
  assert plots.learning_curves(study, "no such phase") is None


def test_a_study_without_a_finished_run_still_has_a_page(run_tiny, fake):
  fake.broken = lambda folder: True
  page = (run_tiny(seeds=[0]).folder / "report.html").read_text()
  assert "No run is finished yet." in page
  assert "FloatingPointError" in page
