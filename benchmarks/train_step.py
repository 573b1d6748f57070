"""Measures one training step: `python benchmarks/train_step.py --shape tiny`.

Prints seconds per step (median), tokens per second, model FLOPs utilisation
against a matmul peak measured in the same process, compile seconds and peak
memory. Shapes (shapes.py): tiny is d_model 256, d_ff 512 gated GELU, 4+4
layers, 4 heads of 64, vocabulary 8192, batch 16, inputs 128, targets 32; small
is T5.1.1-small at batch 8, inputs 512, targets 114.

`--peers transformers t5x` measures their training steps in the same run, in
turn with ours (peers.py), and prints the medians of each round.
"""

import argparse
import functools
import resource
import statistics
import time

import jax
import jax.numpy as jnp
import peers
import random_batches
import shapes

from transformer_zoo.objectives.sequence_to_sequence import sequence_to_sequence
from transformer_zoo.training import state
from transformer_zoo.training import step
from transformer_zoo.training.monitoring import summary
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.sharding import partitioning


def matmul_peak(dtype: str, size: int = 2048) -> float:
  """FLOP/s of a square matmul, the best of several."""
  a = jnp.ones((size, size), dtype)
  multiply = jax.jit(jnp.matmul)
  multiply(a, a).block_until_ready()
  best = float("inf")
  for _ in range(8):
    start = time.perf_counter()
    multiply(a, a).block_until_ready()
    best = min(best, time.perf_counter() - start)
  return 2 * size**3 / best


def measure(arguments) -> dict:
  """Runs the steps and returns the figures."""
  model, shape = shapes.model_of(
    arguments, [f"DROPOUT_RATE={arguments.dropout}"]
  )
  batch_size, inputs, targets = shape.batch_size, shape.inputs, shape.targets
  optimizer = adafactor(schedules.rsqrt())
  layout = partitioning.Partitioning()
  mesh = layout.mesh()
  objective = functools.partial(sequence_to_sequence, model)
  with layout.activate(mesh):
    train_state = jax.jit(
      functools.partial(state.initial_state, model, optimizer)
    )(jax.random.key(0))
    batch = partitioning.put_batch(
      random_batches.packed(
        batch_size, inputs, targets, model.token_embedder.num_embeddings
      ),
      mesh,
    )
    run_step = jax.jit(
      functools.partial(
        step.train_step, objective=objective, optimizer=optimizer
      ),
      donate_argnums=0,
    )
    key = jax.random.key(1)
    start = time.perf_counter()
    compiled = run_step.lower(train_state, batch, key).compile()
    compile_seconds = time.perf_counter() - start
    seconds = []
    for i in range(arguments.warmup + arguments.steps):
      start = time.perf_counter()
      train_state, sums = compiled(train_state, batch, key)
      jax.block_until_ready((train_state, sums))
      if i >= arguments.warmup:
        seconds.append(time.perf_counter() - start)
  tokens = batch_size * (inputs + targets)
  flops = 3 * batch_size * summary.forward_flops(model, inputs, targets)
  peak = matmul_peak(arguments.dtype)
  median = statistics.median(seconds)
  memory = compiled.memory_analysis()
  return {
    "shape": arguments.shape,
    "dtype": arguments.dtype,
    "dropout": arguments.dropout,
    "device": jax.devices()[0].device_kind,
    "seconds_per_step": median,
    "fastest_seconds": min(seconds),
    "tokens_per_second": tokens / median,
    "model_flops": flops,
    "matmul_peak_flops_per_second": peak,
    "model_flops_utilisation": flops / median / peak,
    "compile_seconds": compile_seconds,
    "temporary_bytes": memory.temp_size_in_bytes,
    "peak_resident_bytes": 1024
    * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
  }


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--dropout", type=float, default=0.1)
  parser.add_argument("--steps", type=int, default=10)
  parser.add_argument("--warmup", type=int, default=2)
  parser.add_argument("--peers", nargs="+", choices=peers.PEERS)
  parser.add_argument("--rounds", type=int, default=2, help="with --peers")
  arguments = shapes.parse(parser)
  if not arguments.peers:
    shapes.show(measure(arguments), arguments.json)
    return
  model, shape = shapes.model_of(arguments)
  work = peers.work_of(
    "train",
    model,
    shape,
    dropout=arguments.dropout,
    steps=arguments.steps,
    warmup=arguments.warmup,
  )
  found = peers.beside(
    lambda: measure(arguments)["seconds_per_step"],
    arguments.peers,
    work,
    arguments.rounds,
  )
  shapes.show(found, arguments.json)


if __name__ == "__main__":
  main()
