"""Everything that statistics say, with all digits, as CSV."""

from collections.abc import Iterable, Mapping
import csv
import io

from transformer_zoo.studies.statistics.comparison import Comparison
from transformer_zoo.studies.statistics.published_order import Agreement

_ESTIMATE = (
  *("difference", "low", "high", "seeds_error", "examples_error"),
  *("degrees", "p_value"),
)
_RANKING = (
  *("tau", "low", "high", "p_value", "smallest_p_value", "num_rows"),
  *("num_pairs", "num_same", "num_clear", "num_clear_same"),
)


def differences_csv(comparison: Comparison) -> str:
  """Returns a line for each row and column."""
  head = ["row", "column", "seeds", *_ESTIMATE, "corrected_p_value"]
  head += ["bootstrap_low", "bootstrap_high", "sentence"]
  lines = []
  for one in comparison.differences.values():
    estimate = [getattr(one.estimate, name, None) for name in _ESTIMATE]
    line = [one.row, one.column, len(one.seeds), *estimate]
    line += [one.corrected_p_value, *(one.bootstrap_interval or (None, None))]
    lines.append([*line, one.sentence])
  return _csv(head, lines)


def agreements_csv(agreements: Mapping[str, Agreement]) -> str:
  """Returns a line for each column that has a published one."""
  lines = [
    [
      column,
      *(getattr(one.ranking, name) for name in _RANKING),
      " ".join(one.rows),
      one.sentence,
    ]
    for column, one in agreements.items()
  ]
  return _csv(["column", *_RANKING, "rows", "sentence"], lines)


def _csv(head: list[str], lines: Iterable[list]) -> str:
  text = io.StringIO()
  csv.writer(text, lineterminator="\n").writerows([head, *lines])
  return text.getvalue()
