"""Cost of partitioning, processes, saving: `python benchmarks/scaling.py`.

overhead: one training step on one device, as a run compiles it (mesh, rules,
  shardings), beside the same step by plain `jax.jit`, in turn. Goal: under 1 %.
data_parallel: one batch by one process of one core, and by two processes of one
  core each, which add their gradients over the loopback; and what two processes
  that share nothing reach, which is what the machine leaves to be had. Goal:
  1.7 times one.
saving: how long training waits for a checkpoint of a T5.1.1-base (248 million
  parameters and Adafactor's state), while steps go on. Goal: under 1 s.

Each prints its figures and the goal. The machine should do nothing else.
"""

import argparse
from collections.abc import Callable
import functools
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import checkpoints
import jax
import jax.numpy as jnp
from workloads import random_batches
from workloads import shapes

from transformer_zoo import config
from transformer_zoo.objectives.sequence_to_sequence import sequence_to_sequence
from transformer_zoo.training import step as step_lib
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import partitioning
from transformer_zoo.training.state import TrainState

# Gradients are added once a step, whatever its rows: few would measure that.
_BATCHES = 4
GOALS = {
  "overhead": "overhead_percent < 1",
  "data_parallel": "speedup >= 1.7",
  "saving": "longest_stall_seconds < 1",
}


def program_of(size: str) -> TrainProgram:
  """A T5.1.1's training step on one device."""
  config.load(["architectures/t5_1_1.gin", size], root="MODEL")
  layout, schedule = partitioning.Partitioning(), schedules.rsqrt()
  return TrainProgram(
    config.value("MODEL"),
    sequence_to_sequence,
    adafactor(schedule),
    schedule,
    layout,
    layout.mesh(jax.devices()[:1]),
  )


def overhead(arguments) -> dict:
  """Seconds of a step, partitioned and plain, in turn."""
  shape = shapes.SHAPES[arguments.shape]
  program = program_of(shape.size)
  batch = random_batches.packed(
    shape.batch_size,
    shape.inputs,
    shape.targets,
    program.model.token_embedder.num_embeddings,
  )

  def plain_step(state, batch, key):
    new_state, sums = step_lib.train_step(
      state,
      batch,
      key,
      objective=functools.partial(program.objective, program.model),
      optimizer=program.optimizer,
    )
    return new_state, {
      **sums,
      "learning_rate": program.learning_rate(state.step),
    }

  plain = jax.jit(plain_step, donate_argnums=0)
  key = jax.random.key(1)
  with program.partitioning.activate(program.mesh):
    partitioned_state = program.initial_state(jax.random.key(0))
    on_mesh = partitioning.put_batch(batch, program.mesh)
  plain_state = jax.tree.map(jnp.array, jax.device_get(partitioned_state))
  on_device = jax.device_put(batch)

  def partitioned_once():
    nonlocal partitioned_state
    with program.partitioning.activate(program.mesh):
      partitioned_state = timed_call(
        program.step, partitioned_state, on_mesh, key
      )

  def plain_once():
    nonlocal plain_state
    plain_state = timed_call(plain, plain_state, on_device, key)

  found = in_turn(
    {"partitioned": partitioned_once, "plain": plain_once},
    arguments.warmup,
    arguments.steps,
  )
  same = jax.tree.map(
    lambda a, b: bool((a == b).all()), partitioned_state, plain_state
  )
  ratios = [
    mine / theirs
    for mine, theirs in zip(found["partitioned"], found["plain"], strict=True)
  ]
  medians = {name: statistics.median(values) for name, values in found.items()}
  return {
    **{f"{name}_seconds": value for name, value in medians.items()},
    "overhead_percent": 100 * (medians["partitioned"] / medians["plain"] - 1),
    "overhead_percent_by_pairs": 100 * (statistics.median(ratios) - 1),
    "pairs": len(ratios),
    "same_parameters": all(jax.tree.leaves(same)),
  }


