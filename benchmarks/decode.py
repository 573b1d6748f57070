"""Measures greedy decoding: `python benchmarks/decode.py --shape tiny`.

Prints tokens per second of decoding a batch to its full length with a
key-value cache (the median of several). The
parameters are random and EOS is out of reach, so no row ends early. Shapes are
those of train_step.py.
"""

import argparse
import functools
import json
import statistics
import time

from flax import linen as nn
import jax
import numpy as np

from transformer_zoo import config
from transformer_zoo.decoding.generate import generate
from transformer_zoo.training import state

SHAPES = {
  "tiny": ("sizes/tiny.gin", 16, 128, 32),
  "small": ("sizes/t5_1_1_small.gin", 8, 512, 114),
}


def measure(arguments) -> dict:
  """Decodes several times and returns the figures."""
  size, batch_size, inputs, targets = SHAPES[arguments.shape]
  config.load(
    ["architectures/t5_1_1.gin", size],
    [f"DTYPE='{arguments.dtype}'"],
    root="MODEL",
  )
  model = config.value("MODEL")
  params = jax.jit(
    lambda key: nn.meta.unbox(state.initial_variables(model, key))
  )(jax.random.key(0))
  tokens = np.random.default_rng(0).integers(
    3, model.token_embedder.num_embeddings, (batch_size, inputs), np.int32
  )
  decode = jax.jit(
    functools.partial(generate, model, max_length=targets, eos_id=-1)
  )
  start = time.perf_counter()
  decode(params, tokens).block_until_ready()
  compile_seconds = time.perf_counter() - start
  seconds = []
  for _ in range(arguments.repeats):
    start = time.perf_counter()
    decode(params, tokens).block_until_ready()
    seconds.append(time.perf_counter() - start)
  median = statistics.median(seconds)
  return {
    "shape": arguments.shape,
    "dtype": arguments.dtype,
    "device": jax.devices()[0].device_kind,
    "seconds_per_batch": median,
    "tokens_per_second": batch_size * targets / median,
    "seconds_per_token_step": median / targets,
    "first_call_seconds": compile_seconds,
  }


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--shape", choices=SHAPES, default="tiny")
  parser.add_argument(
    "--dtype", choices=("float32", "bfloat16"), default="float32"
  )
  parser.add_argument("--repeats", type=int, default=10)
  parser.add_argument("--json", action="store_true")
  arguments = parser.parse_args()
  figures = measure(arguments)
  if arguments.json:
    print(json.dumps(figures))
  else:
    for name, value in figures.items():
      print(f"{name:24} {value}")


if __name__ == "__main__":
  main()
