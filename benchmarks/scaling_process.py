"""One process of scaling.py on one core: one JSON argument, seconds of steps.

`core` is where it runs, with one thread for the computation; `count` processes
make one mesh, whose batch has `batch_size` rows in all. Prints the seconds of
each step and what its collectives are.
"""

import json
import os
import sys
import time

import jax
from workloads import random_batches
from workloads import shapes

from transformer_zoo import config
from transformer_zoo.forecast import collectives
from transformer_zoo.objectives.sequence_to_sequence import sequence_to_sequence
from transformer_zoo.processes import clusters
from transformer_zoo.processes import distributed
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import partitioning


def main():
  """Measures and prints."""
  work = json.loads(sys.argv[1])
  # XLA has as many threads as there are cores when it starts.
  os.sched_setaffinity(0, {work["core"]})
  if work["count"] > 1:
    distributed.initialize(
      clusters.Place(
        "scaling.py", work["coordinator"], work["count"], work["index"]
      )
    )
  shape = shapes.SHAPES[work["shape"]]
  config.load(["architectures/t5_1_1.gin", shape.size], [], root="MODEL")
  model = config.value("MODEL")
  layout = partitioning.Partitioning()
  mesh = layout.mesh()
  schedule = schedules.rsqrt()
  program = TrainProgram(
    model, sequence_to_sequence, adafactor(schedule), schedule, layout, mesh
  )
  rows = work["batch_size"] // work["count"]
  with layout.activate(mesh):
    state = program.initial_state(jax.random.key(0))
    batch = partitioning.put_batch(
      random_batches.packed(
        rows, shape.inputs, shape.targets, model.token_embedder.num_embeddings
      ),
      mesh,
    )
    key = jax.random.key(1)
    compiled = program.step.lower(state, batch, key).compile()
    seconds = []
    for _ in range(work["warmup"] + work["steps"]):
      start = time.perf_counter()
      state, sums = compiled(state, batch, key)
      jax.block_until_ready((state, sums))
      seconds.append(time.perf_counter() - start)
  print(
    json.dumps(
      {
        "seconds": seconds[work["warmup"] :],
        "collectives": describe(compiled.as_text(), dict(mesh.shape)),
      }
    )
  )
  distributed.shut_down()


def describe(text: str, mesh_shape: dict[str, int]) -> list[str]:
  """The collectives of a step by kind: how many, and of how many bytes."""
  return [
    f"{total.count} {total.kind} of {total.bytes:,} bytes in all"
    for total in collectives.totals(collectives.read(text, mesh_shape))
  ]


if __name__ == "__main__":
  main()
