"""The cost of watching: `python benchmarks/watching.py --shape tiny`.

Runs the same training step in turn with nothing watched but the norm of all
gradients, with norms by group, by layer, and with NaN and spikes skipped, so
that a machine that slows down slows all of them down. Prints the fastest and
the median seconds per step of each, temporary bytes, and the seconds that the
host needs for a step and for a line of metrics.
"""

import argparse
import pathlib
import statistics
import tempfile
import time

import jax
import numpy as np
from workloads import random_batches
from workloads import shapes

from transformer_zoo.objectives.sequence_to_sequence import sequence_to_sequence
from transformer_zoo.training.monitoring import anomalies
from transformer_zoo.training.monitoring import monitor
from transformer_zoo.training.monitoring.anomalies import Anomalies
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import partitioning
from transformer_zoo.training.watching import Watching

SKIP = Anomalies(on_not_finite="skip", on_spike="skip")
WATCHED = {
  "total": Watching(norms="total"),
  "groups": Watching(norms="groups"),
  "layers": Watching(norms="layers"),
  "groups_and_skip": Watching(norms="groups", anomalies=SKIP),
}


class _Step:
  """One program, its state, and what its steps took."""

  def __init__(self, model, mesh, layout, watching, batch):
    rate = schedules.rsqrt()
    self.watching = watching
    self.program = TrainProgram(
      model,
      sequence_to_sequence,
      adafactor(rate),
      rate,
      layout,
      mesh,
      **watching.in_step(),
    )
    self.key, self.batch, self.seconds = jax.random.key(1), batch, []
    self.state = self.program.initial_state(jax.random.key(0))
    self.history = None
    if watching.anomalies.are_looked_for:
      self.history = self.program.place_history(anomalies.initial_history())
    arguments = self.state, batch, self.key, self.history
    self.compiled = self.program.step.lower(*arguments).compile()

  def run(self) -> None:
    start = time.perf_counter()
    self.state, self.sums = self.compiled(
      self.state, self.batch, self.key, self.history
    )
    jax.block_until_ready((self.state, self.sums))
    self.seconds.append(time.perf_counter() - start)
    self.history = self.sums.pop("history", None)


def _host_seconds(step: _Step, steps: int) -> tuple[float, float]:
  """Seconds in which the host reads a step, and writes a line."""
  with tempfile.TemporaryDirectory() as folder:
    recorder = step.watching.recorder(pathlib.Path(folder))
    watched = step.watching.start(
      step.program,
      recorder,
      pathlib.Path(folder),
      train_steps=steps,
      origin=lambda index: {},
      progress={},
    )
    told = monitor.shapes_of(step.batch)
    sums = jax.tree.map(np.asarray, step.sums)
    watched.read(1, sums, {}, told)  # counts FLOPs, once
    start = time.perf_counter()
    for number in range(steps):
      with watched.step(number):
        pass
      watched.read(number, sums, {}, monitor.shapes_of(step.batch))
    read = (time.perf_counter() - start) / steps
    start = time.perf_counter()
    for number in range(steps):
      watched.read(number, sums, {}, told)
      watched.log(number)
    logged = (time.perf_counter() - start) / steps - read
    recorder.close()
  return read, logged


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--steps", type=int, default=20)
  arguments = shapes.parse(parser)
  model, shape = shapes.model_of(arguments)
  layout = partitioning.Partitioning()
  mesh = layout.mesh()
  found = {"shape": arguments.shape}
  with layout.activate(mesh):
    batch = partitioning.put_batch(
      random_batches.packed(
        shape.batch_size,
        shape.inputs,
        shape.targets,
        model.token_embedder.num_embeddings,
      ),
      mesh,
    )
    made = {
      name: _Step(model, mesh, layout, watching, batch)
      for name, watching in WATCHED.items()
    }
    for step in list(made.values()) * (arguments.steps + 1):
      step.run()
    for name, step in made.items():
      seconds = step.seconds[1:]
      memory = step.compiled.memory_analysis()
      found[f"{name}_fastest_seconds"] = min(seconds)
      found[f"{name}_median_seconds"] = statistics.median(seconds)
      found[f"{name}_temporary_bytes"] = memory.temp_size_in_bytes
    read, logged = _host_seconds(made["groups_and_skip"], 200)
  found |= {"host_seconds_per_step": read, "host_seconds_per_line": logged}
  shapes.show(found, arguments.json)


if __name__ == "__main__":
  main()
