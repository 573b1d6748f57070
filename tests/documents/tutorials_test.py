"""Each tutorial runs: all its cells, in order, in a folder of its own.

A tenth of its steps, few examples, one seed: that the cells run is tested here,
and what the reader sees is computed by `make docs EXECUTE=cache`.
"""

import ast
import pathlib
import re
import sys

import gin
import pytest

from tests import few_examples

ROOT = pathlib.Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))


def cells(path):
  """The code of a tutorial's cells, with few steps."""
  text = re.sub(
    r"\b((?:TRAIN|WARMUP)_STEPS|(?:CHECKPOINT|EVAL)_PERIOD)=(\d+)",
    lambda found: f"{found[1]}={-(-int(found[2]) // 10)}",
    path.read_text(encoding="utf-8").replace("seeds=2)", "seeds=1)"),
  )
  return re.findall(r"^```\{code-cell\}.*?\n(.*?)^```$", text, re.M | re.S)


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path, monkeypatch):
  """Finds names that are gone, and modules beside a notebook not found."""
  pytest.importorskip("seqio")
  monkeypatch.chdir(tmp_path)
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  monkeypatch.setenv("PYTHONPATH", str(ROOT))
  monkeypatch.setattr(sys, "path", list(sys.path))
  for name in ("ZOO_DATA_DIR", "ZOO_MODULES", "ZOO_SKIP_BAD_ROWS"):
    monkeypatch.setenv(name, "")
  names = {"__name__": "__main__"}
  with few_examples.only_few():
    for cell in cells(path):
      print(cell)
      # Expressions are printed, as a notebook shows them.
      tree = ast.Interactive(ast.parse(cell).body)
      exec(compile(tree, "<cell>", "single"), names)
  gin.clear_config()
