"""Compares training steps by their attention kernel, compiled for TPUs.

    python benchmarks/attention/steps.py --results FILE

Each step of `STEPS` is compiled by `zoo precompile` with each kernel, for TPUs
that need not be there (libtpu, the extra `tpu`), and a table of temporaries,
bytes, and the bounds of the roofline is printed, the utilisation at best by the
counted and by the compiled bytes. What is in FILE is not compiled again.
`--gin BINDING` binds more, as `SCAN_LAYERS=False`. Nothing is run: no time is
measured.
"""

import argparse
import json
import pathlib
import subprocess
import sys

GIB = 2**30
KERNELS = ("reference", "chunked", "fused")
# Topology, partitions of the model, size, lengths of inputs and targets, rows.
STEPS = (
  ("v5e:4x4", 1, "base", 512, 114, 128),
  ("v5e:4x4", 4, "base", 512, 114, 128),
  ("v5e:4x4", 1, "base", 2048, 512, 32),
  ("v5e:4x4", 1, "base", 8192, 512, 16),
  ("v5p:2x2x1", 1, "base", 512, 114, 128),
  ("v6e:2x2", 1, "base", 512, 114, 128),
  ("v5e:4x4", 1, "large", 512, 114, 128),
  ("v5p:2x2x4", 1, "xl", 512, 114, 128),
)


def command(step, kernel: str, overrides) -> list[str]:
  """The command that forecasts a step."""
  topology, partitions, size, inputs, targets, rows = step
  files = (
    "architectures/t5_1_1.gin",
    f"sizes/t5_1_1_{size}.gin",
    "runs/pretrain.gin",
    f"parts/attention/kernels/{kernel}.gin",
  )
  bindings = (
    f"NUM_PARTITIONS={partitions}",
    *(["FSDP=-1"] if size != "base" else []),
    f"TASK_FEATURE_LENGTHS={{'inputs': {inputs}, 'targets': {targets}}}",
    f"BATCH_SIZE={rows}",
    "SCAN_LAYERS=True",
    *overrides,
  )
  return [
    *(sys.executable, "-m", "transformer_zoo.cli.main", "precompile", "--json"),
    "--traffic",
    f"--topology={topology}",
    *(f"--gin_file={name}" for name in files),
    *(f"--gin.{binding}" for binding in bindings),
  ]


def row_of(report: dict) -> dict:
  """What the table shows of a forecast."""
  memory, roofline = report["memory"], report["roofline"]
  return {
    "temporaries": memory.get("temporaries"),
    "needed": memory["needed"],
    "available": memory["available"],
    "bytes": report["cost"]["bytes_accessed"],
    "compiled_bytes": sum(row["bytes"] for row in report["traffic"]),
    "attention_bytes": sum(
      row["bytes"] for row in report["traffic"] if "attention" in row["part"]
    ),
    "matmul_flops": report["cost"]["matmul_flops"],
    "memory_bandwidth": report["chip"]["memory_bandwidth"],
    "model_flops": report["model_flops"],
    "roofline": roofline,
    "compile_seconds": report["compile_seconds"],
  }


def line(step, kernel: str, row: dict) -> str:
  """A row of the table."""
  topology, partitions, size, inputs, targets, rows = step
  name = (
    f"{size}, {rows} x {inputs}/{targets}, {topology}, {partitions} a model"
  )
  cells = [name, kernel]
  if "error" in row:
    return " | ".join([*cells, row["error"]])
  bounds = row["roofline"]
  if bounds is None:
    needed = "more" if row["needed"] is None else f"{row['needed'] / GIB:.1f}"
    return " | ".join([*cells, f"does not fit: {needed} GiB"])
  cells += [
    f"{row['temporaries'] / GIB:.2f} GiB",
    f"{row['bytes'] / 1e9:,.0f} GB",
    f"{row['compiled_bytes'] / 1e9:.1f} GB",
    f"{row['attention_bytes'] / 1e9:.1f} GB",
    *(f"{bounds[k]:.4f}" for k in ("compute", "memory", "interconnect")),
    bounds["limit"],
    *(f"{bounds[k]['utilisation']:.0%}" for k in ("at_best", "in_turn")),
    f"{_utilisation_as_compiled(row):.0%}",
  ]
  return " | ".join(cells)


def _utilisation_as_compiled(row: dict) -> float:
  """The utilisation at best, with the bytes of the compiled step."""
  bounds, at_best = row["roofline"], row["roofline"]["at_best"]
  memory = row["compiled_bytes"] / row["memory_bandwidth"]
  seconds = max(bounds["compute"], memory, bounds["interconnect"])
  return at_best["utilisation"] * at_best["seconds"] / seconds


def main():
  """Parses arguments, compiles what is missing, prints the table."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--results", type=pathlib.Path, required=True)
  parser.add_argument("--steps", type=int, nargs="+", help="places in STEPS")
  parser.add_argument("--kernels", nargs="+", default=list(KERNELS))
  parser.add_argument(
    "--under", nargs="+", default=[], help="a command that runs each compiler"
  )
  parser.add_argument("--gin", action="append", default=[], metavar="BINDING")
  arguments = parser.parse_args()
  found = {}
  if arguments.results.exists():
    found = json.loads(arguments.results.read_text())
  print(
    "step | kernel | temporaries | bytes | compiled, a device | of attention | "
    "products, s | bytes, s | interconnect, s | limit | utilisation at best | "
    "in turn | at best as compiled"
  )
  for place in arguments.steps or range(len(STEPS)):
    for kernel in arguments.kernels:
      step = STEPS[place]
      words = command(step, kernel, arguments.gin)
      key = " ".join(words[6:])
      if key not in found:
        done = subprocess.run(
          [*arguments.under, *words], capture_output=True, text=True
        )
        if done.stdout:
          found[key] = row_of(json.loads(done.stdout))
          arguments.results.write_text(json.dumps(found, indent=1))
        else:
          last = done.stderr.strip().splitlines()[-1:] or ["no output"]
          print(line(step, kernel, {"error": last[0]}), flush=True)
          continue
      print(line(step, kernel, found[key]), flush=True)


if __name__ == "__main__":
  main()
