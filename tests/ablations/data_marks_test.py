"""What tells the data of a run apart from other data of its name."""

import types

import pytest

from transformer_zoo.ablations import data_marks
from transformer_zoo.data import manifest
from transformer_zoo.experiment import inputs


def mixture(**changes):
  """A prepared mixture of one task, as far as its identity goes."""
  told = {
    "checksum": "c" * 64,
    "definition": "d",
    "vocabulary": "v",
    "rates": (1.0,),
    "folder": "runs/prepared/a",
  } | changes
  task = types.SimpleNamespace(
    name="a",
    folder=told["folder"],
    definition=told["definition"],
    vocabulary=types.SimpleNamespace(checksum=told["vocabulary"]),
    splits={"train": types.SimpleNamespace(checksum=told["checksum"])},
  )
  return manifest.PreparedMixture("m", (task,), told["rates"])


@pytest.fixture
def mark(monkeypatch):
  def of(**changes):
    prepared = mixture(**changes)
    monkeypatch.setattr(inputs, "prepared", lambda *_: prepared)
    monkeypatch.setattr(manifest, "load", lambda *_: prepared)
    made = data_marks.made("m", "prepared")
    assert data_marks.found("m", "prepared") == made
    return made

  return of


@pytest.mark.parametrize(
  "change",
  [
    {"checksum": "e" * 64},
    {"definition": "another"},
    {"vocabulary": "another"},
    {"rates": (0.5,)},
  ],
)
def test_other_data_has_another_mark(mark, change):
  assert mark(**change) != mark()


def test_where_data_lies_is_no_difference(mark):
  assert mark(folder="elsewhere/a") == mark()


def test_data_that_is_not_prepared_is_unknown(tmp_path):
  assert data_marks.found("a", str(tmp_path)) == data_marks.UNKNOWN
