"""The command line: help, errors, exit codes, what is imported."""

import argparse
import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

from transformer_zoo import config
from transformer_zoo.api import configurations
from transformer_zoo.cli import checkpoint_arguments
from transformer_zoo.cli import common
from transformer_zoo.cli import main as cli
from transformer_zoo.errors import UserError
from transformer_zoo.interop.t5x import checkpoints
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor

HEAVY = "jax flax tensorflow seqio grain gin numpy".split()


def commands(tree=None, before=()):
  for name, command in (tree or cli.COMMANDS).items():
    if isinstance(command, dict):
      yield from commands(command, (*before, name))
    else:
      yield (*before, name), cli.module_of(command)


@pytest.mark.parametrize(
  "words, command", list(commands()), ids=lambda value: str(value)[:24]
)
def test_every_command_has_help_with_an_example(words, command, capsys):
  with pytest.raises(SystemExit) as caught:
    cli.main([*words, "--help"])
  assert caught.value.code == 0
  text = capsys.readouterr().out
  assert f"example:\n  {command.EXAMPLE}\n" in text
  assert "zoo " + " ".join(words) in command.EXAMPLE


@pytest.mark.parametrize(
  "words, command", list(commands()), ids=lambda value: str(value)[:24]
)
def test_every_example_parses(words, command):
  example = command.EXAMPLE.replace("\\\n", " ").rpartition("| ")[2]
  given = shlex.split(example)
  assert given[: len(words) + 1] == ["zoo", *words]
  parsed = [word for word in given[1:] if not word.startswith("--gin.")]
  arguments = cli.build_parser().parse_args(parsed)
  assert arguments.run is command.run


@pytest.mark.parametrize("statement", ["import transformer_zoo", "--help"])
def test_nothing_heavy_is_imported_for_help(statement):
  if statement == "--help":
    statement = (
      "from transformer_zoo.cli import main\n"
      "try: main.main(['--help'])\nexcept SystemExit: pass"
    )
  script = f"{statement}\nimport sys\nprint('loaded', *sys.modules)"
  output = subprocess.run(
    [sys.executable, "-c", script], capture_output=True, text=True, check=True
  ).stdout
  loaded = set(output.rpartition("loaded ")[2].split())
  assert not loaded & set(HEAVY)


def error_of(capsys, *words) -> str:
  assert cli.main(words) == cli.USER_ERROR
  error = capsys.readouterr().err
  assert error.startswith("zoo: error: ") and error.count("\n") == 1
  return error.removeprefix("zoo: error: ").strip()


def test_unknown_command(capsys):
  assert error_of(capsys, "doctr") == (
    "there is no command 'doctr'; did you mean 'doctor'?"
  )


def test_unknown_option(capsys):
  assert error_of(capsys, "ablate", "quickstart", "--sed", "3") == (
    "unrecognized arguments: --sed 3 (see `zoo ablate --help`)"
  )
  assert error_of(capsys, "inspect", "model", "t5") == (
    "unrecognized arguments: t5 (see `zoo inspect model --help`)"
  )


def test_gin_where_nothing_takes_it(capsys):
  assert error_of(capsys, "list", "studies", "--gin.X=3") == (
    "this command takes no --gin.X=3"
  )


def test_a_sentence_is_told_without_what_gin_called(capsys):
  error = error_of(
    capsys,
    *("inspect", "model", "--gin_file=architectures/llama.gin"),
    *("--gin_file=sizes/tiny.gin", "--gin.HEAD_DIM=7"),
  )
  assert error.startswith("Rotary turns pairs: 7 of 7 features cannot be")


def test_missing_folder_of_gin_files(capsys):
  words = ["inspect", "model", "--gin_file=architectures/llama.gin"]
  assert error_of(capsys, *words, "--gin_search_paths=.,/no/such") == (
    "--gin_search_paths: there is no folder '/no/such'"
  )


def test_missing_folder_of_maps(capsys, tmp_path):
  output = str(tmp_path / "no" / "maps")
  words = ["inspect", "attention", ".", "red", "--output", output]
  assert error_of(capsys, *words) == (
    f"there is no folder {str(tmp_path / 'no')!r} for --output"
  )


