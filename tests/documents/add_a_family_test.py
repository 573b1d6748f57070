"""The page on families, followed to the letter."""

import re
import sys

import gin
import numpy as np
import pytest

from tests.conversion import encoders_test as conversion
from tests.documents import guides_test
from tests.golden import families as table
from tests.golden import update_parameter_trees
from tests.interop.huggingface import attributes_test
from tests.interop.huggingface import families_test
from tests.interop.huggingface import values_test
from transformer_zoo.conversion import exported_directory
from transformer_zoo.interop import huggingface
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import families


@pytest.fixture
def family(tmp_path, monkeypatch):
  """The files of the page in their folders, and its line in the table."""
  source, line = guides_test.blocks("add_a_family", "python")
  (settings,) = guides_test.blocks("add_a_family", "gin")
  for folder, name, text in (
    ("families", "opt.py", source),
    ("architectures", "opt.gin", settings),
  ):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / name).write_text(text)
  monkeypatch.chdir(tmp_path)
  places = [*families.__path__, str(tmp_path / "families")]
  monkeypatch.setattr(families, "__path__", places)
  found = tuple(families.found())
  monkeypatch.setattr(huggingface, "FAMILIES", found)
  monkeypatch.setattr(exported_directory, "FAMILIES", found)
  row = eval(f"{{{line}}}", {"_IDS": table._IDS})
  monkeypatch.setattr(table, "CONFIGS", {**table.CONFIGS, **row})
  yield
  gin.clear_config()
  sys.modules.pop(f"{families.__name__}.opt")


def test_the_family_of_the_page_keeps_the_contracts(family, tmp_path):
  links = families_test
  links.test_links_are_the_parameters_and_the_configuration_comes_back("opt")
  attributes_test.test_what_no_logit_depends_on_changes_nothing("opt")
  model = update_parameter_trees.model("opt", "gpt_2_small", scan=False)
  assert update_parameter_trees.lines(model)


def test_its_directory_comes_back(family, tmp_path):
  """A model is written as the family's class, and read as the same."""
  model = table.build(table.with_layers(table.CONFIGS["opt"], 1))
  parameters = conversion.weights(model)
  exported_directory.write(tmp_path, model, parameters)
  found = directory.open_directory(tmp_path)
  assert found.config["model_type"] == "opt"
  again = found.parameters()
  assert again.keys() == parameters.keys()
  for name, tensor in parameters.items():
    np.testing.assert_array_equal(again[name].read(), tensor.read())


@pytest.mark.slow
def test_its_class_computes_the_same(family):
  """As `make test-oracles` sees it of all families."""
  values_test.test_strange_values_end_in_one_sentence("opt")
  pytest.importorskip("torch")
  oracle = pytest.importorskip("tests.oracles.pytorch.families_test")
  oracle.test_logits_loss_and_gradient_of_every_parameter(
    "opt", lambda *values: None
  )


def test_the_page_lists_files_that_exist():
  """But for those that it adds."""
  text = guides_test.guide("add_a_family")
  listed = re.findall(r"^\| `([\w/.]+)`", text, re.M)
  assert len(listed) == 5
  for path in listed:
    place = guides_test.ROOT / path
    assert place.parent.is_dir() and ("opt" in path or place.is_file())
  assert "\nCONFIGS: " in (guides_test.ROOT / listed[2]).read_text()
  assert "\nSIZES = {" in (guides_test.ROOT / listed[3]).read_text()
