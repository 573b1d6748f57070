"""Writes the parameter tree of each architecture: path, shape, logical axes.

  .venv/bin/python -m tests.golden.update_parameter_trees

tests/architectures/parameters_test.py compares the models with the files. A
path that moves breaks checkpoints: update with a reason.
"""

import pathlib

from flax import traverse_util

from tests import tiny_t5
from transformer_zoo import config

TREES = [
  (architecture, scan)
  for architecture in tiny_t5.ARCHITECTURES
  for scan in (False, True)
]


def path(architecture: str, scan: bool) -> pathlib.Path:
  """tests/golden/parameters_t5_1_0.txt, or parameters_t5_1_0_scanned.txt."""
  suffix = "_scanned" if scan else ""
  return pathlib.Path(__file__).parent / (
    f"parameters_{architecture}{suffix}.txt"
  )


def shapes(size: str, *, scan: bool):
  """Boxed parameters of sizes/<size>.gin, by shape evaluation."""
  architecture = "_".join(size.split("_")[:3])
  config.load(
    [f"architectures/{architecture}.gin", f"sizes/{size}.gin"],
    [f"SCAN_LAYERS={scan}"],
    root="MODEL",
  )
  return tiny_t5.shapes(config.value("MODEL"))


def text(architecture: str, scan: bool) -> str:
  """One line per parameter of the small size, in order of their paths."""
  flat = traverse_util.flatten_dict(
    shapes(f"{architecture}_small", scan=scan), sep="/"
  )
  return "".join(
    f"{name} {'x'.join(map(str, flat[name].unbox().shape))} "
    f"{','.join(map(str, flat[name].names))}\n"
    for name in sorted(flat)
  )


def main():
  for architecture, scan in TREES:
    path(architecture, scan).write_text(
      text(architecture, scan), encoding="utf-8"
    )


if __name__ == "__main__":
  main()
