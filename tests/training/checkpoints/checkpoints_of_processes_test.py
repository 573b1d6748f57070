"""Checkpoints of two processes: written, summed, verified, restored by both."""

import json
import pathlib
import signal
import socket
import subprocess
import sys

import jax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
import numpy as np
import pytest

from tests import quick_compilation
from transformer_zoo.training.checkpoints.checksums import read
from transformer_zoo.training.checkpoints.checksums import verify
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints
from transformer_zoo.training.state import TrainState

pytestmark = pytest.mark.slow

START = """
import os, pathlib, signal, sys
import jax
address, index, one, two = sys.argv[1:]
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(address, 2, int(index), initialization_timeout=120)
from jax.experimental import multihost_utils
import numpy as np
from tests.training.checkpoints import checkpoints_of_processes_test as shared
from transformer_zoo.training.checkpoints.run_checkpoints import Checkpoints

assert jax.process_count() == 2
"""
# Restores what one process saved; saves twice; flips a bit in what process 1
# wrote last; restores.
SAVE_AND_DAMAGE = (
  START
  + """
state, _ = Checkpoints(one).restore_newest(shared.abstract())
shared.check(state, 6)
checkpoints = Checkpoints(two)
for step in (2, 4):
  checkpoints.save(step, shared.state(step), {"step": step})
checkpoints.close()
multihost_utils.sync_global_devices("saved")
if index == "1":
  files = (pathlib.Path(two) / "4/state/ocdbt.process_1/d").iterdir()
  largest = max(files, key=lambda path: path.stat().st_size)
  content = bytearray(largest.read_bytes())
  content[-3] ^= 1
  largest.write_bytes(content)
multihost_utils.sync_global_devices("flipped")
with jax.set_mesh(shared.shardings().step.mesh):  # As a run does.
  checkpoints = Checkpoints(two, report=lambda text: print("told:", text))
  state, progress = checkpoints.restore_newest(shared.abstract())
shared.check(state, 2)
assert progress == {"step": 2}
checkpoints.close()
"""
)
# Process 1 is gone while the second checkpoint is written.
SAVE_AND_DIE = (
  START
  + """
checkpoints = Checkpoints(two)
checkpoints.finish(2, shared.state(2), {})
checkpoints.save(4, shared.state(4), {})
if index == "1":
  os.kill(os.getpid(), signal.SIGKILL)
checkpoints.close()
"""
)


def shapes() -> dict[str, np.ndarray]:
  return {"kernel": np.zeros((8, 4000), np.float32), "scale": np.zeros(5)}


def numbers(step: int) -> TrainState:
  rng = np.random.default_rng(step)
  params = {n: rng.standard_normal(x.shape) for n, x in shapes().items()}
  params = {n: x.astype(np.float32) for n, x in params.items()}
  return TrainState(np.int32(step), params, ())


def shardings() -> TrainState:
  mesh = jax.make_mesh(
    (jax.device_count(),), ("data",), (jax.sharding.AxisType.Auto,)
  )
  split, whole = (
    NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("data",), ())
  )
  return TrainState(whole, {"kernel": split, "scale": whole}, ())


def state(step: int) -> TrainState:
  return jax.tree.map(
    lambda x, s: jax.make_array_from_callback(x.shape, s, lambda i: x[i]),
    numbers(step),
    shardings(),
  )


def abstract() -> TrainState:
  return jax.tree.map(
    lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
    numbers(0),
    shardings(),
  )


def check(restored: TrainState, step: int) -> None:
  """Compares what this process's devices have."""
  for leaf, expected in zip(
    jax.tree.leaves(restored), jax.tree.leaves(numbers(step)), strict=True
  ):
    for shard in leaf.addressable_shards:
      np.testing.assert_array_equal(shard.data, expected[shard.index])


def on_two_processes(program, *folders) -> list[tuple[int, str]]:
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free.getsockname()[1]}"
  processes = [
    subprocess.Popen(
      [sys.executable, "-c", program, address, str(i), *map(str, folders)],
      env=quick_compilation.environment(2),
      cwd=pathlib.Path(__file__).parents[3],
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )
    for i in range(2)
  ]
  try:
    # A process that waits for one that has failed is ended below.
    if processes[1].wait(timeout=100) != 0:
      processes[0].kill()
    outputs = [process.communicate(timeout=100)[0] for process in processes]
  finally:
    for process in processes:
      process.kill()
  return [
    (process.returncode, output)
    for process, output in zip(processes, outputs, strict=True)
  ]


def test_two_processes_and_one(tmp_path):
  one, two = tmp_path / "one", tmp_path / "two"
  checkpoints = Checkpoints(one)
  checkpoints.finish(6, state(6), {})
  checkpoints.close()
  (code, output), (other_code, other_output) = on_two_processes(
    SAVE_AND_DAMAGE, one, two
  )
  assert code == 0, output
  assert other_code == 0, other_output
  # Told once; by process 0, although a share of process 1 may have found it.
  assert output.count("told:") == 1 and "told:" not in other_output
  assert "told: checkpoint 4 is damaged (state/ocdbt.process_1/d/" in output
  assert {path.name for path in two.iterdir()} == {"2", "4.damaged"}
  sums = json.loads((two / "2" / "checksums.1.json").read_text())
  assert sums and all(n.startswith("state/ocdbt.process_1/") for n in sums)
  assert read(two / "2").keys() > sums.keys()
  assert restored_by_one(two) == 2


def restored_by_one(folder) -> int:
  checkpoints = Checkpoints(folder)
  restored, _ = checkpoints.restore_newest(abstract())
  check(restored, int(restored.step))
  checkpoints.close()
  return int(restored.step)


def test_one_that_dies_while_saving_leaves_the_checkpoint_before(tmp_path):
  _, (code, output) = on_two_processes(SAVE_AND_DIE, tmp_path, tmp_path)
  assert code == -signal.SIGKILL, output
  step = restored_by_one(tmp_path)
  # The second is there as a whole or not at all.
  names = {path.name for path in tmp_path.iterdir()}
  assert names == ({"2"} if step == 2 else {"2", "4"})
  assert all(verify(tmp_path / name) for name in names)
