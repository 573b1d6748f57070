"""Adapters of a base: trained, evaluated, not exported."""

import json
import pathlib

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_t5
from tests.runs.train_test import leaves
from transformer_zoo import config
from transformer_zoo.interop.tensors import orbax_checkpoints
from transformer_zoo.interop.tensors.lazy_tensors import Tensor


def is_trained(name):
  return "/adapter/" in name or "norm/" in name


@pytest.fixture(scope="module")
def base(gin_file, tmp_path_factory) -> pathlib.Path:
  """A run folder with the checkpoint of a model without adapters."""
  folder = tmp_path_factory.mktemp("base")
  config.load([str(gin_file)], [], root="MODEL")
  (folder / "config.gin").write_text(config.operative_config())
  params = tiny_t5.random_parameters(config.value("MODEL"))
  (folder / "checkpoints").mkdir()
  flat = traverse_util.flatten_dict(params, sep="/")
  orbax_checkpoints.write(
    folder / "checkpoints" / "7",
    {f"params/{name}": Tensor.of(array) for name, array in flat.items()},
  )
  return folder


@pytest.mark.slow
def test_a_run_of_adapters(train, base, zoo, tmp_path):
  code, output, error = train(
    tmp_path / "run",
    f"INITIAL_CHECKPOINT_PATH={str(base)!r}",
    "MIXTURE_OR_TASK_NAME='no_validation'",
    "ADAPTER_DIM=6",
    "TRAIN_STEPS=2",
    files=["peft/adapters.gin"],
  )
  assert code == 0, error
  assert "initial parameters: 29 of 35 (8,432 numbers) from " in output
  for stack in ("encoder", "decoder"):
    assert f"  fresh: {stack}/layers_0/adapter/wi/kernel" in output
  assert "\ntrained: 528 of 8,848 parameters\n" in output
  before = leaves(base / "checkpoints" / "7")
  after = leaves(tmp_path / "run" / "checkpoints" / "2")
  for name, value in before.items():
    same = np.array_equal(after[name], value)
    assert same != is_trained(name), name
  assert np.any(after["params/decoder/layers_0/adapter/wo/kernel"])
  moments = {name for name in after if name.startswith("opt_state/moments/")}
  assert moments and all(map(is_trained, moments))

  code, output, error = zoo(
    "evaluate", f"--checkpoint={tmp_path / 'run'}", "--mixture=colours"
  )
  assert code == 0, error
  assert "accuracy" in json.loads(output)["scores"]["colours"]

  code, _, error = zoo("convert", tmp_path / "run", tmp_path / "theirs")
  assert code == 2
  assert error == (
    "zoo: error: no class of `transformers` has AdaptedDecoderLayer or "
    "AdaptedEncoderLayer; what was put into a model stays in our format, and "
    "its base can be exported from the run that it started from\n"
  )
