"""What a cleaning counts."""

import collections

PAGES, LINES = "pages", "lines"  # that a rule dropped
TOTALS = "totals"  # what no rule dropped
DISCARDED = (TOTALS, "duplicate_spans")
UNMARKED = (TOTALS, "citation_marks")  # lines that had some
# (PAGES, LINES or TOTALS; the rule or total) -> number
Counts = collections.Counter[tuple[str, str]]
