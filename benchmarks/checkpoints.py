"""The cost of a checkpoint: stall of training, seconds until complete, files.

Three parts, each in a line of JSON:

- `training`: T5 v1.1 base (248M parameters) with Adafactor is saved while a
  program keeps the devices busy: seconds in which the loop waited, seconds
  until the checkpoint is whole with checksums, and seconds to restore it.
- `format`: many small and few large arrays, with and without OCDBT: files,
  stall, seconds to write and to read.
- `checksums`: gigabytes per second of the checksums alone.

    python benchmarks/checkpoints.py --folder DIR
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from transformer_zoo import config
from transformer_zoo.objectives.sequence_to_sequence import sequence_to_sequence
from transformer_zoo.training.checkpoints import checksums
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE

SAVES = 3
ARRAYS = {
  "3000 arrays of 16 kB": [(64, 64)] * 3000,
  "4 arrays of 256 MB": [(8192, 8192)] * 4,
}


def base_state():
  """The state of T5 v1.1 base with Adafactor, of random numbers."""
  config.load(
    ["architectures/t5_1_1.gin", "sizes/t5_1_1_base.gin"], root="MODEL"
  )
  rate = schedules.constant(0.01)
  program = TrainProgram(
    config.value("MODEL"),
    sequence_to_sequence,
    adafactor(rate),
    rate,
    ONE_COPY_PER_DEVICE,
    ONE_COPY_PER_DEVICE.mesh(),
  )
  with ONE_COPY_PER_DEVICE.activate(program.mesh):
    return program.abstract_state, random_like(program.abstract_state)


def random_like(abstract):
  """Random numbers: zeros would be compressed to nothing."""
  rng = np.random.default_rng(0)
  return jax.tree.map(
    lambda leaf: jax.device_put(
      rng.random(leaf.shape, np.float32).astype(leaf.dtype), leaf.sharding
    ),
    abstract,
  )


def training(folder: pathlib.Path) -> dict:
  """Stalls, while the devices work and the state changes."""
  abstract, state = base_state()
  advance = jax.jit(
    lambda state: jax.tree.map(lambda x: x + 1, state), donate_argnums=0
  )
  stalls, totals = [], []
  for step in range(SAVES):
    with contextlib.closing(Checkpoints(folder)) as checkpoints:
      state = jax.block_until_ready(advance(state))
      start = time.perf_counter()
      stalls.append(checkpoints.save(step, state, {}))
      state = advance(state)
      checkpoints.close()
      totals.append(time.perf_counter() - start)
  size = sum(checksums.sizes(folder / str(SAVES - 1)).values())
  start = time.perf_counter()
  with contextlib.closing(Checkpoints(folder)) as checkpoints:
    jax.block_until_ready(checkpoints.restore_newest(abstract)[0])
  return {
    "gigabytes": size / 1e9,
    "stall_seconds": stalls,
    "seconds_until_whole": totals,
    "seconds_to_verify_and_restore": time.perf_counter() - start,
  }


def written(folder: pathlib.Path, shapes, *, ocdbt: bool) -> dict:
  """Files, stall and seconds of one way to write arrays."""
  everywhere = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  abstract = {
    f"array_{i}": jax.ShapeDtypeStruct(s, jnp.float32, sharding=everywhere)
    for i, s in enumerate(shapes)
  }
  state = jax.block_until_ready(random_like(abstract))
  handler = ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt)
  stalls, totals, reads = [], [], []
  with ocp.AsyncCheckpointer(handler) as checkpointer:
    for save in range(SAVES):
      start = time.perf_counter()
      checkpointer.save(folder / str(save), args=ocp.args.PyTreeSave(state))
      stalls.append(time.perf_counter() - start)
      checkpointer.wait_until_finished()
      totals.append(time.perf_counter() - start)
      start = time.perf_counter()
      restored = handler.restore(
        folder / str(save),
        args=ocp.args.PyTreeRestore(
          abstract, ocp.checkpoint_utils.construct_restore_args(abstract)
        ),
      )
      jax.block_until_ready(restored)
      reads.append(time.perf_counter() - start)
      files = len(checksums.sizes(folder / str(save)))
      shutil.rmtree(folder / str(save))
  return {
    "files": files,
    "stall_seconds": statistics.median(stalls),
    "write_seconds": statistics.median(totals),
    "read_seconds": statistics.median(reads),
  }


def main() -> None:
  """Measures and prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--folder", required=True, type=pathlib.Path)
  folder = parser.parse_args().folder.absolute()
  shutil.rmtree(folder, ignore_errors=True)
  folder.mkdir(parents=True)
  print(json.dumps({"training": training(folder / "base")}), flush=True)
  step = folder / "base" / str(SAVES - 1)
  start = time.perf_counter()
  checksums.verify(step)
  rate = sum(checksums.sizes(step).values()) / (time.perf_counter() - start)
  print(json.dumps({"checksums": {"GB_per_second": rate / 1e9}}), flush=True)
  for name, shapes in ARRAYS.items():
    for ocdbt in (True, False):
      found = written(folder, shapes, ocdbt=ocdbt)
      print(
        json.dumps({"format": {"arrays": name, "ocdbt": ocdbt, **found}}),
        flush=True,
      )
  shutil.rmtree(folder)


if __name__ == "__main__":
  main()
