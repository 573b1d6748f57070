"""Studies in Python: their tables as data frames, their figure, their page."""

from collections.abc import Sequence
import functools
import html
import os
import pathlib
from typing import Any, TYPE_CHECKING

from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

if TYPE_CHECKING:
  import pandas as pd

  from transformer_zoo.studies.statistics.analysis import Analysis


class FinishedStudy:
  """A study whose runs have finished, or as many as have."""

  def __init__(self, folder: str | os.PathLike[str]):
    """Names the study; nothing is read.

    Args:
      folder: The folder of the study, as runs/quickstart-miniature.
    """
    self.folder = pathlib.Path(folder)

  @property
  def report(self) -> pathlib.Path:
    """The path of the page."""
    return self.folder / "report.html"

  @functools.cached_property
  def analysis(self) -> "Analysis":
    """All numbers of the page."""
    from transformer_zoo.studies.execution import results
    from transformer_zoo.studies.statistics import analysis

    return analysis.analyse(results.read(self.folder))

  def table(self) -> "pd.DataFrame":
    """Returns the mean over seeds of each row and column, as on the page."""
    import pandas as pd

    table = self.analysis.table
    columns = {
      column: {
        table.labels[row]: cell.mean
        for row, cell in table.of_column(column).items()
      }
      for column in table.columns
    }
    frame = pd.DataFrame(columns, index=[table.labels[r] for r in table.rows])
    frame.index.name = "row"
    return frame

  def differences(self) -> "pd.DataFrame":
    """Returns each row's differences from the baseline.

    Returns:
      A line for each row and column: `difference`, `low` and `high` of its 95 %
      interval, `p_value` and `corrected_p_value` (Holm), `concluded`, the
      number of `seeds`, and the conclusion as a `sentence`.
    """
    import pandas as pd

    labels = self.analysis.table.labels
    lines = []
    for each in self.analysis.comparison.differences.values():
      found = each.estimate
      low, high = found and found.low, found and found.high
      lines.append(
        {
          "row": labels[each.row],
          "column": each.column,
          "difference": found and found.difference,
          "low": low,
          "high": high,
          "p_value": found and found.p_value,
          "corrected_p_value": each.corrected_p_value,
          "concluded": each.concluded,
          "seeds": len(each.seeds),
          "sentence": each.sentence,
        }
      )
    return pd.DataFrame(lines)

  def figure(self, column: str | None = None) -> "Figure":
    """Returns the chart of a column: each seed of each row, and their mean.

    Args:
      column: The name of the column; None for the first one.

    Raises:
      UserError: The study has no such column.
    """
    from transformer_zoo.studies.report import charts

    table = self.analysis.table
    column = table.columns[0] if column is None else column
    if column not in table.columns:
      raise UserError(
        f"the study has no column {column!r}{nearest(column, table.columns)}; "
        f"it has {', '.join(table.columns)}"
      )
    return Figure(charts.alone(charts.seeds(table, column)))

  def __repr__(self) -> str:
    return f"{self.table().round(2)}\n{self.report}"

  def _repr_html_(self) -> str:
    table = self.table().round(2).to_html(na_rep="")
    name = html.escape(str(self.report))
    return f"{table}{self.figure().svg}<p>{name}</p>"


class Figure:
  """A chart."""

  def __init__(self, svg: str):
    """Wraps an SVG element.

    Args:
      svg: The text of a whole SVG file.
    """
    self.svg = svg

  def save(self, path: str | os.PathLike[str]) -> None:
    """Writes an .svg file."""
    pathlib.Path(path).write_text(self.svg, encoding="utf-8")

  def _repr_svg_(self) -> str:
    return self.svg


def study(
  name: str,
  *,
  suite: str = "miniature",
  seeds: int | Sequence[int] | None = None,
  output_dir: str | os.PathLike[str] = "runs",
  **options: Any,
) -> FinishedStudy:
  """Runs a study as `zoo ablate` does; finished runs are not trained again.

  Args:
    name: The name of the study, or the path of its gin file.
    suite: The name of the suite that it runs on, or the path of its gin file.
    seeds: The number of seeds, or the seeds; None for the study's.
    output_dir: The folder of studies and of the pool of runs.
    **options: Further attributes of `studies.design.request.Request`.

  Raises:
    UserError: The study cannot be run as it is written, or a run failed.
  """
  from transformer_zoo import config
  from transformer_zoo.studies import runner

  if isinstance(seeds, int):
    seeds = range(seeds)
  with config.kept():
    outcome = runner.run_study(
      name, suite=suite, seeds=seeds, output_dir=output_dir, **options
    )
  if outcome.failures:
    raise UserError(
      f"{len(outcome.failures)} runs failed; the same call goes on with them: "
      + "; ".join(outcome.failures)
    )
  return FinishedStudy(outcome.folder)
