"""The generated tables of the reference are those that the code gives."""

import pytest

from tests.documents import macros
from tests.documents import tables
from tests.golden import update_parameter_trees

# Their models are built, and most of them traced.
SLOW = "adapter_widths", "layers", "methods", "sizes"
FOUND = tables.found()


def first_cells(name, number=1):
  _, rows = FOUND[name]
  return [tuple(row[:number]) for row in rows]


def test_every_table_stands_on_a_page():
  assert FOUND.keys() == tables.TABLES.keys()


@pytest.mark.parametrize(
  "name",
  [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
    for name in tables.TABLES
  ],
)
def test_a_table_is_true(name):
  page, _ = FOUND[name]
  text = page.read_text("utf-8")
  assert tables.written(text, [name]) == text, (
    "update with: python -m tests.documents.tables"
  )


def test_a_new_file_has_a_row():
  """Of the tables whose numbers a slow test compares."""
  architectures = update_parameter_trees.SIZES
  assert first_cells("layers") == [(name,) for name in architectures]
  assert first_cells("sizes", 2) == [
    (name, size) for name in architectures for size in tables.sizes_of(name)
  ]
  assert first_cells("methods") == [
    (path.stem,) for path in sorted((tables.GIN / "peft").glob("*.gin"))
  ]


def test_every_macro_means_something():
  """Finds a parameter without a docstring, and meanings that are left over."""
  names = macros.macros()
  assert [name for name in names if not macros.meaning(name)] == []
  assert macros.MEANINGS.keys() <= names.keys()