def timed_call(step, state, batch, key) -> TrainState:
  """A step to its end; the state after."""
  return jax.block_until_ready(step(state, batch, key))[0]


def in_turn(
  runs: dict[str, Callable[[], None]], warmup: int, repeats: int
) -> dict[str, list[float]]:
  """Seconds of each, one after the other; who is first changes."""
  found = {name: [] for name in runs}
  for repeat in range(warmup + repeats):
    names = list(runs) if repeat % 2 else list(reversed(runs))
    for name in names:
      start = time.perf_counter()
      runs[name]()
      if repeat >= warmup:
        found[name].append(time.perf_counter() - start)
  return found


def data_parallel(arguments) -> dict:
  """Seconds of a step of the same batch by one process and by two."""
  shape = shapes.SHAPES[arguments.shape]
  batch_size = arguments.batch_size or _BATCHES * shape.batch_size
  cores = sorted(os.sched_getaffinity(0))[:2]
  if len(cores) < 2:
    raise SystemExit("two cores are needed")

  def processes(count, batch_size, together):
    with socket.socket() as free:
      free.bind(("127.0.0.1", 0))
      coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    work = {
      "shape": arguments.shape,
      "batch_size": batch_size,
      "steps": arguments.steps,
      "warmup": arguments.warmup,
      "coordinator": coordinator,
      "count": count if together else 1,
    }
    started = [
      start_process({**work, "index": index, "core": cores[index]})
      for index in range(count)
    ]
    return [output_of(process) for process in started]

  found = {"one": [], "two": [], "apart": []}
  for _ in range(arguments.rounds):
    (one,) = processes(1, batch_size, together=False)
    two, *_ = processes(2, batch_size, together=True)
    apart = processes(2, batch_size // 2, together=False)
    found["one"].append(statistics.median(one["seconds"]))
    found["two"].append(statistics.median(two["seconds"]))
    found["apart"].append(
      max(statistics.median(each["seconds"]) for each in apart)
    )
  seconds = {name: min(values) for name, values in found.items()}
  return {
    "batch_size": batch_size,
    **{f"{name}_seconds": values for name, values in found.items()},
    "speedup": seconds["one"] / seconds["two"],
    "speedup_of_two_apart": seconds["one"] / seconds["apart"],
    "collectives": two["collectives"],
  }


def start_process(work: dict) -> subprocess.Popen:
  """One process of scaling_process.py."""
  script = pathlib.Path(__file__).with_name("scaling_process.py")
  return subprocess.Popen(
    [sys.executable, str(script), json.dumps(work)],
    env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""},
    stdout=subprocess.PIPE,
    text=True,
  )


def output_of(process: subprocess.Popen) -> dict:
  """What it printed last; only process 0 of several prints."""
  text, _ = process.communicate()
  if process.returncode:
    raise SystemExit(f"a process ended with {process.returncode}")
  lines = text.splitlines()
  return json.loads(lines[-1]) if lines else {}


def saving(arguments) -> dict:
  """How long training waits for a checkpoint (checkpoints.py)."""
  with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
    found = checkpoints.training(pathlib.Path(folder) / "checkpoints")
  return {**found, "longest_stall_seconds": max(found["stall_seconds"])}


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parts = {
    "overhead": overhead,
    "data_parallel": data_parallel,
    "saving": saving,
  }
  parser.add_argument("part", nargs="?", choices=parts, help="all by default")
  parser.add_argument("--steps", type=int, default=20)
  parser.add_argument("--warmup", type=int, default=2)
  parser.add_argument("--rounds", type=int, default=2, help="of data_parallel")
  parser.add_argument("--batch_size", type=int, help="rows of data_parallel")
  parser.add_argument("--folder", help="where saving writes")
  arguments = shapes.parse(parser)
  for part in [arguments.part] if arguments.part else parts:
    found = {**parts[part](arguments), "goal": GOALS[part]}
    shapes.show({"part": part, **found}, arguments.json)


if __name__ == "__main__":
  main()
