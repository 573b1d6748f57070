"""What a folder of results keeps of each study: `<study>.json`.

It is all that a page of the site shows, so that pages are written again where
the runs are gone.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import json
import pathlib
import re
from typing import Any

from transformer_zoo.errors import UserError
from transformer_zoo.studies.execution import json_files
from transformer_zoo.studies.report import index
from transformer_zoo.studies.report import tables


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
  """A study on one suite, as its page shows it.

  Attributes:
    suite: The name of the suite.
    version: The version of the suite.
    seeds: The number of seeds.
    row_flops: The training FLOPs of the baseline with one seed; None if they
      were not counted.
    core_hours: The computing time of all runs for each core; None if unknown.
    head: The titles of the table's columns.
    lines: The label and the cells of each row, a cell the fields of
      `tables.Cell` that are not empty.
    legend: The sentences that explain the table.
    text: Lines of Markdown, by hand.
    sentences: What the numbers say, in words.
    verdicts: The conclusions of the publication: `claim`, `verdict`,
      `comparison` and the `measured` difference.
    cost: What the runs cost, in words.
    command: The command that makes the runs.
    curves: The loss of pre-training: FLOPs [points] and mean over seeds
      [points] by the row's label.
  """

  suite: str
  version: int
  seeds: int
  row_flops: float | None
  core_hours: float | None
  head: Sequence[str]
  lines: Sequence[Sequence[Any]]
  legend: str
  text: Sequence[str] = ()
  sentences: Sequence[str]
  verdicts: Sequence[Mapping[str, str]]
  cost: str
  command: str
  curves: Mapping[str, Sequence[Sequence[float]]] = dataclasses.field(
    default_factory=dict
  )

  @property
  def title(self) -> str:
    """The name and the version of the suite."""
    return f"{self.suite} (version {self.version})"

  @property
  def budget(self) -> float:
    """The FLOPs of a row, 0 if they were not counted."""
    return self.row_flops or 0.0

  @property
  def table(self) -> tables.Table:
    """The scores of all rows."""
    lines = [
      [label, *(tables.Cell(**cell) for cell in line)]
      for label, *line in self.lines
    ]
    return tables.Table(head=self.head, lines=lines)

  def count(self, verdict: str) -> int:
    """Returns the number of conclusions with a verdict."""
    return sum(one["verdict"] == verdict for one in self.verdicts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Page:
  """A study on all suites that it has results of.

  Attributes:
    study: The name of the study.
    question: The question that it asks.
    published: The key of the published table, or "".
    notes: Sentences on reversed conclusions by their claims, by hand.
    sections: The suites in the order of their names.
  """

  study: str
  question: str
  published: str
  notes: Mapping[str, str]
  sections: Sequence[Section]


def read_all(folder: pathlib.Path) -> list[Page]:
  """Reads the studies of a folder of results, in the order of their names.

  Raises:
    UserError: A file is damaged.
  """
  paths = sorted(folder.glob("*.json"), key=lambda p: index.in_order(p.stem))
  return [read(path) for path in paths]


def read(path: pathlib.Path) -> Page:
  """Reads a study.

  Raises:
    UserError: The file is damaged.
  """
  content = json_files.read(path)
  try:
    sections = [Section(**section) for section in content.pop("sections")]
    return Page(**content, sections=sections)
  except (KeyError, TypeError, AttributeError) as error:
    raise UserError(
      f"{path} is not as zoo report --publish writes it "
      f"({type(error).__name__}: {error}); remove it and publish it anew"
    ) from error


def write(path: pathlib.Path, page: Page) -> None:
  """Writes a study, so that a change of it is a change of few lines."""
  content = json.dumps(dataclasses.asdict(page), indent=1, ensure_ascii=False)
  # A cell, a verdict or a curve's numbers are a line; strings have no line
  # breaks of their own.
  content = re.sub(
    r"\{[^{}\[\]]*\}|\[[^\[\]{}\"]*\]",
    lambda found: re.sub(r"\n\s*", " ", found[0]),
    content,
  )
  path.write_text(content + "\n", encoding="utf-8")
