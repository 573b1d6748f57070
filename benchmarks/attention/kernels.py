"""Measures the kernels of attention in turn, in one run.

    python benchmarks/attention/kernels.py --rows 16 --heads 8 --length 384

Milliseconds (medians) of one self-attention with a bias and a mask, and of its
gradient by queries, keys, values and bias, in float32.
"""

import argparse
import json
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo.modules.attention.chunked import ChunkedAttention
from transformer_zoo.modules.attention.chunked import RowwiseAttention
from transformer_zoo.modules.attention.dot_product import REFERENCE
from transformer_zoo.modules.attention.kernels import XlaAttention

KERNELS = {
  "reference": REFERENCE,
  "rowwise": RowwiseAttention(),
  "chunked": ChunkedAttention(),
  "xla": XlaAttention(),
}


def programs(kernel, mask):
  """The attention and its gradient, compiled at their first call."""

  def attend(query, key, value, bias):
    return kernel.attend(query, key, value, mask, bias, None)

  def loss(*arrays):
    return jnp.sum(attend(*arrays) ** 2)

  return {
    "forward": jax.jit(attend),
    "gradient": jax.jit(jax.grad(loss, (0, 1, 2, 3))),
  }


def measure(arguments) -> dict:
  """Returns {kernel: {program: milliseconds}}."""
  random = np.random.default_rng(0)
  rows, heads, length = arguments.rows, arguments.heads, arguments.length
  shapes = [(rows, length, heads, arguments.head_dim)] * 3
  arrays = [
    jnp.asarray(random.standard_normal(shape), jnp.float32)
    for shape in [*shapes, (1, heads, length, length)]
  ]
  # Every row is cut elsewhere, as padding does.
  ends = random.integers(length // 2, length, rows)
  mask = jnp.asarray(np.arange(length) < ends[:, None])[:, None, None]
  compiled = {name: programs(k, mask) for name, k in KERNELS.items()}
  seconds = {name: {p: [] for p in compiled[name]} for name in compiled}
  for turn in range(1 + arguments.repeats):
    for name, kinds in compiled.items():
      for kind, program in kinds.items():
        start = time.perf_counter()
        jax.block_until_ready(program(*arrays))
        if turn:  # the first one compiles
          seconds[name][kind].append(time.perf_counter() - start)
  return {
    name: {
      kind: 1e3 * statistics.median(taken) for kind, taken in kinds.items()
    }
    for name, kinds in seconds.items()
  }


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--rows", type=int, default=16)
  parser.add_argument("--heads", type=int, default=8)
  parser.add_argument("--length", type=int, default=384)
  parser.add_argument("--head_dim", type=int, default=16)
  parser.add_argument("--repeats", type=int, default=7)
  parser.add_argument("--json", action="store_true", help="one JSON object")
  arguments = parser.parse_args()
  result = measure(arguments)
  if arguments.json:
    print(json.dumps(result))
    return
  for name, kinds in result.items():
    told = "".join(f"{kind} {ms:8.1f} ms   " for kind, ms in kinds.items())
    print(f"{name:12}{told.rstrip()}")


if __name__ == "__main__":
  main()
