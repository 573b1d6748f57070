"""The report of a cleaning."""

import io
import json

import rich.console

from transformer_zoo.cleaning import reports
from transformer_zoo.cleaning.rules import Counts
from transformer_zoo.cleaning.rules import DISCARDED
from transformer_zoo.cleaning.rules import LINES
from transformer_zoo.cleaning.rules import PAGES
from transformer_zoo.cleaning.rules import TOTALS
from transformer_zoo.cleaning.rules import UNMARKED

STAGES = [
  Counts(
    {
      (TOTALS, "pages_read"): 1200,
      (TOTALS, "lines_read"): 9000,
      (TOTALS, "pages_written"): 1100,
      (TOTALS, "lines_written"): 5000,
      (TOTALS, "bad_rows"): 3,
      (PAGES, "few_sentences"): 100,
      (LINES, "policy"): 4000,
      UNMARKED: 7,
    }
  ),
  Counts(
    {
      (TOTALS, "pages_read"): 1100,
      (TOTALS, "lines_read"): 5000,
      (TOTALS, "pages_written"): 1000,
      (TOTALS, "lines_written"): 4400,
      (PAGES, "few_sentences"): 100,
      (PAGES, "language"): 0,
      DISCARDED: 11,
    }
  ),
]


def test_stages_are_added_up():
  report = reports.make_report(STAGES, rounds=1)
  assert json.loads(report.as_json()) == {
    "pages_read": 1200,
    "pages_written": 1000,
    "pages_dropped": {"few_sentences": 200},
    "lines_read": 9000,
    "lines_written": 4400,
    "lines_dropped": {"policy": 4000, "with_page": 600},
    "citation_marks": 7,
    "duplicate_spans": 11,
    "duplicate_rounds": 1,
    "bad_rows": 3,
  }


def test_the_table():
  text = io.StringIO()
  reports.make_report(STAGES, rounds=1).print(rich.console.Console(file=text))
  rows = [line.split() for line in text.getvalue().splitlines()]
  assert rows == [
    ["pages", "lines"],
    ["bad", "rows", "passed", "over", "3"],
    ["read", "1,200", "9,000"],
    ["with", "citation", "marks", "7"],
    ["few", "sentences", "-200"],
    ["policy", "-4,000"],
    ["with", "page", "-600"],
    ["written", "1,000", "4,400"],
  ]
