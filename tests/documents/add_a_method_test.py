"""The page on methods of one's own, followed to the letter."""

import re
import sys

import gin
import numpy as np

from tests import programs
from tests.documents import guides_test
from tests.peft import methods_test as methods
from transformer_zoo.modules.linear import Linear


def test_the_method_of_the_page_keeps_the_contracts(tmp_path, monkeypatch):
  """Over three kinds of models, as each method of the table does."""
  source, line = guides_test.blocks("add_a_method", "python")
  (settings,) = guides_test.blocks("add_a_method", "gin")
  (tmp_path / "gate.py").write_text(source)
  (tmp_path / "peft").mkdir()
  (tmp_path / "peft/gate.gin").write_text("import gate\n" + settings)
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(str(tmp_path))
  row = eval(f"{{{line}}}", {"Contract": methods.Contract})
  monkeypatch.setattr(methods, "METHODS", {**methods.METHODS, **row})
  try:
    for kind in methods.MODELS:
      methods.test_a_method_adds_parameters_and_moves_none("gate", kind)
      methods.test_a_method_starts_from_its_base("gate", kind)
      methods.test_a_merged_model_is_its_base_with_biases("gate", kind)
    methods.test_heads_are_trained_with_every_method("gate")
    found = methods.shipped("gate", "bert")
    assert found.trainable.parameters == [r".*/gate|heads/(?!tokens/).*"]
    assert found.initial.assignments == ((r".*/gate", None),)
    check_merging(sys.modules["gate"].gate(".*"))
  finally:
    gin.clear_config()
    sys.modules.pop("gate", None)


def check_merging(rule):
  """Compares what a projection computes before and after it is merged."""
  part = rule("query", Linear(use_bias=True))
  random = np.random.RandomState(0)
  shapes = {"kernel": (4, 3), "bias": (3,), "gate": ()}
  leaves = {
    name: np.asarray(random.standard_normal(shape), np.float32)
    for name, shape in shapes.items()
  }
  x = random.standard_normal((2, 4)).astype(np.float32)
  expected = programs.apply(part, {"params": leaves}, x, 3)
  merged, kept = part.merge(leaves)
  assert merged == Linear(use_bias=True) and kept.keys() == {"kernel", "bias"}
  found = x @ kept["kernel"] + kept["bias"]
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_page_lists_files_that_exist():
  """But for those that it adds."""
  text = guides_test.guide("add_a_method")
  listed = re.findall(r"^\| `([\w/.]+)`", text, re.M)
  assert len(listed) == 4
  for path in listed:
    place = guides_test.ROOT / path
    assert place.parent.is_dir() and ("gate" in path or place.is_file())
  assert "\nMETHODS = {" in (guides_test.ROOT / listed[2]).read_text()