def test_missing_data_folder(capsys):
  assert error_of(capsys, "doctor", "--data_dir", "/no/such") == (
    "there is no data folder '/no/such'"
  )


def test_no_configuration(capsys):
  for command in (["train"], ["inspect", "model"]):
    assert error_of(capsys, *command) == (
      "no configuration: give a gin file (--gin_file), as in the example that "
      "--help ends with"
    )


def configuration_of(checkpoint, kind, *words, overrides=()):
  words = [kind, f"--checkpoint={checkpoint}", *words]
  words.append("--mixture=m" if kind == "evaluate" else "some text")
  arguments = cli.build_parser().parse_args(words)
  arguments.overrides = overrides
  return checkpoint_arguments.configuration(arguments, kind)


@pytest.mark.parametrize(
  "words",
  [
    ["evaluate", "--mixture=miniature", "--checkpoint"],
    ["infer", "--checkpoint"],
    ["probe"],
    ["convert"],
  ],
)
def test_missing_checkpoint(capsys, tmp_path, monkeypatch, words):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "runs").mkdir()
  target = ["new"] * (words == ["convert"])
  for path in ("/no/such", "runs/fien"):
    assert error_of(capsys, *words, path, *target) == (
      f"there is no checkpoint {path!r}"
    )
  assert error_of(capsys, *words, "google/bert", *target) == (
    "there is no checkpoint 'google/bert'; nothing is downloaded: fetch a "
    "model of Hugging Face by `hf download google/bert --local-dir bert` "
    "first, and give its folder"
  )


@pytest.mark.parametrize("option", ["output_dir", "submission"])
def test_several_adapters_do_not_write_into_one_folder(option, capsys):
  words = ["evaluate", "--checkpoint=.", "--mixture=m", f"--{option}=out"]
  assert error_of(capsys, *words, "--adapter=one=a", "--adapter=two=b") == (
    "--output_dir and --submission hold the files of one model; name one "
    "--adapter"
  )


def test_a_folder_of_runs_is_no_checkpoint(capsys, tmp_path):
  for kind in (["infer"], ["evaluate", "--mixture", "miniature"]):
    error = error_of(capsys, *kind, "--checkpoint", str(tmp_path))
    assert error.startswith(f"no checkpoint in {str(tmp_path)!r}: a run folder")


