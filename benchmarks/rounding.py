"""Measures how far a machine's rounding moves each column of a suite.

    python benchmarks/rounding.py --suite miniature --seeds 3

Runs table 1 with the same seeds in environments that differ in nothing but how
sums are rounded: other vector instructions, another number of threads, other
kernels. Prints for each row and column the standard deviation over seeds in one
environment, the one over environments with one seed, and how far the mean of an
environment lies from the mean of all; then `Suite.rounding` as the suite binds
it. Interrupted, it goes on where it was.
"""

import argparse
import os
import pathlib
import subprocess
import sys

import numpy as np

from transformer_zoo.studies.design.suite import MEAN
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.statistics import scores

STUDY = "table1"
# Flags of XLA and the number of threads.
ENVIRONMENTS = {
  "avx512": ("--xla_cpu_max_isa=AVX512", 1),
  "avx2": ("--xla_cpu_max_isa=AVX2", 1),
  "two_threads": ("--xla_cpu_max_isa=AVX512", 2),
  "plain_kernels": (
    "--xla_cpu_max_isa=AVX512 --xla_cpu_experimental_ynn_fusion_type=invalid",
    1,
  ),
}


def run(name: str, folder: pathlib.Path, suite: str, seeds: int) -> None:
  """Runs the study in an environment; finished runs are reused."""
  flags, threads = ENVIRONMENTS[name]
  words = [sys.executable, "-m", "transformer_zoo.cli.main", "ablate", STUDY]
  words += [f"--suite={suite}", f"--seeds={seeds}", f"--output_dir={folder}"]
  cores = sorted(os.sched_getaffinity(0))
  if len(cores) < threads:
    raise SystemExit(f"{name} needs {threads} cores; {len(cores)} are there")
  subprocess.run(
    words,
    check=True,
    env=os.environ | {"XLA_FLAGS": flags},
    preexec_fn=lambda: os.sched_setaffinity(0, cores[:threads]),
  )


def measured(folders: list[pathlib.Path]) -> dict[str, dict[str, np.ndarray]]:
  """Returns the scores by row and column, [environments, seeds].

  The mean of columns stands beside the columns.
  """
  tables = []
  for folder in folders:
    [study] = folder.glob(f"{STUDY}-*/{results.STUDY_FILE}")
    tables.append(scores.build(results.read(study.parent)))
  columns = {name: (name,) for name in tables[0].columns}
  columns[MEAN] = tables[0].score_columns
  return {
    row: {
      name: np.array(
        [[*table.seed_means(row, of).values()] for table in tables]
      )
      for name, of in columns.items()
    }
    for row in tables[0].rows
  }


def pooled(values: np.ndarray, axis: int) -> float:
  """Returns the standard deviation along an axis, pooled over the other."""
  return float(np.sqrt(np.var(values, axis=axis, ddof=1).mean()))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
  parser.add_argument("--suite", default="miniature")
  parser.add_argument("--seeds", type=int, default=3)
  parser.add_argument("--output_dir", default="runs/rounding")
  parser.add_argument("--environments", nargs="+", default=[*ENVIRONMENTS])
  read = parser.parse_args()
  folders = []
  for name in read.environments:
    folders.append(pathlib.Path(read.output_dir) / read.suite / name)
    run(name, folders[-1], read.suite, read.seeds)
  found = measured(folders)
  print("| row | column | seeds | rounding |", *read.environments, sep=" | ")
  for row, columns in found.items():
    for column, values in columns.items():
      moved = values.mean(axis=1) - values.mean()
      numbers = [pooled(values, 1), pooled(values, 0), *moved]
      print(f"| {row} | {column} |", *(f"{x:+.2f} |" for x in numbers))
  baseline = next(iter(found.values()))
  print("\nSuite.rounding = {")
  for column, values in baseline.items():
    print(f'  "{column}": {pooled(values, 0):.1f},')
  print("}")


if __name__ == "__main__":
  main()
