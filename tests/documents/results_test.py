"""The pages of docs/results are those that their JSON files give."""

import pathlib

from transformer_zoo.studies.report import figures
from transformer_zoo.studies.report import page_files
from transformer_zoo.studies.report import site

RESULTS = pathlib.Path(__file__).parents[2] / "docs" / "results"
_UPDATE = "update with: zoo report --publish docs/results"


def test_pages_and_index_are_what_their_json_gives():
  """An edit by hand, a page of no study, a conclusion that came later."""
  written = {
    path.name: path.read_text(encoding="utf-8") for path in RESULTS.glob("*.md")
  }
  assert written.pop(site.ARCHIVE_FILE)
  pages = page_files.read_all(RESULTS)
  assert written == site.texts(pages, archived=True), _UPDATE
  assert len(pages) > 14


def test_a_figure_is_drawn_from_its_numbers():
  """Numbers that have changed, or a figure of none any more."""
  drawn = {path: figures.drawn_from(path) for path in RESULTS.rglob("*.svg")}
  pages = page_files.read_all(RESULTS)
  expected = {}
  for page in pages:
    for section in page.sections:
      expected[RESULTS / site.figure(page, section)] = section.table
      if section.curves:
        expected[RESULTS / site.curves_figure(page, section)] = section.curves
  expected[RESULTS / site.BUDGETS_FIGURE] = site.over_budgets(pages)
  digests = {path: figures.digest(what) for path, what in expected.items()}
  assert drawn == digests, _UPDATE


def test_a_reversed_conclusion_has_its_sentences():
  for page in page_files.read_all(RESULTS):
    for section in page.sections:
      for one in section.verdicts:
        if one["verdict"] == "reversed":
          assert page.notes[one["claim"]].count(". ") == 1
