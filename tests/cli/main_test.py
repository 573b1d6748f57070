"""The command line: help, errors, exit codes, what is imported."""

import errno
import os
import shlex
import subprocess
import sys

import pytest

from transformer_zoo.cli import common
from transformer_zoo.cli import main as cli
from transformer_zoo.errors import UserError
from transformer_zoo.interop import safetensors

HEAVY = "jax flax tensorflow seqio grain gin numpy".split()


def commands(tree=None, before=()):
  for name, command in (tree or cli.COMMANDS).items():
    if isinstance(command, dict):
      yield from commands(command, (*before, name))
    else:
      yield (*before, name), command


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
    "unrecognized arguments: --sed 3 (see `zoo --help`)"
  )


def test_gin_where_nothing_takes_it(capsys):
  assert error_of(capsys, "list", "studies", "--gin.X=3") == (
    "this command takes no --gin.X=3"
  )


def test_missing_data_folder(capsys):
  assert error_of(capsys, "doctor", "--data_dir", "/no/such") == (
    "there is no data folder '/no/such'"
  )


def test_no_configuration(capsys):
  assert error_of(capsys, "train") == (
    "no configuration: give a gin file, as in the example of `zoo train --help`"
  )


def test_missing_checkpoint(capsys):
  assert error_of(
    capsys, "evaluate", "--checkpoint", "/no/such", "--mixture", "miniature"
  ) == ("there is no checkpoint '/no/such'")


def test_checkpoint_without_configuration(capsys, tmp_path):
  assert error_of(capsys, "infer", "--checkpoint", str(tmp_path)) == (
    f"no config.gin lies beside the checkpoint {str(tmp_path)!r}: name the "
    "configuration with --gin_file"
  )


def test_a_checkpoint_brings_its_configuration(tmp_path):
  checkpoint = tmp_path / "checkpoints" / "10"
  checkpoint.mkdir(parents=True)
  (tmp_path / "config.gin").touch()
  words = ["evaluate", "--mixture=m", f"--checkpoint={checkpoint}"]
  arguments = cli.build_parser().parse_args(words)
  assert common.configuration_of_checkpoint(arguments, "evaluate") == (
    [str(tmp_path / "config.gin"), "runs/evaluate.gin"],
    [],
  )
  arguments = cli.build_parser().parse_args([*words, "--gin_file=a.gin"])
  found = common.configuration_of_checkpoint(arguments, "evaluate")
  assert found == (["a.gin"], [])


def test_a_directory_of_hugging_face_brings_its_configuration(tmp_path):
  (tmp_path / "config.json").write_text('{"model_type": "t5", "d_ff": 99}')
  safetensors.write(tmp_path / "model.safetensors", {})
  words = ["infer", f"--checkpoint={tmp_path}", "some text"]
  arguments = cli.build_parser().parse_args(words)
  files, overrides = common.configuration_of_checkpoint(arguments, "infer")
  assert files[0] == "architectures/t5_1_0.gin"
  assert files[-1] == "runs/infer.gin"
  assert {"MLP_DIM=99", "BATCH_SIZE=8"} <= {*overrides}


def test_seeds_below_one(capsys):
  assert error_of(capsys, "ablate", "quickstart", "--seeds", "0") == (
    "--seeds is 0; it has to be 1 or more"
  )


def test_control_c_has_its_own_exit_code(monkeypatch, capsys):
  def interrupt(arguments):
    raise KeyboardInterrupt

  monkeypatch.setattr(cli.COMMANDS["doctor"], "run", interrupt)
  assert cli.main(["doctor"]) == cli.INTERRUPTED
  assert capsys.readouterr().err == "zoo: interrupted\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(monkeypatch, capsys, number):
  def write(arguments):
    raise OSError(number, os.strerror(number))

  monkeypatch.setattr(cli.COMMANDS["doctor"], "run", write)
  assert cli.main(["doctor"]) == cli.USER_ERROR
  assert capsys.readouterr().err == (
    f"zoo: error: {os.strerror(number)}: make room and start the same command "
    "again; what has been saved stays\n"
  )


def test_overrides_and_data_folders_reach_the_command(monkeypatch, tmp_path):
  seen = []
  monkeypatch.setattr(cli.COMMANDS["train"], "run", seen.append)
  monkeypatch.setenv("ZOO_DATA_DIR", "")
  words = ["train", "--gin_file=a.gin", "--gin_file", "b.gin", "--gin.X=3"]
  words += ["--gin_search_paths=c,d", f"--data_dir={tmp_path}"]
  assert cli.main(words) == 0
  (arguments,) = seen
  assert arguments.gin_file == ["a.gin", "b.gin"]
  assert arguments.overrides == ["X=3"]
  assert common.search_paths(arguments) == ["c", "d"]
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
