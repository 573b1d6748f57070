"""Tests of execution, whose reports have no charts."""

import markupsafe
import pytest

from transformer_zoo.studies.report import charts


@pytest.fixture(autouse=True)
def no_charts(monkeypatch):
  """Leaves out the slowest part of a report, which no test here reads."""

  def draw(*arguments):
    return markupsafe.Markup()

  monkeypatch.setattr(charts, "learning_curves", draw)
  monkeypatch.setattr(charts, "seeds", draw)