def test_the_current_folder_is_no_checkpoint(capsys, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert error_of(capsys, "infer", "--checkpoint", ".").startswith(
    "no checkpoint in '.': a run folder"
  )
  assert error_of(capsys, "convert", ".", "target").startswith(
    "'.' is no checkpoint that is known here"
  )
  assert error_of(capsys, "infer", "--checkpoint", "") == (
    "there is no checkpoint ''"
  )


def test_an_adapter_without_a_checkpoint(capsys, tmp_path):
  words = ["infer", f"--checkpoint={tmp_path}", f"--adapter=a={tmp_path}"]
  assert error_of(capsys, *words).startswith(
    f"no checkpoint in {str(tmp_path)!r}: a run folder"
  )


def test_an_adapter_may_be_a_step_of_its_run(tmp_path):
  step = tmp_path / "checkpoints" / "2"
  (step / "state").mkdir(parents=True)
  base = {"path": "base", "identity": "", "parameters": {}}
  (tmp_path / "base.json").write_text(json.dumps(base))
  given = argparse.Namespace(checkpoint=["base"], adapter=[f"a={step}"])
  ((name, found),) = checkpoint_arguments.of_each_adapter(given)
  assert (name, found.checkpoint) == ("a", [str(step)])


@pytest.mark.parametrize(
  ("file", "words"),
  [
    ("result.json", "checkpoints {}"),
    ("result.json", "infer --checkpoint={}"),
    ("result.json", "convert {} target"),
    ("base.json", "infer --checkpoint=. --adapter=a={}"),
  ],
)
def test_damaged_files_of_a_run(file, words, capsys, tmp_path):
  (tmp_path / "checkpoints" / "2" / "state").mkdir(parents=True)
  path = tmp_path / file
  path.write_text("{")
  assert re.fullmatch(
    rf"'{path}' is damaged \(.*\); bring back a whole copy of it",
    error_of(capsys, *words.format(tmp_path).split()),
  )


def test_checkpoint_without_configuration(capsys, tmp_path):
  (tmp_path / "checkpoints" / "2" / "state").mkdir(parents=True)
  assert error_of(capsys, "infer", "--checkpoint", str(tmp_path)) == (
    f"nothing beside the checkpoint {str(tmp_path)!r} names its model: name it "
    "with --gin_file, as in --gin_file=architectures/t5_1_1.gin "
    "--gin_file=sizes/t5_1_1_small.gin"
  )


def test_a_config_gin_beside_a_t5x_checkpoint_is_t5xs(capsys, tmp_path):
  scale = {"decoder/decoder_norm/scale": Tensor.of(np.ones(3, np.float32))}
  folder = checkpoints.write_checkpoint(tmp_path, scale)
  (tmp_path / "config.gin").write_text(
    "from __gin__ import dynamic_registration"
  )
  for path in (tmp_path, folder):
    error = error_of(capsys, "infer", "--checkpoint", str(path))
    assert error.startswith(
      f"nothing beside the checkpoint {str(path)!r} names"
    )


def test_a_checkpoint_brings_its_configuration(tmp_path):
  checkpoint = tmp_path / "checkpoints" / "10"
  checkpoint.mkdir(parents=True)
  (tmp_path / "config.gin").touch()
  own = [str(tmp_path / "config.gin"), "runs/evaluate.gin"]
  assert configuration_of(checkpoint, "evaluate").gin_files == own
  # A file without a model comes after all that.
  found = configuration_of(
    checkpoint, "evaluate", "--gin_file=decoding/beam_4.gin"
  )
  assert found.gin_files == [*own, "decoding/beam_4.gin"]


def test_what_lies_above_a_run_is_not_its_own(tmp_path):
  """The vocabulary and the configuration of a step are those of its run."""

  def furnish(folder):
    (folder / "config.gin").touch()
    (folder / "huggingface").mkdir()
    path = folder / "huggingface" / "spiece.model"
    shutil.copy("tasks/miniature/vocabulary.model", path)

  runs = tmp_path / "work" / "runs"
  run, alone = runs / "fine", runs / "kept" / "7"
  for step in (run / "checkpoints" / "10", alone):
    (step / "state").mkdir(parents=True)
  furnish(runs)
  furnish(runs.parent)
  for path in (run, run / "checkpoints", run / "checkpoints" / "10", alone):
    assert configurations.vocabulary(str(path)) is None
    with pytest.raises(UserError, match="nothing beside the checkpoint"):
      configuration_of(path, "infer")
  furnish(run)
  furnish(alone.parent)
  for path in (run, run / "checkpoints", run / "checkpoints" / "10", alone):
    own = alone.parent if path == alone else run
    expected = str(own / "huggingface")
    assert configurations.vocabulary(str(path)) == expected
    found = configuration_of(path, "infer")
    assert found.gin_files[0] == str(own / "config.gin")


def test_a_file_that_configures_the_command_is_all(tmp_path):
  file = tmp_path / "own.gin"
  file.write_text("MODEL = @DecoderOnly()\ninfer.model = %MODEL\n")
  found = configuration_of(tmp_path, "infer", f"--gin_file={file}")
  assert found == configurations.Configuration([str(file)])


@pytest.mark.parametrize("kind", ["infer", "evaluate"])
@pytest.mark.parametrize("named", [True, False])
def test_a_model_is_enough_of_a_configuration(tmp_path, kind, named):
  """As for a T5X checkpoint, which tells nothing."""
  batches = tmp_path / "batches.gin"
  batches.write_text("BATCH_SIZE = 3\nDecodingOptions.num_beams = 2\n")
  run = f"runs/{kind}.gin"
  model = ["architectures/t5_1_1.gin", "sizes/tiny.gin"]
  files = [*model, *([run] if named else []), str(batches)]
  overrides = ["CHECKPOINT_PATH='a'", "VOCAB_SIZE=48"]
  if kind == "evaluate":
    overrides.append("MIXTURE_OR_TASK_NAME='m'")
  words = [f"--gin_file={file}" for file in files]
  found = configuration_of(tmp_path, kind, *words, overrides=overrides)
  config.load(
    found.gin_files,
    [*found.overrides, *overrides],
    root=kind,
    defaults=found.defaults,
  )
  assert config.setting("batch_size") == 3
  assert config.setting("prepared_dir") == "runs/prepared"
  assert config.setting("task_feature_lengths") == {
    "inputs": 512,
    "targets": 128,
  }
  assert "DecodingOptions.num_beams = 2" in config.operative_config()


def test_a_typing_error_is_one_of_the_command(tmp_path, capsys):
  words = ["infer", "--checkpoint", str(tmp_path), "some text"]
  words += ["--gin_file=architectures/t5_1_1.gin", "--gin_file=sizes/tiny.gin"]
  assert error_of(capsys, *words, "--gin.BATCHSIZE=3") == (
    "--gin.BATCHSIZE: the macro 'BATCHSIZE' is used by nothing that 'infer' "
    "reads; did you mean 'BATCH_SIZE', 'VOCAB_SIZE'?"
  )


def test_a_directory_of_hugging_face_brings_its_configuration(tmp_path):
  (tmp_path / "config.json").write_text('{"model_type": "t5", "d_ff": 99}')
  # The config.json asks for 12 layers, and for a width of 512.
  tensor = Tensor.of(np.zeros(512, np.float32))
  safetensors.write(
    tmp_path / "model.safetensors", {str(i): tensor for i in range(12)}
  )
  found = configuration_of(tmp_path, "infer")
  assert found.gin_files[0] == "architectures/t5_1_0.gin"
  assert found.gin_files[-1] == "runs/infer.gin"
  assert "MLP_DIM=99" in found.overrides
  assert "BATCH_SIZE=8" in found.defaults
  # Another model is the user's, and how it is asked still the directory's.
  (tmp_path / "generation_config.json").write_text('{"num_beams": 5}')
  words = ["--gin_file=architectures/t5_1_1.gin", "--gin_file=sizes/tiny.gin"]
  found = configuration_of(tmp_path, "infer", *words)
  assert "MLP_DIM=99" not in found.overrides
  assert "DecodingOptions.num_beams=5" in found.defaults


def test_seeds_below_one(capsys):
  assert error_of(capsys, "ablate", "quickstart", "--seeds", "0") == (
    "--seeds is 0; it has to be 1 or more"
  )


def test_control_c_has_its_own_exit_code(monkeypatch, capsys):
  def interrupt(arguments):
    raise KeyboardInterrupt

  monkeypatch.setattr(cli.module_of("doctor"), "run", interrupt)
  assert cli.main(["doctor"]) == cli.INTERRUPTED
  assert capsys.readouterr().err == "zoo: interrupted\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(monkeypatch, capsys, number):
  def write(arguments):
    raise OSError(number, os.strerror(number))

  monkeypatch.setattr(cli.module_of("doctor"), "run", write)
  assert cli.main(["doctor"]) == cli.USER_ERROR
  assert capsys.readouterr().err == (
    f"zoo: error: {os.strerror(number)}: make room and start the same command "
    "again; what has been saved stays\n"
  )


def test_overrides_and_data_folders_reach_the_command(monkeypatch, tmp_path):
  seen = []
  monkeypatch.setattr(cli.module_of("train"), "run", seen.append)
  monkeypatch.setenv("ZOO_DATA_DIR", "")
  words = ["train", "--gin_file=a.gin", "--gin_file", "b.gin", "--gin.X=3"]
  folders = [str(tmp_path / name) for name in "cd"]
  for folder in folders:
    os.mkdir(folder)
  words += [f"--gin_search_paths={','.join(folders)}", f"--data_dir={tmp_path}"]
  assert cli.main(words) == 0
  (arguments,) = seen
  assert arguments.gin_file == ["a.gin", "b.gin"]
  assert arguments.overrides == ["X=3"]
  assert common.search_paths(arguments) == folders
  assert cli.os.environ["ZOO_DATA_DIR"] == str(tmp_path)


def test_lengths():
  assert common.parse_lengths("inputs=5,targets=3") == {
    "inputs": 5,
    "targets": 3,
  }
  with pytest.raises(UserError) as caught:
    common.parse_lengths("inputs:5")
  assert str(caught.value) == (
    "--length is 'inputs:5'; write it as inputs=512,targets=114"
  )
