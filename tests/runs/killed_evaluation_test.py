"""`zoo evaluate` killed from outside, in the middle of a batch."""

import os
import signal
import subprocess
import sys

import pytest

# Halts where the second batch of a task is half written.
HALTING = """
import sys
sys.modules["seqio"] = None
from transformer_zoo.cli import main
from transformer_zoo.evaluation import journal
append = journal.Journal.append
def halt(self, rows):
  if len(self.batches) == 1:
    self._file.write(b'[{"log_likelihood": -1')
    self._file.flush()
    print("halted", flush=True)
    sys.stdin.read()
  append(self, rows)
journal.Journal.append = halt
sys.exit(main.main())
"""


def contents(folder):
  return {
    path.relative_to(folder).as_posix(): path.read_bytes()
    for path in folder.rglob("*")
    if path.is_file()
  }


@pytest.mark.slow
def test_killed_it_continues_to_the_same_files(zoo, train, tmp_path):
  code, _, error = train(tmp_path / "run", "TRAIN_STEPS=2")
  assert code == 0, error
  words = ["evaluate", f"--checkpoint={tmp_path / 'run'}", "--mixture=colours"]
  code, _, error = zoo(*words, f"--output_dir={tmp_path / 'whole'}")
  assert code == 0, error
  process = subprocess.Popen(
    [
      *(sys.executable, "-c", HALTING, *words),
      f"--output_dir={tmp_path / 'killed'}",
    ],
    env=os.environ | {"PYTHONUNBUFFERED": "1"},
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )
  with process:
    lines = []
    for line in process.stdout:
      lines.append(line)
      if line == "halted\n":
        break
    process.send_signal(signal.SIGKILL)
  assert process.returncode == -signal.SIGKILL, "".join(lines)
  cut = contents(tmp_path / "killed")
  assert [name.rpartition("/")[2] for name in cut] == ["colours.journal"]
  code, _, error = zoo(*words, f"--output_dir={tmp_path / 'killed'}")
  assert code == 0, error
  assert "colours: 8 of 20 examples are in " in error
  assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
