"""Configurables are found in the sources and imported when they are named."""

import importlib
import pathlib
import subprocess
import sys

import gin
from gin import config as gin_config
import pytest

from tests import tiny_models
import transformer_zoo
from transformer_zoo import config
from transformer_zoo.config import earlier_names
from transformer_zoo.config import registry
from transformer_zoo.config import signatures
from transformer_zoo.errors import UserError

PACKAGE = pathlib.Path(transformer_zoo.__file__).parent


@pytest.fixture(autouse=True)
def nothing_stays_bound():
  yield
  gin.clear_config()


def modules():
  """The modules of the rooms that register configurables."""
  for room in registry.ROOMS:
    path = PACKAGE / room
    for file in [path] if path.suffix else sorted(path.rglob("*.py")):
      yield ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)


def test_the_sources_name_every_configurable_that_importing_them_registers():
  for module in modules():
    importlib.import_module(module.removesuffix(".__init__"))
  found = registry._places(registry.ROOMS)
  for selector, place in found.items():
    # A name is checked by the source before anything is imported.
    name = place.external or selector.rpartition(".")[2]
    written = signatures.parameters(place.module, name)
    registry.load(selector)
    assert selector in gin_config._REGISTRY, place
    bindable = registry.parameters(gin_config._REGISTRY[selector]).keys()
    assert written is None or bindable <= written, selector
  rooms = tuple(
    f"transformer_zoo.{room.removesuffix('.py').replace('/', '.')}."
    for room in registry.ROOMS
  )
  registered = {
    selector
    for selector, configurable in gin_config._REGISTRY.items()
    if configurable.wrapped.__module__.startswith(rooms)
  }
  assert registered - found.keys() == set()


def test_naming_a_configurable_imports_its_module_alone():
  script = """
import sys
from transformer_zoo.config import earlier_names
from transformer_zoo.config import registry
found = registry.find("GatedMlp", "here")
assert found.wrapped.__module__ == "transformer_zoo.modules.feed_forward"
assert "transformer_zoo.modules.layers" not in sys.modules
assert not [m for m in sys.modules if m.startswith("transformer_zoo.runs")]
"""
  done = subprocess.run(
    [sys.executable, "-c", script], capture_output=True, text=True
  )
  assert done.returncode == 0, done.stderr


def test_a_misspelt_name_is_compared_with_what_is_not_imported(tmp_path):
  file = tmp_path / "run.gin"
  file.write_text("MODEL = @EncoderDecodr()")
  with pytest.raises(UserError, match="EncoderDecodr.*did you mean"):
    config.load([str(file)], root="MODEL")


@pytest.mark.parametrize(
  "override, told",
  [
    ("TRAIN_STEPSS=1", "the macro 'TRAIN_STEPSS' is used by nothing that"),
    ("Dropuot.rate=0.1", "no configurable is called 'Dropuot'; did you mean"),
    ("Dropout.rte=0.1", "Dropout has no parameter 'rte'; did you mean 'rate'"),
    ("train.packin=True", "train has no parameter 'packin'; did you mean"),
    ("MODEL=@T5x()", "no configurable is called 'T5x'"),
  ],
)
def test_a_misspelt_name_is_answered_before_anything_is_imported(
  override, told
):
  script = """
import sys
from transformer_zoo import config
try:
  config.check_names(
    ["runs/miniature_pretrain.gin"], ["MODEL_DIR='a'", sys.argv[1]], (),
    root="train",
  )
except ValueError as error:
  assert sys.argv[2] in str(error), error
else:
  raise AssertionError("not refused")
assert "jax" not in sys.modules
"""
  subprocess.run([sys.executable, "-c", script, override, told], check=True)


EARLIER = pathlib.Path(__file__).parent / "golden" / "earlier_configurations"


@pytest.mark.parametrize("name", sorted(p.stem for p in EARLIER.glob("*.gin")))
def test_configurations_of_earlier_runs_build_the_same_models(name):
  """Written when a stack contained what a `Transformer` has around it."""
  expected, _ = tiny_models.build(name)
  path = EARLIER / f"{name}.gin"
  assert config.build("MODEL", [str(path)]) == expected


@pytest.mark.parametrize(
  ("name", "now"),
  [
    ("Stack.norm", "Transformer.norm"),
    ("encoder/Stack.windows", "encoder/Windows.sizes"),
    ("Decoder.stack", "Decoder.transformer"),
    ("PermutedEncoder.num_stretches", "XLNet.num_stretches"),
  ],
)
def test_an_earlier_name_is_the_one_of_now(name, now):
  assert earlier_names.renewed(f"{name} = 2\n") == f"{now} = 2\n"
