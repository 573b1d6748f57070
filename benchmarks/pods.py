"""Forecasts for docs/guides/pods.md: `python benchmarks/pods.py`, in hours.

`zoo precompile` for T5 and T5.1.1 on TPU slices, one cell after the other, the
decisive ones first. What is in `docs/pods/forecasts.jsonl` is not done again,
so it goes on where it was; while the file named by --pause exists it waits.
`--show` makes the tables and plots of what is there and compiles nothing.
"""

import argparse
from collections.abc import Iterator
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time

import pods_tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "pods" / "forecasts.jsonl"
# Size -> what the backward pass computes again; the largest first.
SIZES = {
  "t5_1_1_xxl": "full",
  "t5_1_0_11b": "full",
  "t5_1_1_xl": "full",
  "t5_1_0_3b": "full",
  "t5_1_0_large": "minimal",
  "t5_1_0_base": "minimal",
}
BATCHES = (128, 2048)
# Chips of a slice -> its shape, as Cloud TPU offers it.
SHAPES = {
  "v5e": {
    8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16",
  },
  "v4": {
    8: "2x2x2", 16: "2x2x4", 32: "2x4x4", 64: "4x4x4", 128: "4x4x8",
    256: "4x8x8", 512: "8x8x8",
  },
}  # fmt: skip
SHAPES["v5p"] = SHAPES["v4"]
# Rows of a batch that a device computes at a time, at most.
ROWS = 16
SCALED = ("t5_1_1_xxl", "t5_1_1_xl", "t5_1_0_base")
WEAK_ROWS = 8


@dataclasses.dataclass(frozen=True)
class Cell:
  """One forecast."""

  size: str
  batch: int
  chip: str
  chips: int

  @property
  def topology(self) -> str:
    """v5e:2x4."""
    return f"{self.chip}:{SHAPES[self.chip][self.chips]}"

  @property
  def bindings(self) -> dict[str, object]:
    """Fully sharded; in two dimensions where there are too few rows for that.

    A step goes through its batch in parts where a device has many rows.
    """
    partitions = max(1, self.chips // min(self.batch, 512))
    fsdp = self.chips // partitions
    if self.size == "t5_1_0_base":  # Its 768 dimensions divide by 256 at most.
      fsdp = min(fsdp, 256)
    rows = self.batch * partitions // self.chips
    return {
      "NUM_PARTITIONS": partitions,
      "FSDP": fsdp,
      "BATCH_SIZE": self.batch,
      "NUM_MICROBATCHES": max(1, rows // ROWS),
      "SCAN_LAYERS": True,
      "REMAT": SIZES[self.size],
      "DROPOUT_RATE": 0.0,
    }


def cells() -> Iterator[Cell]:
  """Every cell of the document; what decides most comes first."""
  for size in ("t5_1_1_xxl", "t5_1_0_11b"):
    for batch in BATCHES:
      yield from _until_it_fits(size, batch, "v5e")
  for chip in ("v5e", "v5p", "v4"):
    for batch in BATCHES:
      for size in SIZES:
        yield from _until_it_fits(size, batch, chip)
  yield from _scaled()


def _scaled() -> Iterator[Cell]:
  """The curves, coarse ones first."""
  for chips in (8, 512, 64, 128, 32, 256, 16):
    for size in SCALED:
      yield Cell(size, 2048, "v5p", chips)
      yield Cell(size, WEAK_ROWS * chips, "v5p", chips)


def _until_it_fits(size: str, batch: int, chip: str) -> Iterator[Cell]:
  for chips in SHAPES[chip]:
    cell = Cell(size, batch, chip, chips)
    yield cell
    if known().get(cell, {}).get("fits"):
      return


def known() -> dict[Cell, dict]:
  """What has been forecast."""
  if not RESULTS.exists():
    return {}
  rows = map(json.loads, RESULTS.read_text().splitlines())
  # What went wrong is tried again.
  return {Cell(**row["cell"]): row for row in rows if "error" not in row}


def forecast(cell: Cell) -> dict:
  """Runs the command in a process of its own."""
  command = [
    *(sys.executable, "-m", "transformer_zoo.cli.main", "precompile"),
    f"--topology={cell.topology}",
    "--json",
    f"--gin_file=architectures/{cell.size[:6]}.gin",
    f"--gin_file=sizes/{cell.size}.gin",
    "--gin_file=runs/pretrain.gin",
    *(f"--gin.{name}={value!r}" for name, value in cell.bindings.items()),
  ]
  done = subprocess.run(command, capture_output=True, text=True)
  if not done.stdout:
    return {"error": done.stderr.strip().splitlines()[-1]}
  report = json.loads(done.stdout)
  del report["parameters"], report["formula"]
  return report


def main():
  """Forecasts what is missing, then makes tables and plots."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--show", action="store_true", help="compile nothing")
  parser.add_argument("--pause", help="waits while this file exists")
  parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
  arguments = parser.parse_args()
  if not arguments.show:
    os.nice(10)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    for cell in cells():
      if cell in known() or cell.size not in arguments.sizes:
        continue
      while arguments.pause and pathlib.Path(arguments.pause).exists():
        time.sleep(10)
      start = time.time()
      row = {
        "cell": dataclasses.asdict(cell),
        "bindings": cell.bindings,
        **forecast(cell),
      }
      with RESULTS.open("a") as results:
        results.write(json.dumps(row) + "\n")
      print(
        f"{cell}: fits {row.get('fits')}, {time.time() - start:.0f} s",
        flush=True,
      )
  pods_tables.write(list(known().values()), RESULTS.parent)


if __name__ == "__main__":
  main()
