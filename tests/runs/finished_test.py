"""Finished runs that are started again."""

import json
import shutil

import pytest

from transformer_zoo.training.checkpoints import checksums


@pytest.fixture
def copied(finished, tmp_path):
  """A copy of a finished run, and the folder of its best checkpoint."""
  folder = tmp_path / "run"
  shutil.copytree(finished, folder)
  result = json.loads((folder / "result.json").read_text())
  return folder, folder / "checkpoints" / str(result["best_step"])


def damage(checkpoint) -> str:
  """Flips bits of a file; returns its name."""
  files = [path for path in checkpoint.rglob("*/d/*") if path.is_file()]
  largest = max(files, key=lambda path: path.stat().st_size)
  largest.write_bytes(largest.read_bytes()[:-1] + b"?")
  return largest.relative_to(checkpoint).as_posix()


@pytest.mark.slow
def test_a_damaged_best_checkpoint_is_an_error(train, copied):
  folder, best = copied
  name = damage(best)
  code, _, error = train(folder)
  assert code == 2
  assert error == (
    f"zoo: error: {str(folder)!r} has finished, but its best checkpoint "
    f"{str(best)!r} is damaged: {name} has changed since it was written. Its "
    f"scores stay valid. To train it again, delete '{folder / 'result.json'}' "
    f"and the checkpoints of step {best.name} and later, and start the same "
    "command; to do without it, delete the checkpoint\n"
  )


@pytest.mark.slow
def test_it_can_be_trained_again(train, copied):
  folder, best = copied
  damage(best)
  before = (folder / "metrics.jsonl").read_bytes()
  (folder / "result.json").unlink()
  for checkpoint in (folder / "checkpoints").iterdir():
    if int(checkpoint.name) >= int(best.name):
      shutil.rmtree(checkpoint)
  assert train(folder)[0] == 0
  assert (folder / "metrics.jsonl").read_bytes() == before
  assert checksums.verify(best)
  code, output, _ = train(folder)
  assert code == 0 and f"{folder} has finished before" in output


def test_a_deleted_best_checkpoint_is_none(train, copied):
  folder, best = copied
  shutil.rmtree(best)
  code, output, _ = train(folder)
  assert code == 0 and f"{folder} has finished before" in output
