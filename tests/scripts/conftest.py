"""Programs that only write down what they were called with."""

import json
import os
import pathlib
import subprocess

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"
# What a program is called with, its input, then what it does itself.
RECORD = """#!/usr/bin/env -S python3 -SE
import json, os, sys
folder = os.environ["FAKE"]
text = "" if sys.stdin.isatty() else sys.stdin.read()
words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
with open(f"{folder}/calls", "a") as calls:
  calls.write(json.dumps(words) + "\\n")
with open(f"{folder}/input", "a") as file:
  file.write(text)
"""


class Programs:
  """Fakes on the PATH, and the scripts that call them."""

  def __init__(self, folder):
    self.folder = folder

  def add(self, name, text=""):
    """A program that records its calls and then does what `text` says."""
    path = self.folder / name
    path.write_text(RECORD + text)
    path.chmod(0o755)

  @property
  def calls(self):
    """Every call: its words."""
    path = self.folder / "calls"
    return list(map(json.loads, path.read_text().splitlines()))

  @property
  def environment(self):
    """The variables that scripts are run with."""
    return os.environ | {
      "FAKE": str(self.folder),
      "PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}",
      "ZOO_POLL_SECONDS": "0",
    }

  def script(self, name, *words):
    """Runs a script to its end."""
    return subprocess.run(
      [str(SCRIPTS / name), *words],
      env=self.environment,
      stdin=subprocess.DEVNULL,
      capture_output=True,
      text=True,
      timeout=200,
    )

  def start(self, name, *words):
    """Starts a script."""
    return subprocess.Popen(
      [str(SCRIPTS / name), *words],
      env=self.environment,
      stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )


@pytest.fixture
def programs(tmp_path):
  """Fakes on the PATH, none yet."""
  folder = tmp_path / "programs"
  folder.mkdir()
  return Programs(folder)
