"""Ranks sizes of the fused kernel's blocks by what the compiler makes of them.

    python benchmarks/attention/blocks.py --topology v5e:2x2 --length 8192 \
      --results FILE

Compiles the gradient of one attention with T5's bias and packed rows for each
candidate, for a TPU that need not be there (libtpu, the extra `tpu`). The
compiler refuses those that its vector memory does not hold; the others are
ranked by the larger of two bounds in seconds: products of all blocks, and bytes
that the grid moves. What is in FILE is not compiled again. Nothing is run.
"""

import argparse
import itertools
import json
import pathlib

import jax
import jax.numpy as jnp

from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import compilation
from transformer_zoo.forecast import cost
from transformer_zoo.forecast import topologies
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.dot_product import dot_product_attention
from transformer_zoo.modules.attention.fused import FusedAttention
from transformer_zoo.modules.positions import Bias


def gradient(kernel, arguments):
  """The function that is compiled, and the shapes of its arguments."""
  length, heads = arguments.length, arguments.heads
  memory = arguments.memory or length

  def loss(query, key, value, by_distance_1HR, ids_BL, ids_BM):
    mask = masks.Mask(
      masks.segment_mask(ids_BL, ids_BM),
      ids_BL,
      ids_BM,
      last_BL=jnp.arange(length)[None] if arguments.causal else None,
    )
    bias = Bias(jnp.zeros((1, heads, length, memory)), by_distance_1HR)
    context = dot_product_attention(
      query, key, value, mask_B1LM=mask, bias_1HLM=bias, kernel=kernel
    )
    return jnp.sum(context.astype(jnp.float32))

  rows = arguments.rows
  return jax.grad(loss, (0, 1, 2, 3)), [
    ((rows, length, heads, arguments.head_dim), jnp.bfloat16),
    *[((rows, memory, heads, arguments.head_dim), jnp.bfloat16)] * 2,
    ((1, heads, length + memory - 1), jnp.float32),
    ((rows, length), jnp.int32),
    ((rows, memory), jnp.int32),
  ]


def measure(blocks, arguments, topology) -> dict:
  """The bounds of a candidate, or why the compiler refuses it."""
  function, arrays = gradient(FusedAttention(*blocks), arguments)
  place = jax.sharding.SingleDeviceSharding(topology.devices[0])
  shapes = [
    jax.ShapeDtypeStruct(shape, dtype, sharding=place)
    for shape, dtype in arrays
  ]
  with tracing.compiling_for("tpu"):
    moved = cost.count(function, *shapes)
    try:
      compilation.compile_ahead(jax.jit(function), shapes)
    except (UserError, ValueError, NotImplementedError) as error:
      return {"refused": str(error).splitlines()[0][:200]}
  return {
    "products": moved.matmul_flops / topology.chip.peak_flops,
    "bytes": moved.bytes_accessed / topology.chip.memory_bandwidth,
  }


def main():
  """Parses arguments, compiles what is missing, prints the ranking."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--topology", default="v5e:2x2")
  parser.add_argument("--rows", type=int, default=1)
  parser.add_argument("--heads", type=int, default=12)
  parser.add_argument("--head_dim", type=int, default=64)
  parser.add_argument("--length", type=int, default=512)
  parser.add_argument("--memory", type=int, help="keys; as queries if None")
  parser.add_argument("--causal", action="store_true")
  parser.add_argument(
    "--queries", type=int, nargs="+", default=[256, 512, 1024]
  )
  parser.add_argument("--keys", type=int, nargs="+", default=[256, 512, 1024])
  parser.add_argument("--heads_of_block", type=int, nargs="+", default=[2, 4])
  parser.add_argument("--results", type=pathlib.Path, required=True)
  arguments = parser.parse_args()
  found = {}
  if arguments.results.exists():
    found = json.loads(arguments.results.read_text())
  topology = topologies.find(arguments.topology)
  problem = (
    f"{arguments.topology} {arguments.rows} x {arguments.length} to "
    f"{arguments.memory or arguments.length}, {arguments.heads} of "
    f"{arguments.head_dim}{', causal' * arguments.causal}"
  )
  rows = found.setdefault(problem, {})
  for blocks in itertools.product(
    arguments.queries, arguments.keys, arguments.heads_of_block
  ):
    name = " x ".join(map(str, blocks))
    if name not in rows:
      rows[name] = measure(blocks, arguments, topology)
      arguments.results.write_text(json.dumps(found, indent=1))
  print(problem)
  for name, row in sorted(rows.items(), key=lambda item: _bound(item[1])):
    told = row.get("refused") or (
      f"products {1e3 * row['products']:.3f} ms, bytes "
      f"{1e3 * row['bytes']:.3f} ms"
    )
    print(f"  {name:16} {told}")


def _bound(row: dict) -> tuple[float, float]:
  """The larger bound and their sum, which decides between equals."""
  if "refused" in row:
    return float("inf"), float("inf")
  bounds = row["products"], row["bytes"]
  return max(bounds), sum(bounds)


if __name__ == "__main__":
  main()
