"""The figures of the results are those of their tables."""

from tests.documents import figures


def test_a_figure_is_drawn_from_its_table():
  """A table that was copied anew, or a figure of no table any more."""
  tables = dict(figures.found())
  drawn = (figures.DOCS / "images/results").glob("*.svg")
  assert {path: figures.drawn_from(path) for path in drawn} == {
    path: table.digest for path, table in tables.items()
  }, "update with: python -m tests.documents.figures"
  assert len(tables) > 15
