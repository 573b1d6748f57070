"""Published results: figures of papers that a study's rows stand beside.

A folder is a paper: `paper.toml` says what its tables are, a CSV file holds the
cells of one. The column `row` has the labels, `bold` the columns that are bold
in print; those that `details` names in paper.toml are no scores. Cells are as
printed, misprints too, but where `notes` says otherwise. `deviations` is a file
and the row of it that has them, or gives them by column. `conclusions` are what
the text concludes of a table, as comparisons of rows. The averages that T5's
tables have in common go by the same names in every one of them: GLUE,
CNNDM (ROUGE-2), SQuAD (exact match), SGLUE, EnDe, EnFr, EnRo (BLEU).
"""

from collections.abc import Mapping
import csv
import dataclasses
import functools
import pathlib
import tomllib
from typing import Any

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

_FOLDER = pathlib.Path(__file__).parent
_PAPER_FILE = "paper.toml"
_PER_TASK = "table16_all_per_task_scores"
RELATIONS = (
  *("better", "worse", "slightly worse", "equal", "not worse"),
  "cheaper",
)


@dataclasses.dataclass(frozen=True)
class Conclusion:
  """A sentence that a paper concludes of a table, as a comparison of rows.

  Attributes:
    claim: The conclusion in words.
    section: The section of the paper that draws it.
    rows: The labels of rows, whose mean is compared.
    relation: What the rows are, one of `RELATIONS`.
    than: The labels of the rows that they are compared with.
    column: The name of the column; "" for the mean of columns, or for the cost.
  """

  claim: str
  section: str
  rows: tuple[str, ...]
  relation: str
  than: tuple[str, ...]
  column: str = ""


@dataclasses.dataclass(frozen=True)
class Published:
  """A table of a paper.

  Attributes:
    key: `<paper>/<file>`, as in "t5/table06_corruption_rates".
    title: The subject of the table.
    source: the paper.
    columns: the names of the scores, left to right.
    rows: label -> column -> score; a cell that is empty in print is left out.
    deviations: column -> standard deviation of the baseline over runs; empty
      where the paper gives none.
    baseline: the label of the baseline, "" where no row is one.
    details: label -> what the table says beside scores (parameters, cost).
    bold: label -> the columns that are bold in print.
    notes: sentences: misprints, and what the numbers are.
    conclusions: what the text concludes of the table.
  """

  key: str
  title: str
  source: str
  columns: tuple[str, ...]
  rows: Mapping[str, Mapping[str, float]]
  deviations: Mapping[str, float]
  baseline: str
  details: Mapping[str, Mapping[str, str]]
  bold: Mapping[str, frozenset[str]]
  notes: tuple[str, ...]
  conclusions: tuple[Conclusion, ...] = ()

  def row(self, label: str) -> Mapping[str, float]:
    """Returns the scores of a row.

    Raises:
      UserError: there is no such row.
    """
    if label not in self.rows:
      raise UserError(
        f"the published table {self.key!r} has no row {label!r}"
        + nearest(label, self.rows)
      )
    return self.rows[label]


def keys() -> tuple[str, ...]:
  """Returns the keys of all tables, sorted."""
  paths = (path.relative_to(_FOLDER) for path in _FOLDER.glob("*/*.csv"))
  return tuple(sorted(path.with_suffix("").as_posix() for path in paths))


def listed() -> list[dict[str, Any]]:
  """Returns what `zoo list published` prints: of each table its rows too."""
  return [
    {
      "name": key,
      "summary": f"{load(key).title} ({load(key).source.split(',')[0]})",
      "rows": list(load(key).rows),
      "columns": list(load(key).columns),
    }
    for key in keys()
  ]


@functools.cache
def load(key: str) -> Published:
  """Returns a table.

  Args:
    key: one of `keys()`.

  Raises:
    UserError: there is no such table.
  """
  if key not in keys():
    raise UserError(
      f"there is no published table {key!r}" + nearest(key, keys())
    )
  name, _, table = key.partition("/")
  paper = _paper(name)
  about = paper[table]
  lines = _lines(key)
  text = ("row", "bold", *about.get("details", ()))
  columns = tuple(column for column in lines[0] if column not in text)
  of_deviations = about.get("deviations", paper.get("deviations"))
  deviations = {}
  if isinstance(of_deviations, Mapping):
    deviations = dict(of_deviations)
  elif of_deviations:
    deviations = _deviations(name, *of_deviations, columns)
    lines = [line for line in lines if line["row"] != of_deviations[1]]
  return Published(
    key=key,
    title=about["title"],
    source=paper["source"],
    columns=columns,
    rows={line["row"]: _scores(line, columns) for line in lines},
    deviations=deviations,
    baseline=about.get("baseline", ""),
    details={
      line["row"]: {name: line[name] for name in about.get("details", ())}
      for line in lines
    },
    bold={
      line["row"]: frozenset(line.get("bold", "").split()) for line in lines
    },
    notes=(*about.get("notes", ()), *paper.get("notes", ())),
    conclusions=tuple(map(_conclusion, about.get("conclusions", ()))),
  )


def per_task(key: str) -> Published | None:
  """Returns the scores of every task for the rows of one of T5's tables.

  They are the lines of table 16 for that table, under that table's labels.

  Args:
    key: The key of the table.

  Returns:
    Its rows with the columns of table 16; None where that has none of them.
  """
  paper, _, name = key.partition("/table")
  number = name.partition("_")[0].lstrip("0")
  every = load(f"{paper}/{_PER_TASK}") if paper == "t5" else None
  prefix = f"{number}: "
  if every is None or not any(row.startswith(prefix) for row in every.rows):
    return None
  return dataclasses.replace(
    every,
    key=key,
    baseline=load(key).baseline,
    rows=_under(prefix, every.rows),
    details=_under(prefix, every.details),
    bold=_under(prefix, every.bold),
  )


def task_metrics() -> Mapping[str, str]:
  """Returns "task: metric", as of the t5 package, by column of `per_task`."""
  return _paper("t5")["metrics"]


def _conclusion(entry: Mapping[str, Any]) -> Conclusion:
  return Conclusion(
    claim=entry["claim"],
    section=entry["section"],
    rows=tuple(entry["rows"]),
    relation=entry["is"],
    than=tuple(entry["than"]),
    column=entry.get("column", ""),
  )


@functools.cache
def _paper(name: str) -> Mapping:
  text = (_FOLDER / name / _PAPER_FILE).read_text(encoding="utf-8")
  return tomllib.loads(text)


def _lines(key: str) -> list[dict[str, str]]:
  with open(_FOLDER / f"{key}.csv", encoding="utf-8", newline="") as file:
    return list(csv.DictReader(file))


def _scores(line, columns) -> dict[str, float]:
  return {name: float(line[name]) for name in columns if line[name]}


def _deviations(paper, table, label, columns) -> dict[str, float]:
  """The cells of a line of deviations, for the columns that it has."""
  lines = _lines(f"{paper}/{table}")
  found = next(line for line in lines if line["row"] == label)
  return {c: float(found[c]) for c in columns if found.get(c)}


def _under(prefix, by_label) -> dict:
  return {
    label.removeprefix(prefix): value
    for label, value in by_label.items()
    if label.startswith(prefix)
  }
