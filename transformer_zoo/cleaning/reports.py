"""What a cleaning read, dropped and wrote, by rule."""

from collections.abc import Sequence
import dataclasses
import json

import rich.console
import rich.table

from transformer_zoo.cleaning.rules import Counts
from transformer_zoo.cleaning.rules import DISCARDED
from transformer_zoo.cleaning.rules import LINES
from transformer_zoo.cleaning.rules import PAGES
from transformer_zoo.cleaning.rules import TOTALS
from transformer_zoo.cleaning.rules import UNMARKED


@dataclasses.dataclass(frozen=True)
class Report:
  """Counts of a cleaning.

  Attributes:
    pages_read: of the input.
    pages_written: to the output.
    pages_dropped: rule -> pages; together what is missing in the output.
    lines_read: of all pages read.
    lines_written: to the output.
    lines_dropped: rule -> lines; `with_page` are those left of dropped pages.
    citation_marks: lines that had some, which were removed.
    duplicate_spans: occurrences discarded because another page has them.
    duplicate_rounds: how often duplicates were looked for.
    bad_rows: passed over in the input.
  """

  pages_read: int
  pages_written: int
  pages_dropped: dict[str, int]
  lines_read: int
  lines_written: int
  lines_dropped: dict[str, int]
  citation_marks: int
  duplicate_spans: int
  duplicate_rounds: int
  bad_rows: int

  def as_json(self) -> str:
    """Returns the content of `report.json`."""
    return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

  def print(self, console: rich.console.Console | None = None) -> None:
    """Prints a table of the rules that dropped something."""
    table = rich.table.Table(box=None, header_style="")
    table.add_column("")
    table.add_column("pages", justify="right")
    table.add_column("lines", justify="right")
    if self.bad_rows:
      table.add_row("bad rows passed over", f"{self.bad_rows:,}", "")
    table.add_row("read", f"{self.pages_read:,}", f"{self.lines_read:,}")
    if self.citation_marks:
      table.add_row("with citation marks", "", f"{self.citation_marks:,}")
    for rule in sorted(self.pages_dropped | self.lines_dropped):
      pages = self.pages_dropped.get(rule, 0)
      lines = self.lines_dropped.get(rule, 0)
      if pages or lines:
        table.add_row(
          rule.replace("_", " "),
          f"-{pages:,}" if pages else "",
          f"-{lines:,}" if lines else "",
        )
    table.add_row(
      "written", f"{self.pages_written:,}", f"{self.lines_written:,}"
    )
    console = console or rich.console.Console(highlight=False)
    console.print(table)


def make_report(stages: Sequence[Counts], rounds: int) -> Report:
  """Adds up what stages counted.

  Args:
    stages: the counts of each, in order.
    rounds: how many of them looked for duplicates.
  """
  first, last = stages[0], stages[-1]
  added = sum(stages, Counts())
  lines_read = first[TOTALS, "lines_read"]
  lines_written = last[TOTALS, "lines_written"]
  lines = _of(LINES, added)
  lines["with_page"] = lines_read - lines_written - sum(lines.values())
  return Report(
    pages_read=first[TOTALS, "pages_read"],
    pages_written=last[TOTALS, "pages_written"],
    pages_dropped=_of(PAGES, added),
    lines_read=lines_read,
    lines_written=lines_written,
    lines_dropped=lines,
    citation_marks=added[UNMARKED],
    duplicate_spans=added[DISCARDED],
    duplicate_rounds=rounds,
    bad_rows=added[TOTALS, "bad_rows"],
  )


def _of(namespace: str, counts: Counts) -> dict[str, int]:
  return {
    rule: number
    for (kind, rule), number in sorted(counts.items())
    if kind == namespace and number
  }
