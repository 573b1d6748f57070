"""The pages on a bias, an objective and a benchmark, followed to the letter."""

import re
import sys

import gin
import pytest

from tests import tiny_models
from tests.architectures import variants_test
from tests.documents import guides_test
from tests.objectives import contract_test
from tests.tasks import users_sets_test


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """The current folder, whose modules are forgotten after the test."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(str(tmp_path))
  before = set(sys.modules)
  yield tmp_path
  gin.clear_config()
  tiny_models.build.cache_clear()
  for name in {"log_bias", "focal", "plausible"} & (
    sys.modules.keys() - before
  ):
    del sys.modules[name]


def write(folder, page, module, gin_file):
  """Writes the module and the gin file of a page, as its last point says."""
  source, *others = guides_test.blocks(page, "python")
  (settings,) = guides_test.blocks(page, "gin")
  (folder / f"{module}.py").write_text(source)
  (folder / gin_file).parent.mkdir(parents=True)
  (folder / gin_file).write_text(f"import {module}\n{settings}")
  return others


@pytest.mark.slow
def test_the_bias_of_the_page_keeps_the_contracts(folder):
  write(
    folder, "add_a_position_bias", "log_bias", "parts/positions/log_bias.gin"
  )
  for architecture, scan in ("lm", False), ("t5_1_0", True):
    variants_test.test_causality_padding_and_packing(
      (architecture, "positions/log_bias.gin"), scan
    )


@pytest.mark.slow
def test_the_objective_of_the_page_keeps_the_contracts(folder, monkeypatch):
  (line,) = write(folder, "add_an_objective", "focal", "objectives/focal.gin")
  row = eval(f"{{{line}}}")
  monkeypatch.setattr(contract_test, "OBJECTIVES", row)
  for file in row:
    contract_test.test_terms_have_weights_of_the_batch_and_add_up_in_parts(file)


def test_the_benchmark_of_the_page_becomes_its_texts(folder, monkeypatch):
  seqio = pytest.importorskip("seqio")
  source, line, row = guides_test.blocks("add_a_benchmark", "python")
  imports = (guides_test.ROOT / "tasks/__init__.py").read_text()
  assert line.replace("plausible", "sci_tail") in imports
  (folder / "plausible.py").write_text(source)
  monkeypatch.setattr(users_sets_test, "SETS", eval(f"{{{row}}}"))
  try:
    import plausible  # noqa: F401

    users_sets_test.test_the_documented_rows("plausible", monkeypatch, folder)
    assert "plausible:classes" in seqio.TaskRegistry.names()
  finally:
    for name in {"plausible", "plausible:classes"} & set(
      seqio.TaskRegistry.names()
    ):
      seqio.TaskRegistry.remove(name)


@pytest.mark.parametrize(
  "page", ["add_a_position_bias", "add_an_objective", "add_a_benchmark"]
)
def test_a_page_lists_files_that_exist(page):
  """But for those that it adds."""
  listed = re.findall(r"^\| `([\w/.]+)`", guides_test.guide(page), re.M)
  assert 3 <= len(listed) <= 4
  for path in listed:
    place = guides_test.ROOT / path
    added = re.search("log_bias|focal|plausible", path)
    assert place.parent.is_dir() and place.exists() != bool(added)
