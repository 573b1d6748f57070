"""Each tutorial runs: all its cells, in order, in a process and a folder."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))

# Expressions are printed, as a notebook shows them.
_RUN = r"""
import ast, pathlib, re, sys
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
names = {"__name__": "__main__"}
for cell in re.findall(r"^```\{code-cell\}.*?\n(.*?)^```$", text, re.M | re.S):
  print(cell, flush=True)
  tree = ast.Interactive(ast.parse(cell).body)
  exec(compile(tree, "<cell>", "single"), names)
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path):
  pytest.importorskip("seqio")
  environment = {**os.environ, "PYTHONPATH": str(ROOT)}
  environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
  for name in ("XLA_FLAGS", "ZOO_DATA_DIR"):  # A reader has neither.
    environment.pop(name, None)
  (tmp_path / "notebook").mkdir()
  finished = subprocess.run(
    [sys.executable, "-c", _RUN, str(path)],
    cwd=tmp_path / "notebook",
    env=environment,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )
  print(finished.stdout)
  assert not finished.returncode, finished.stdout[-4000:]
