"""Plants each fault of the table and names the test that finds it.

A fault is planted alone, in a copy of the tree in a temporary folder. The fast
tests of the files that the table names run first, the slow ones only if no fast
one fails. The exit status is 1 if a fault is found by no test, or if its line
is no longer in the sources.
"""

import argparse
import collections
from concurrent import futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from tests.faults.table import Fault
from tests.faults.table import FAULTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST_SECONDS = 1200
COPIED = (
  "transformer_zoo", "tasks", "mixtures", "gin_configs", "tests", "docs",
  "scripts", "benchmarks", "setup.py", "pytest.ini", "README.md",
  "constraints.txt",
)  # fmt: skip


def main() -> int:
  """Returns the exit status."""
  parser = argparse.ArgumentParser(prog="python -m tests.faults")
  parser.add_argument("words", nargs="*", help="parts of paths; all by default")
  parser.add_argument("--jobs", type=int, default=1)
  parser.add_argument("--tree", type=pathlib.Path, default=ROOT)
  parser.add_argument("--list", action="store_true", help="plant nothing")
  arguments = parser.parse_args()
  faults = [
    fault
    for fault in FAULTS
    if not arguments.words or any(w in fault.path for w in arguments.words)
  ]
  if arguments.list:
    for fault in faults:
      print(f"{fault.path}: {fault.before!r} -> {fault.after!r}")
    return 0
  outcomes = []
  with (
    futures.ThreadPoolExecutor(arguments.jobs) as pool,
    tempfile.TemporaryDirectory(prefix="faults_programs_") as programs,
  ):
    # A fault leaves most programs as they are: they are compiled once.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = programs
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    os.environ["JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"] = "none"
    for fault, outcome, seconds in pool.map(
      lambda fault: planted(fault, arguments.tree), faults
    ):
      change = f"{fault.path}: {fault.before!r} -> {fault.after!r}"
      print(f"{outcome}  ({seconds:.0f} s)  {change}", flush=True)
      outcomes.append((fault.room, outcome))
  return summary(outcomes)


def planted(fault: Fault, tree: pathlib.Path) -> tuple[Fault, str, float]:
  """Returns the fault, which test found it, and the seconds that it took."""
  start = time.monotonic()
  if (tree / fault.path).read_text("utf-8").count(fault.before) != 1:
    return fault, "STALE", 0.0
  with tempfile.TemporaryDirectory(prefix="faults_") as folder:
    copy = pathlib.Path(folder)
    for name in COPIED:
      source = tree / name
      if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, copy / name, ignore=ignored)
      else:
        shutil.copy(source, copy / name)
    path = copy / fault.path
    text = path.read_text("utf-8").replace(fault.before, fault.after)
    path.write_text(text, "utf-8")
    tests = [test for test in fault.tests if (copy / test).exists()]
    outcome = "NOT FOUND"
    try:
      for marker in ("not slow", "slow"):
        if found := first_failure(copy, tests, marker, tree):
          outcome = f"found by {found}"
          break
    except RuntimeError as error:
      outcome = f"BROKE {error}"
  return fault, outcome, time.monotonic() - start


def first_failure(
  copy: pathlib.Path, tests: list[str], marker: str, tree: pathlib.Path
) -> str | None:
  """Returns the first test that fails in the copy; None if all pass."""
  data = os.environ.get("ZOO_SHARED_DATA", str(tree.parent / "shared" / "data"))
  try:
    done = subprocess.run(
      [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
      + ["-m", marker, *tests],
      cwd=copy,
      # Before the installed package, in subprocesses of tests too.
      env={**os.environ, "PYTHONPATH": str(copy), "ZOO_SHARED_DATA": data},
      capture_output=True,
      text=True,
      check=False,
      timeout=LONGEST_SECONDS,
    )
  except subprocess.TimeoutExpired:
    return f"no end within {LONGEST_SECONDS} s"
  if named := re.search(
    r"^(?:FAILED|ERROR) (.+?::.+?)(?: - .*)?$", done.stdout, re.M
  ):
    return named[1]
  # 0: all pass, 5: no test has this mark. All else is no test's finding: a
  # fault that breaks every import proves nothing of the tests.
  if done.returncode not in (0, 5):
    raise RuntimeError(f"{tests}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
  return None


def summary(outcomes: list[tuple[str, str]]) -> int:
  """Prints how many were planted and found by room; returns the status."""
  planted = collections.Counter(room for room, _ in outcomes)
  found = collections.Counter(
    room for room, outcome in outcomes if outcome.startswith("found")
  )
  print(f"\n{'room':<16} planted  found")
  for room in sorted(planted):
    print(f"{room:<16} {planted[room]:>7} {found[room]:>6}")
  print(f"{'all':<16} {planted.total():>7} {found.total():>6}")
  return int(planted.total() != found.total())


if __name__ == "__main__":
  sys.exit(main())
