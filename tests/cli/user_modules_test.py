"""A task of the user's own, known to every command by --module."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from transformer_zoo import config
from transformer_zoo.cli import main as cli
from transformer_zoo.data import user_modules
from transformer_zoo.errors import UserError

ROOT = pathlib.Path(__file__).parents[2]
VOCABULARY = str(ROOT / "tasks" / "miniature" / "vocabulary.model")
MODULE = f"""
import seqio
from tasks.your_data.text_to_text import TextToTextTask

TextToTextTask.from_tsv(
  "{{name}}",
  splits={{{{"train": "{{name}}.tsv", "validation": "{{name}}.tsv"}}}},
  inputs="word: {{{{word}}}}",
  targets="{{{{label}}}}",
  labels=["noun", "verb"],
  metrics=["accuracy"],
  vocabulary={VOCABULARY!r},
)
seqio.MixtureRegistry.add("{{name}}_mixture", ["{{name}}"], default_rate=1.0)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
  """Returns a function that writes a module and its rows to a new folder."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, "path", list(sys.path))
  for variable in (user_modules.VARIABLE, "ZOO_SKIP_BAD_ROWS", "ZOO_DATA_DIR"):
    # Set first, so that what a command sets is taken back after the test.
    monkeypatch.setenv(variable, "")
  pytest.importorskip("seqio")

  def write(name, rows="fish\tnoun\nsing\tverb\n", module=None):
    (tmp_path / f"{name}.tsv").write_text(f"word\tlabel\n{rows}")
    text = MODULE.format(name=name) if module is None else module
    (tmp_path / f"{name}.py").write_text(text)
    return name

  yield write
  import seqio

  for name in list(seqio.TaskRegistry.names()):
    if name.startswith("own_"):
      seqio.TaskRegistry.remove(name)
  for name in list(seqio.MixtureRegistry.names()):
    if name.startswith("own_"):
      seqio.MixtureRegistry.remove(name)


def printed(capsys, *words):
  assert cli.main([str(word) for word in words]) == 0, capsys.readouterr().err
  return capsys.readouterr().out


def error_of(capsys, *words):
  assert cli.main([str(word) for word in words]) == cli.USER_ERROR
  return capsys.readouterr().err.removeprefix("zoo: error: ").strip()


@pytest.mark.slow
def test_every_command_knows_it(own, capsys, tmp_path):
  name = own("own_words")
  option = f"--module={name}"
  assert name in printed(capsys, "list", "tasks", option)
  listed = printed(capsys, "list", "mixtures", option)
  assert re.search(rf"^{name}_mixture +{name}$", listed, re.M)
  shown = printed(capsys, "inspect", "task", name, option, "--json")
  found = json.loads(shown)
  assert found["examples"][0]["inputs"]["text"] == "word: fish"
  assert found["skipped"] == []
  words = [
    "--mixture",
    f"{name}_mixture",
    "--prepared_dir",
    tmp_path / "prepared",
  ]
  assert "2 examples" in printed(capsys, "prepare", *words, option)
  words = [f"{name}_mixture", "--prepared_dir", tmp_path / "prepared"]
  assert name in printed(capsys, "inspect", "mixture", *words, option)


@pytest.mark.slow
def test_bad_rows_are_told_or_skipped(own, capsys, tmp_path):
  name = own("own_bad_rows", "fish\tnoun\n\tverb\nsing\tadverb\n")
  words = [
    *("prepare", "--mixture", name, "--module", name),
    *("--prepared_dir", tmp_path / "prepared"),
  ]
  assert error_of(capsys, *words).endswith(
    f"Line 3 of the data file '{name}.tsv' has an empty text in the field "
    "'word'; correct it, or skip such rows with --skip_bad_rows."
  )
  assert not (tmp_path / "prepared" / name).exists()
  shown = printed(capsys, *words, "--skip_bad_rows")
  assert "1 examples" in shown
  shown = printed(
    *(capsys, "inspect", "task", name, "--module", name, "--skip_bad_rows")
  )
  assert (
    f"skipped 2 bad rows: Line 3 of the data file '{name}.tsv' has" in shown
  )


def test_a_name_that_is_not_registered(own, capsys, tmp_path):
  for words in (
    ["inspect", "task", "own_nothing"],
    ["inspect", "mixture", "own_nothing"],
    ["prepare", "--mixture", "own_nothing", "--prepared_dir", tmp_path],
  ):
    assert error_of(capsys, *words).endswith(
      "(--module names the Python module of a task of your own)"
    )


@pytest.mark.parametrize(
  "name, module, sentence",
  [
    (
      "own_a",
      "import nothing_such",
      "own_a, line 1: ModuleNotFoundError: No mo",
    ),
    ("own_b", "x = 1\n\nx.y()", "own_b, line 3: AttributeError: 'int' object"),
    ("own_c", "def (", "own_c: SyntaxError: invalid syntax (own_c.py, line 1)"),
    (
      "own_d",
      MODULE.format(name="own_d").replace("accuracy", "acuracy"),
      "own_d, line 5: No metric is named 'acuracy'; did you mean 'accuracy'",
    ),
  ],
)
def test_a_module_that_cannot_be_imported(own, capsys, name, module, sentence):
  own(name, module=module)
  text = error_of(capsys, "list", "tasks", "--module", name)
  assert text.startswith(f"--module {sentence}")


def test_a_module_that_is_missing(own, tmp_path, monkeypatch):
  for name in ("own_missing", "own.missing"):
    monkeypatch.setenv(user_modules.VARIABLE, name)
    with pytest.raises(UserError) as caught:
      user_modules.import_all()
    assert str(caught.value) == (
      f"--module {name!r} is missing: there is no {name.replace('.', '/')}.py "
      f"in the current folder '{tmp_path}' or elsewhere on the Python path."
    )


def test_a_file_is_no_name_of_a_module(own, monkeypatch):
  for name, instead in (("own/my_nli.py", "my_nli"), ("my-nli", "my_tasks")):
    monkeypatch.setenv(user_modules.VARIABLE, name)
    with pytest.raises(UserError) as caught:
      user_modules.import_all()
    assert str(caught.value) == (
      f"--module '{name}' is no name of a module; write it as in an import, "
      f"such as --module {instead}."
    )


def test_a_study_tells_the_options_to_repeat_it_with(own, monkeypatch):
  assert user_modules.command_options() == []
  monkeypatch.setenv(user_modules.VARIABLE, "own_a,own_b")
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  assert user_modules.command_options() == [
    "--module=own_a",
    "--module=own_b",
    "--skip_bad_rows",
  ]


def test_gin_imports_from_the_current_folder(own, tmp_path):
  (tmp_path / "own_parts.py").write_text("print('imported')")
  (tmp_path / "own.gin").write_text("import own_parts\n")
  script = "import sys\nfrom transformer_zoo.cli import main\nmain.main()"
  # An installed `zoo` has its own folder first on the path, not the current.
  output = subprocess.run(
    [sys.executable, "-P", "-c", script, "train", "--gin_file=own.gin"],
    env=os.environ | {"PYTHONPATH": str(ROOT)},
    capture_output=True,
    text=True,
  )
  assert "imported" in output.stdout, output.stderr


def in_a_new_process(*words):
  script = (
    "import sys\nfrom transformer_zoo.cli import main\nsys.exit(main.main())"
  )
  return subprocess.run(
    [sys.executable, "-P", "-c", script, *map(str, words)],
    env={k: v for k, v in os.environ.items() if k != user_modules.VARIABLE}
    | {"PYTHONPATH": str(ROOT)},
    capture_output=True,
    text=True,
  )


@pytest.mark.slow
def test_a_run_begins_again_from_its_config_gin(own, capsys, tmp_path):
  name = own("own_run")
  tiny = {
    "EMBED_DIM": 8,
    "MLP_DIM": 8,
    "NUM_HEADS": 1,
    "HEAD_DIM": 8,
    "NUM_ENCODER_LAYERS": 1,
    "NUM_DECODER_LAYERS": 1,
    "VOCAB_SIZE": 4096,
    "TRAIN_STEPS": 1,
    "BATCH_SIZE": 8,
    "MIXTURE_OR_TASK_NAME": repr(name),
    "TASK_FEATURE_LENGTHS": {"inputs": 8, "targets": 4},
    "MODEL_DIR": repr(str(tmp_path / "first")),
    "PREPARED_DIR": repr(str(tmp_path / "prepared")),
  }
  files = ["architectures/t5_1_1.gin", "runs/finetune.gin"]
  printed(
    capsys,
    "train",
    f"--module={name}",
    *(f"--gin_file={file}" for file in files),
    *(f"--gin.{key}={value}" for key, value in tiny.items()),
  )
  written = tmp_path / "first" / "config.gin"
  assert f"MIXTURE_OR_TASK_MODULE = '{name}'\n" in written.read_text()
  again = [
    f"--gin_file={written}",
    f"--gin.MODEL_DIR='{tmp_path / 'second'}'",
    f"--gin.PREPARED_DIR='{tmp_path / 'prepared_again'}'",
  ]
  done = in_a_new_process("train", *again)
  assert done.returncode == 0, done.stderr
  first, second = (
    json.loads((tmp_path / run / "result.json").read_text())
    for run in ("first", "second")
  )
  assert first["config_hash"] == second["config_hash"]
  assert first["loss"] == second["loss"]


@pytest.mark.parametrize("value, names", [("'a, b'", ["a", "b"]), (None, [])])
def test_the_macro_in_a_gin_file(own, tmp_path, value, names):
  (tmp_path / "own.gin").write_text(f"MIXTURE_OR_TASK_MODULE = {value}\n")
  config.load(["own.gin"], root=None)
  assert user_modules.names() == names


def test_a_macro_that_is_no_name(own, tmp_path):
  (tmp_path / "own.gin").write_text("MIXTURE_OR_TASK_MODULE = 3\n")
  with pytest.raises(
    UserError,
    match="own.gin:1: MIXTURE_OR_TASK_MODULE is 3; it is the name of a Python",
  ):
    config.load(["own.gin"], root=None)
