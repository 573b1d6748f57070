"""Seconds and memory until the parameters of a checkpoint are on the devices.

  python benchmarks/initial_checkpoint.py --folder FOLDER --size base

writes T5.1.1 with random parameters in each format into `--folder` (once), and
reads each into a looped and a scanned model, every time in a process of its
own. Beside it: the time to copy the file of the Hugging Face directory. Memory
is the most that the process has had beside the parameters themselves.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time

import jax
import numpy as np

from transformer_zoo import config
from transformer_zoo.conversion import exported_directory
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.interop.t5x import checkpoints as t5x_checkpoints
from transformer_zoo.runs.loading import restoration
from transformer_zoo.runs.loading.initial_checkpoint import InitialCheckpoint
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding import placement
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE
from transformer_zoo.training.state import TrainState

FORMATS = ("run", "scanned_run", "huggingface", "t5x")


def build(size: str, *, scan: bool):
  """T5.1.1 of a size, looped or scanned."""
  files = ["architectures/t5_1_1.gin", f"sizes/t5_1_1_{size}.gin"]
  return config.build("MODEL", files, [f"SCAN_LAYERS={scan}"])


def layout(model):
  """Boxed shapes of the parameters, and shapes with their shardings."""
  boxed = state_lib.abstract_variables(model)
  shapes = state_lib.abstract_params(model)
  mesh = ONE_COPY_PER_DEVICE.mesh()
  shardings = ONE_COPY_PER_DEVICE.shardings(mesh, boxed, shapes)
  return boxed, partitioning_lib.abstract(shapes, shardings)


def random_tensors(boxed) -> dict[str, Tensor]:
  """Normal numbers for every parameter, drawn when they are read."""
  random = np.random.default_rng(0)
  return {
    name: Tensor(
      shape,
      np.dtype(np.float32),
      lambda shape=shape: random.standard_normal(shape, np.float32),
    )
    for name, (shape, _) in placement.parameters_of(boxed).items()
  }


def write(folder: pathlib.Path, kind: str, size: str) -> None:
  """Writes one format."""
  model = build(size, scan=kind == "scanned_run")
  boxed, abstract = layout(model)
  tensors = random_tensors(boxed)
  if kind == "huggingface":
    folder.mkdir(parents=True)
    exported_directory.write(folder, model, tensors)
  elif kind == "t5x":
    t5x_checkpoints.write_checkpoint(folder, tensors)
  else:
    checkpoints = Checkpoints(folder / "checkpoints")
    params = placement.place(tensors, abstract)
    checkpoints.save(0, TrainState(np.int32(0), params, ()), {})
    checkpoints.close()


def read(folder: pathlib.Path, size: str, *, scan: bool) -> dict[str, float]:
  """Seconds, and gigabytes beside the parameters."""
  model = build(size, scan=scan)
  boxed, abstract = layout(model)
  size_of = sum(leaf.size * 4 for leaf in jax.tree.leaves(abstract))
  start = time.perf_counter()
  found = restoration.open_initial(
    InitialCheckpoint(str(folder)), model, boxed, [Vocabulary("bytes")]
  )
  placed = found.place(abstract)
  jax.block_until_ready(placed)
  seconds = time.perf_counter() - start
  most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
  return {"seconds": seconds, "gigabytes": (most - size_of) / 1e9}


def in_process(*words: str) -> str:
  """What this script prints, called again."""
  command = [sys.executable, __file__, *words]
  return subprocess.run(command, check=True, capture_output=True, text=True)


def main() -> None:
  """Writes what is missing, measures, prints a table."""
  parser = argparse.ArgumentParser()
  parser.add_argument("--folder", type=pathlib.Path, required=True)
  parser.add_argument("--size", default="base")
  parser.add_argument("--write", choices=FORMATS)
  parser.add_argument("--read", choices=FORMATS)
  parser.add_argument("--scan", action="store_true")
  arguments = parser.parse_args()
  folder = arguments.folder / arguments.size
  if arguments.write:
    write(folder / arguments.write, arguments.write, arguments.size)
    return
  if arguments.read:
    found = read(folder / arguments.read, arguments.size, scan=arguments.scan)
    print(json.dumps(found))
    return
  common = ("--folder", str(arguments.folder), "--size", arguments.size)
  for kind in FORMATS:
    if not (folder / kind).exists():
      in_process(*common, "--write", kind)
  source = folder / "huggingface" / "model.safetensors"
  start = time.perf_counter()
  shutil.copyfile(source, folder / "copy")
  print(f"copy of the file: {time.perf_counter() - start:.1f} s")
  os.remove(folder / "copy")
  print("| format | model | seconds | GB beside the parameters |")
  print("|---|---|---|---|")
  for kind in FORMATS:
    for scan in (False, True):
      words = ("--read", kind) + ("--scan",) * scan
      found = json.loads(in_process(*common, *words).stdout.splitlines()[-1])
      model = "scanned" if scan else "looped"
      seconds, memory = found["seconds"], found["gigabytes"]
      print(f"| {kind} | {model} | {seconds:.1f} | {memory:.2f} |", flush=True)


if __name__ == "__main__":
  main()
