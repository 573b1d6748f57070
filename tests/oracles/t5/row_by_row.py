"""Compares the lines of our tasks with those of the t5 package's."""

from collections.abc import Callable, Iterator
import contextlib
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
from typing import Any

import tasks  # noqa: F401 (registers ours)
from tests.oracles.t5 import text_to_text_rows

ROOT = pathlib.Path(__file__).resolve().parents[3]
T5_PACKAGE = pathlib.Path(sys.prefix) / "t5_package"

# From a request to the lines that answer it.
Lines = Callable[[dict[str, Any]], Iterator[str]]


@contextlib.contextmanager
def running(data_dir: pathlib.Path) -> Iterator[Lines]:
  """Runs the tasks of the t5 package in a process of their own."""
  process = subprocess.Popen(
    [sys.executable, "-m", "tests.oracles.t5.t5_package", data_dir / "tfds"],
    cwd=ROOT,
    env=os.environ | {"PYTHONPATH": str(T5_PACKAGE)},
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    encoding="utf-8",
  )

  def lines(request: dict[str, Any]) -> Iterator[str]:
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    for line in process.stdout:
      line = line.rstrip("\n")
      if line == "null":
        return
      assert line.startswith("["), f"the t5 package fails: {line}"
      yield line
    raise AssertionError("the process of the t5 package has ended")

  try:
    yield lines
  finally:
    process.stdin.close()
    process.wait()


def compare(
  request: dict[str, Any], t5_package: Lines, data_dir: pathlib.Path
) -> tuple[int, int]:
  """Compares all lines; returns how many there are and how many are errors."""
  ours = text_to_text_rows.lines(request, str(data_dir / "tfds"))
  theirs = t5_package(request)
  count = failed = 0
  difference = None
  try:
    for our, their in itertools.zip_longest(ours, theirs):
      if our != their and difference is None:
        our, their = _without_deliberate(request["task"], our, their)
        if our != their:
          difference = f"example {count}\nours: {our}\nt5's: {their}"
      failed += our == '["error"]'
      count += 1
  finally:
    for _ in theirs:  # the answer to the next request comes after them
      pass
  assert difference is None, difference
  return count, failed


def _unreadable_number(theirs: list[Any]) -> list[Any]:
  """A prediction `nan` or `inf` is no number for us; t5 lets it through."""
  fields, target, answers = theirs
  readable = [
    [text, value if math.isfinite(value) else -1.0] for text, value in answers
  ]
  return [fields, target, readable]


def _gaps_count(theirs: list[Any]) -> list[Any]:
  """Our passage has a word in each gap that the places in targets count."""
  fields, target, answers = theirs
  signs = "".join(
    c if c.isascii() and (c.isalnum() or c == "_") else " "
    for c in target["context"]
  )
  words = ["_" if word == "" else word for word in signs.split(" ")]
  return [fields, target | {"context": " ".join(words)}, answers]


# Task -> t5's line -> the line with what differs on purpose.
DELIBERATE = {
  "glue_stsb_v002": _unreadable_number,
  "squad_v010_allanswers_span": _gaps_count,
}


def _without_deliberate(
  task: str, our: str | None, their: str | None
) -> tuple[Any, Any]:
  """Returns both lines, t5's with the differences that we want."""
  errors = (None, '["error"]')
  if task not in DELIBERATE or our in errors or their in errors:
    return our, their
  return json.loads(our), DELIBERATE[task](json.loads(their))
