"""Our T5.1.1-base step beside T5X's, compiled for a TPU: seconds and memory.

`python benchmarks/compile_peers.py`: each in turn in a process of its own, for
v5e:4x4 with a 4 x 4 mesh, scanned layers, minimal remat, bfloat16, 128 rows of
512 and 114 tokens, packed. Needs libtpu, and T5X on the path for the peer
(`--t5x_path` puts folders there for its processes alone).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WORK = {
  "topology": "v5e:4x4",
  "model": 4,
  "remat": "minimal",
  "batch_size": 128,
  "inputs": 512,
  "targets": 114,
}
OURS = [
  *("-m", "transformer_zoo.cli.main", "precompile", "--json"),
  f"--topology={WORK['topology']}",
  "--gin_file=architectures/t5_1_1.gin",
  "--gin_file=sizes/t5_1_1_base.gin",
  "--gin_file=runs/pretrain.gin",
  f"--gin.NUM_PARTITIONS={WORK['model']}",
  "--gin.SCAN_LAYERS=True",
  f"--gin.REMAT={WORK['remat']!r}",
]
ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1"}


def measured(arguments: list[str], path: list[str]) -> dict:
  """The JSON that a Python process prints."""
  path = os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])
  done = subprocess.run(
    [sys.executable, *arguments],
    env={**os.environ, **ENVIRONMENT, "PYTHONPATH": path},
    stdout=subprocess.PIPE,
    text=True,
    check=True,
  )
  return json.loads(done.stdout)


def ours(path: list[str]) -> dict:
  """By `zoo precompile`."""
  report = measured(OURS, path)
  return {
    "seconds": report["trace_seconds"] + report["compile_seconds"],
    "processor_seconds": report["processor_seconds"],
    **{name: report["memory"][name] for name in ("temporaries", "peak")},
  }


def t5x(path: list[str]) -> dict:
  """By T5X's partitioner and trainer."""
  module = "-m", "peers.t5x_compilation", json.dumps(WORK)
  return measured(list(module), [str(HERE), *path])


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--rounds", type=int, default=1)
  parser.add_argument("--t5x_path", default="", help="folders, with colons")
  arguments = parser.parse_args()
  print(f"{'':6} {'seconds':>9} {'CPU s':>9} {'temporaries':>12} {'peak':>9}")
  for _ in range(arguments.rounds):
    for name, run, path in (
      ("ours", ours, []),
      ("T5X", t5x, arguments.t5x_path.split(os.pathsep)),
    ):
      found = run(path)
      print(
        f"{name:6} {found['seconds']:9.1f} {found['processor_seconds']:9.1f} "
        f"{found['temporaries'] / 2**30:8.2f} GiB {found['peak'] / 2**30:5.2f} "
        "GiB",
        flush=True,
      )


if __name__ == "__main__":
  main()
