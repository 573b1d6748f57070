"""Tests of execution, whose reports have no charts."""

import gin
import markupsafe
import pytest

from tests import few_examples
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.report import charts


@pytest.fixture(autouse=True)
def no_charts(monkeypatch):
  """Leaves out the slowest part of a report, which no test here reads."""

  def draw(*arguments):
    return markupsafe.Markup()

  monkeypatch.setattr(charts, "learning_curves", draw)
  monkeypatch.setattr(charts, "seeds", draw)


@pytest.fixture
def few_steps(tmp_path, monkeypatch):
  """The current folder, with a miniature suite of few steps, `few.gin`."""
  pytest.importorskip("seqio")
  monkeypatch.chdir(tmp_path)
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  values = dict(loading.load_suite("miniature").values)
  values |= {"encoder_steps": 10, "pretrain_steps": 10, "head_steps": 2}
  values["pretrain_batch"] = 8
  (tmp_path / "few.gin").write_text(
    f"include 'suites/miniature.gin'\nSuite.values = {values!r}\n"
  )
  with few_examples.only_few():
    yield tmp_path
  gin.clear_config()
