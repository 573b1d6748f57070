"""Memory of a training step before it runs: `python benchmarks/memory.py`.

Compiles the step of T5.1.1 (forward, backward, Adafactor) and prints what XLA
plans for its temporaries, with all scores and logits at once and with either or
both in chunks. Logits in chunks are the default; attention's kernel is bound:
a CPU would choose another. Nothing is run: 128 rows fit a laptop.

`--tpu v5e:2x2` compiles for one TPU of that topology instead, which needs
libtpu and no TPU (set TPU_SKIP_MDS_QUERY=1 outside of Google's cloud).
"""

import argparse
import functools

import jax
from jax.experimental import topologies
import jax.numpy as jnp
from workloads import random_batches

from transformer_zoo import config
from transformer_zoo.objectives.sequence_to_sequence import sequence_to_sequence
from transformer_zoo.training import state
from transformer_zoo.training import step
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor

# Attention kernel and of how many tokens there are logits at a time.
WAYS = {
  "all at once": ("reference", 2**30),
  "logits in chunks": ("reference", 1024),
  "scores in chunks": ("chunked", 2**30),
  "both in chunks": ("chunked", 1024),
}


def temporary_bytes(arguments, kernel: str, logits_chunk: int) -> int:
  """What the compiled step allocates beside its arguments and results."""
  bindings = [
    f"DTYPE={arguments.dtype!r}",
    f"DROPOUT_RATE={arguments.dropout}",
    f"SCAN_LAYERS={arguments.scan}",
  ]
  if arguments.vocab_size:
    bindings.append(f"VOCAB_SIZE={arguments.vocab_size}")
  config.load(
    [
      "architectures/t5_1_1.gin",
      f"sizes/{arguments.size}.gin",
      f"parts/attention/kernels/{kernel}.gin",
    ],
    bindings,
    root="MODEL",
  )
  model = config.value("MODEL")
  optimizer = adafactor(schedules.rsqrt())
  objective = functools.partial(
    sequence_to_sequence, model, logits_chunk=logits_chunk
  )
  batch = random_batches.packed(
    arguments.batch_size, arguments.inputs, arguments.targets, 100
  )
  shapes = (
    jax.eval_shape(
      functools.partial(state.initial_state, model, optimizer),
      jax.random.key(0),
    ),
    jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.int32), batch),
    jax.eval_shape(lambda: jax.random.key(0)),
  )
  run_step = jax.jit(
    functools.partial(
      step.train_step, objective=objective, optimizer=optimizer
    ),
    donate_argnums=0,
  )
  if arguments.tpu:
    topology = topologies.get_topology_desc(
      platform="tpu", topology_name=arguments.tpu
    )
    device = jax.sharding.SingleDeviceSharding(topology.devices[0])
    shapes = jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), shapes
    )
    lowered = run_step.trace(*shapes).lower(lowering_platforms=("tpu",))
  else:
    lowered = run_step.lower(*shapes)
  return lowered.compile().memory_analysis().temp_size_in_bytes


def main():
  """Parses arguments, compiles, prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--size", default="t5_1_1_small")
  parser.add_argument("--batch_size", type=int, default=32)
  parser.add_argument("--inputs", type=int, default=512)
  parser.add_argument("--targets", type=int, default=114)
  parser.add_argument("--vocab_size", type=int, help="that of the size")
  parser.add_argument("--dropout", type=float, default=0.0)
  parser.add_argument("--dtype", default="float32")
  parser.add_argument(
    "--scan", action="store_true", help="layers, compiled once"
  )
  parser.add_argument("--tpu", help="a topology, as v5e:2x2")
  parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
  arguments = parser.parse_args()
  for way in arguments.ways:
    bytes_ = temporary_bytes(arguments, *WAYS[way])
    print(f"{way:20} {bytes_ / 2**30:8.2f} GB", flush=True)


if __name__ == "__main__":
  main()
