"""Which configurations may go on in a run folder."""

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.experiment import run_folder


def text(folder, start):
  return (
    f"INITIAL_CHECKPOINT_PATH = {start!r}\nMODEL_DIR = {folder!r}\n"
    "TRAIN_STEPS = 5\n"
  )


def goes_on(tmp_path, before, now):
  """Whether the run goes on; the refusal names nothing but the checkpoint."""
  (tmp_path / "config.gin").write_text(before)
  try:
    run_folder.check(tmp_path, now)
  except UserError as error:
    (_, place), (_, other) = (
      line.split(" = ")
      for line in (before.splitlines()[0], now.splitlines()[0])
    )
    assert f"(INITIAL_CHECKPOINT_PATH was {place} and is {other})" in str(error)
    return False
  return True


@pytest.mark.parametrize(
  "folder, start",
  [
    ("new/fine", "new/pre/checkpoints/5"),  # Moved.
    ("/new/fine", "/new/pre/checkpoints/5"),
    ("other/fine", "./runs/../runs/pre/checkpoints/5"),  # The run folder only.
    ("runs/fine", "link/pre/checkpoints/5"),
    ("/new/fine", "{here}/runs/pre/checkpoints/5"),
  ],
)
def test_a_checkpoint_may_be_spelled_another_way(
  tmp_path, monkeypatch, folder, start
):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "runs").mkdir()
  (tmp_path / "link").symlink_to("runs")
  before = text("runs/fine", "runs/pre/checkpoints/5")
  assert goes_on(tmp_path, before, text(folder, start.format(here=tmp_path)))


@pytest.mark.parametrize(
  "folder, start",
  [
    ("runs/fine", "runs/pre/checkpoints/10"),
    ("runs/fine", "runs/pre2/checkpoints/5"),
    ("new/fine", "/elsewhere/pre/checkpoints/5"),
    ("gs://b/fine", "gs://b/other/checkpoints/5"),
    ("runs/fine", None),
  ],
)
def test_another_checkpoint_is_refused(tmp_path, folder, start):
  before = text("runs/fine", "runs/pre/checkpoints/5")
  assert not goes_on(tmp_path, before, text(folder, start))
