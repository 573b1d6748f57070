"""Measures a layer of an encoder by length: `python benchmarks/long_inputs.py`.

One layer of T5.1.1 of a size, on one row of tokens: forward and backward by the
parameters, with attention to all tokens by a kernel, with LongT5's local
attention and with its transient global one. Prints the bytes of temporaries
that the compiler plans on each device, the FLOPs of matrix products forward,
and medians of seconds. `--topology v5e:2x4` compiles for TPUs that are not
there, and runs nothing; nor does `--repeats 0`. `--sequence 4` shares the row
out over as many devices of the topology.
"""

import argparse
import contextlib
import statistics

import jax
import jax.numpy as jnp
from workloads import shapes
from workloads import timing

from transformer_zoo import config
from transformer_zoo import tracing
from transformer_zoo.forecast import compilation
from transformer_zoo.forecast import cost
from transformer_zoo.forecast import topologies
from transformer_zoo.training import state
from transformer_zoo.training.sharding.partitioning import Partitioning

WAYS = {
  **{
    kernel: ("t5_1_1", f"parts/attention/kernels/{kernel}.gin")
    for kernel in ("automatic", "reference", "chunked")
  },
  "local": ("longt5",),
  "transient_global": ("longt5", "parts/attention/transient_global.gin"),
}


def loss_of(way: str, arguments: argparse.Namespace):
  """Returns the model of a way, and (params, tokens) -> a sum of squares."""
  architecture, *parts = WAYS[way]
  config.load(
    [f"architectures/{architecture}.gin", arguments.size, *parts],
    [
      *("NUM_ENCODER_LAYERS=1", "NUM_DECODER_LAYERS=1", "VOCAB_SIZE=128"),
      f"DTYPE={arguments.dtype!r}",
    ],
    root="MODEL",
  )
  model = config.value("MODEL")

  def loss(params, tokens_BL):
    encoded_BLD = model.apply({"params": params}, tokens_BL, method="encode")
    return jnp.sum(jnp.square(encoded_BLD.astype(jnp.float32)))

  return model, loss


def measure(way: str, length: int, devices, arguments) -> dict:
  """The figures of one layer at a length."""
  model, loss = loss_of(way, arguments)
  layout = Partitioning(sequence=arguments.sequence)
  mesh = layout.mesh(devices)
  whole = jax.NamedSharding(mesh, jax.sharding.PartitionSpec())
  params = state.abstract_params(model)
  params = {name: params[name] for name in ("encoder", "token_embedder")}
  given = params, jax.ShapeDtypeStruct((1, length), jnp.int32)
  shaped = jax.tree.map(lambda x: x.update(sharding=whole), given)
  figures = {"way": way, "length": length, "devices": len(devices)}
  with layout.activate(mesh):
    figures["forward_flops"] = cost.count(loss, *given).matmul_flops
    gradient = jax.jit(jax.value_and_grad(loss))
    if arguments.topology:
      compiled = compilation.compile_ahead(gradient, shaped)
      memory, figures["needed_bytes"] = compiled.memory, compiled.needed
    else:
      compiled = gradient.lower(*shaped).compile()
      memory = compilation.memory_of(compiled)
    if memory is not None:
      figures["temporary_bytes"] = memory.temporaries
      figures["peak_bytes"] = memory.peak
    if arguments.topology or not arguments.repeats:
      return figures
    params = shapes.random_parameters(model)
    tokens_BL = jax.random.randint(jax.random.key(0), (1, length), 3, 128)
    values = {name: params[name] for name in given[0]}, tokens_BL
    values = jax.device_put(values, whole)
    timed = timing.timed(
      lambda: jax.block_until_ready(compiled(*values)),
      arguments.warmup,
      arguments.repeats,
    )
  for name in ("seconds", "processor_seconds"):
    figures[name] = statistics.median(timed[name])
  return figures


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--size", default="sizes/t5_1_1_base.gin")
  parser.add_argument(
    "--dtype", choices=("float32", "bfloat16"), default="float32"
  )
  parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=[*WAYS])
  parser.add_argument(
    "--lengths", nargs="+", type=int, default=[1024, 2048, 4096, 8192, 16384]
  )
  parser.add_argument("--topology", help="of devices that are compiled for")
  parser.add_argument("--sequence", type=int, default=1)
  parser.add_argument("--warmup", type=int, default=1)
  parser.add_argument("--repeats", type=int, default=3)
  parser.add_argument("--json", action="store_true", help="JSON objects")
  arguments = parser.parse_args()
  target = contextlib.nullcontext()
  if arguments.topology:
    topology = topologies.find(arguments.topology)
    devices, target = topology.devices, tracing.compiling_for(topology.platform)
  else:
    devices = jax.devices()
  with target:
    for length in arguments.lengths:
      for way in arguments.ways:
        shapes.show(
          measure(way, length, devices[: arguments.sequence], arguments),
          arguments.json,
        )


if __name__ == "__main__":
  main()
