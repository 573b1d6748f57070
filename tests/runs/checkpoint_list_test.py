"""`zoo checkpoints`."""

import contextlib
import json

import numpy as np
import pytest

from transformer_zoo.training.checkpoints.retention import Checkpointing
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.state import TrainState


@pytest.fixture
def run(tmp_path):
  """A run of three steps: step 2 was the best, step 3 is damaged."""
  with contextlib.closing(
    Checkpoints(
      tmp_path / "checkpoints", Checkpointing(newest=3), lambda _: None
    )
  ) as checkpoints:
    for step in (1, 2, 3):
      params = {"kernel": np.arange(1000, dtype=np.float32)}
      checkpoints.save(step, TrainState(np.int32(step), params, ()), {})
  lines = [
    {"step": 1, "validation/average": 0.25},
    {"step": 2, "validation/average": 0.75},
  ]
  text = "".join(json.dumps(line) + "\n" for line in lines)
  (tmp_path / "metrics.jsonl").write_text(text)
  (tmp_path / "result.json").write_text('{"best_step": 2, "step": 4}')
  data = tmp_path / "checkpoints" / "3" / "state" / "d"
  largest = max(data.iterdir(), key=lambda path: path.stat().st_size)
  largest.write_bytes(largest.read_bytes()[:-1] + b"?")
  return tmp_path


def test_a_listing(zoo, run):
  code, output, _ = zoo("checkpoints", run)
  lines = output.splitlines()
  assert code == 0 and len(lines) == 3
  assert lines[0].endswith("files  score   0.2500  has checksums")
  assert lines[1].endswith("score   0.7500  best, has checksums")
  assert lines[2].endswith("files  has checksums")


def test_one_of_its_checkpoints_means_the_run(zoo, run, monkeypatch):
  code, expected, _ = zoo("checkpoints", run)
  for path in ("2", "3/", "../checkpoints"):
    assert zoo("checkpoints", run / "checkpoints" / path)[1] == expected
  monkeypatch.chdir(run / "checkpoints" / "2")
  assert zoo("checkpoints", ".")[:2] == (code, expected)
  (run / "checkpoints" / "1").rename(run / "alone")
  assert zoo("checkpoints", run / "alone") == (
    2,
    "",
    f"zoo: error: {str(run / 'alone')!r} is one checkpoint, and lies in no "
    "run's checkpoints/; give the folder of a run\n",
  )


def test_the_score_is_what_the_run_chose_by(zoo, run):
  """As its own configuration says."""
  loss = "validation/wikitext/loss"
  (run / "config.gin").write_text(f"Checkpointing.metric = {loss!r}\n")
  lines = [
    {"step": step, "validation/average": 0.5, loss: 4.0 - step}
    for step in (1, 2)
  ]
  text = "".join(json.dumps(line) + "\n" for line in lines)
  (run / "metrics.jsonl").write_text(text)
  _, output, _ = zoo("checkpoints", run, "--json")
  found = json.loads(output)
  assert [found[step]["score"] for step in "123"] == [3.0, 2.0, None]


def test_damage_is_found(zoo, run):
  (run / "checkpoints" / "2" / "checksums.json").unlink()
  (run / "checkpoints" / "9.damaged").mkdir()
  code, output, _ = zoo("checkpoints", run, "--verify", "--json")
  found = json.loads(output)
  assert code == 1 and list(found) == ["1", "2", "3", "9.damaged"]
  assert [entry["is_damaged"] for entry in found.values()] == [0, 0, 1, 1]
  assert found["1"]["state"] == "whole"
  assert found["2"]["state"] == "lacks checksums" and found["2"]["is_best"]
  assert found["3"]["state"].startswith("damaged: state/d/")
  assert found["3"]["state"].endswith(" has changed since it was written")
  assert "was put aside as damaged" in found["9.damaged"]["state"]
  assert found["1"]["files"] > 3 and found["1"]["gigabytes"] > 0


def test_none(zoo, tmp_path):
  code, _, error = zoo("checkpoints", tmp_path)
  assert code == 2
  assert error.startswith("zoo: error: no checkpoint in ")
