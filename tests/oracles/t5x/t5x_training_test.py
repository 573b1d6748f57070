"""One of our architectures trained by T5X's own trainer, and taken home."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests import quick_compilation
from tests.oracles.t5x import t5x_package

t5x_package.require()

import transformer_zoo  # noqa: E402
from transformer_zoo.cli import main as cli  # noqa: E402

ROOT = pathlib.Path(transformer_zoo.__file__).parent.parent
VOCABULARY = ROOT / "tasks" / "miniature" / "vocabulary.model"
STEPS = 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """The folder of gin_configs/t5x/miniature.gin, cut short."""
  folder = tmp_path_factory.mktemp("t5x") / "run"
  bindings = {
    "MODEL_DIR": str(folder),
    "VOCABULARY_FILE": str(VOCABULARY),
    "TRAIN_STEPS": STEPS,
    "utils.SaveCheckpointConfig.period": STEPS,
    "train.eval_period": STEPS,
  }
  finished = subprocess.run(
    [
      *(sys.executable, "-m", "t5x.train", "--gin_file=t5x/miniature.gin"),
      f"--gin_search_paths={ROOT / 'gin_configs'}",
      *(f"--gin.{name}={value!r}" for name, value in bindings.items()),
    ],
    # Of the devices that tests make, T5X's default mesh would take all.
    env={**os.environ, "XLA_FLAGS": quick_compilation.FLAGS},
    cwd=ROOT,
    capture_output=True,
    text=True,
  )
  assert finished.returncode == 0, finished.stderr[-2000:]
  return folder


def test_what_t5x_has_trained_becomes_a_run_of_ours(trained, tmp_path, capsys):
  assert (trained / f"checkpoint_{STEPS}").is_dir()
  target = tmp_path / "ours"
  arguments = [
    *("convert", str(trained), str(target)),
    "--gin_file=architectures/t5_1_1.gin",
    "--gin_file=sizes/miniature.gin",
    f"--vocabulary={VOCABULARY}",
  ]
  code = cli.main(arguments)
  captured = capsys.readouterr()
  assert code == 0, captured.err
  assert "52 tensors" in captured.out
  assert (target / "checkpoints" / str(STEPS)).is_dir()
