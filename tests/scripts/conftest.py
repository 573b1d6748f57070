"""Programs that only write down what they were called with."""

import os
import pathlib
import subprocess

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"
# What a program is called with, its input, then what it does itself. A call
# ends with one separator of ASCII, its words with another. Bash writes
# line by line, and scripts call programs side by side: hence the lock.
RECORD = r"""#!/bin/bash
words=$(printf '%s\x1f' "${0##*/}" "$@")
{ flock 9; printf '%s\x1e' "$words" >>"$FAKE/calls"; } 9>"$FAKE/lock"
[[ -t 0 ]] || cat >>"$FAKE/input"
"""


class Programs:
  """Fakes on the PATH, and the scripts that call them."""

  def __init__(self, folder):
    self.folder = folder

  def add(self, name, text=""):
    """A program that records its calls, then runs `text` in bash."""
    path = self.folder / name
    path.write_text(RECORD + text)
    path.chmod(0o755)

  @property
  def calls(self):
    """Every call: its words."""
    path = self.folder / "calls"
    calls = path.read_text().split("\x1e")[:-1]
    return [call.split("\x1f")[:-1] for call in calls]

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
