"""Adapters of a base: trained, evaluated, not exported."""

import json
import pathlib
import shutil

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_t5
from tests.runs.train_test import leaves
from transformer_zoo import config
from transformer_zoo.tensors import orbax_checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor


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
  saved = {name for name in after if name.startswith("params/")}
  assert saved and all(map(is_trained, saved))
  assert {name for name in before if is_trained(name)} <= saved
  for name in saved & before.keys():
    assert not np.array_equal(after[name], before[name]), name
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


@pytest.mark.slow
def test_a_run_saves_what_it_trains_and_finds_its_base(
  train, base, zoo, tmp_path
):
  bindings = (
    f"INITIAL_CHECKPOINT_PATH={str(base)!r}",
    "MIXTURE_OR_TASK_NAME='no_validation'",
    "LORA_RANK=2",
    "LOG_PERIOD=1",
  )
  files = ["peft/lora.gin"]
  whole = tmp_path / "whole"
  code, _, error = train(whole, *bindings, "TRAIN_STEPS=4", files=files)
  assert code == 0, error
  found = leaves(whole / "checkpoints" / "4")
  assert all("lora_" in name for name in found if name.startswith("params/"))

  # What resumes is what never stopped, bit by bit.
  parts = tmp_path / "parts"
  shutil.copytree(whole, parts)
  shutil.rmtree(parts / "checkpoints" / "4")
  (parts / "result.json").unlink()
  code, output, error = train(parts, *bindings, "TRAIN_STEPS=4", files=files)
  assert code == 0, error
  assert "training 2 steps, 2 to 4" in output
  resumed = leaves(parts / "checkpoints" / "4")
  for name, value in found.items():
    np.testing.assert_array_equal(resumed[name], value)

  # One base, two adapters by name.
  code, output, error = zoo(
    "evaluate",
    f"--checkpoint={base}",
    f"--adapter=one={whole}",
    f"--adapter=two={parts}",
    "--mixture=colours",
  )
  assert code == 0, error
  lines = [line.partition("\t") for line in output.splitlines()]
  assert [name for name, _, _ in lines] == ["one", "two"]
  first, second = (json.loads(line)["scores"] for _, _, line in lines)
  assert first == second

  # Merged, it is an ordinary run of the base's model.
  code, _, error = zoo(
    "convert", whole, tmp_path / "merged", "--merge", "--to=zoo"
  )
  assert code == 0, error
  merged = leaves(tmp_path / "merged" / "checkpoints" / "4")
  assert not any("lora_" in name for name in merged)
  code, output, error = zoo(
    "evaluate",
    f"--checkpoint={tmp_path / 'merged'}",
    "--mixture=colours",
    f"--gin.PREPARED_DIR={prepared_of(whole / 'config.gin')!r}",
  )
  assert code == 0, error
  assert json.loads(output)["scores"] == first

  moved = tmp_path / "moved"
  shutil.copytree(base, moved)
  code, _, error = train(
    tmp_path / "third",
    f"INITIAL_CHECKPOINT_PATH={str(moved)!r}",
    *bindings[1:],
    "TRAIN_STEPS=1",
    files=files,
  )
  assert code == 0, error
  # Its scores are not read again from its folder once its base has changed.
  evaluate = ("evaluate", f"--checkpoint={tmp_path / 'third'}")
  code, _, error = zoo(*evaluate, "--mixture=colours")
  assert code == 0, error
  files = [f for f in (moved / "checkpoints").rglob("*") if f.is_file()]
  largest = max(files, key=lambda file: file.stat().st_size)
  largest.write_bytes(largest.read_bytes() + b"0")
  code, _, error = zoo(*evaluate, "--mixture=colours")
  assert code == 2
  assert "is not the base that" in error or "is damaged" in error
  shutil.rmtree(moved)
  code, _, error = zoo(*evaluate, "--mixture=colours")
  assert code == 2
  step = moved / "checkpoints" / "7"
  assert error == (
    f"zoo: error: the checkpoints in {str(tmp_path / 'third')!r} hold what "
    f"was trained alone, and their base {str(step)!r} is not there; say where "
    f"it is: --checkpoint BASE --adapter NAME={tmp_path / 'third'}\n"
  )


@pytest.mark.slow
def test_a_run_over_a_base_in_four_bits(train, base, zoo, tmp_path):
  bindings = (
    "MIXTURE_OR_TASK_NAME='no_validation'",
    "LORA_RANK=2",
    "BASE_BITS=4",
    "TRAIN_STEPS=2",
  )
  run, files = tmp_path / "run", ["peft/lora.gin"]
  code, _, error = train(run, *bindings, files=files)
  assert code == 2
  assert "is kept in 4 bits and never trained, so that it has to be r" in error
  initial = f"INITIAL_CHECKPOINT_PATH={str(base)!r}"
  code, output, error = train(run, initial, *bindings, files=files)
  assert code == 0, error
  assert "initial parameters: 29 of 41 (8,432 numbers) from " in output
  assert "\ntrained: 384 of 8,816 parameters\n" in output
  found = leaves(run / "checkpoints" / "2")
  assert all("lora_" in name for name in found if name.startswith("params/"))
  described = json.loads((run / "base.json").read_text())
  assert not any("scale" in n for n in described["parameters"] if "kernel" in n)

  # Merged, it is a run of float32 that computes what it has learned.
  merged = tmp_path / "merged"
  code, _, error = zoo("convert", run, merged, "--merge", "--to=zoo")
  assert code == 0, error
  vocabulary = f"--vocabulary={prepared_of(run / 'config.gin')}/vocabularies"
  lengths = "--gin.TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 8}"

  def score(path, *words):
    code, output, error = zoo(
      *("infer", "red car sees\tboat", "--score", "--json", *words),
      *(f"--checkpoint={path}", f"{vocabulary}/tiny.model", lengths),
      "--gin.infer.extra_ids=10",
    )
    assert code == 0, error
    return json.loads(output)["log_likelihood"]

  assert score(merged) == pytest.approx(score(run), abs=1e-4)
  # Without a method, and of a directory of another program too.
  theirs = tmp_path / "theirs"
  code, _, error = zoo("convert", merged, theirs)
  assert code == 0, error
  for path in (merged, theirs):
    scores = [
      score(
        path, "--gin_file=parts/rounded_base.gin", f"--gin.BASE_BITS={bits}"
      )
      for bits in (32, 8)
    ]
    assert scores[0] == pytest.approx(score(merged), abs=1e-5)
    assert scores[1] != scores[0]
    assert scores[1] == pytest.approx(scores[0], abs=0.05)


def prepared_of(config_file):
  """The folder of prepared data that a run has read."""
  line = next(
    line
    for line in config_file.read_text().splitlines()
    if line.startswith("PREPARED_DIR")
  )
  return line.partition("=")[2].strip().strip("'")
