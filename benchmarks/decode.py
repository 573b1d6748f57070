"""Measures greedy decoding: `python benchmarks/decode.py --shape tiny`.

Prints tokens per second of decoding a batch to its full length with a
key-value cache (the median of several). The
parameters are random and EOS is out of reach, so no row ends early. Shapes are
those of shapes.py.
"""

import argparse
import functools
import statistics
import time

import jax
import numpy as np
import shapes

from transformer_zoo.decoding.generate import generate


def measure(arguments) -> dict:
  """Decodes several times and returns the figures."""
  model, shape = shapes.model_of(arguments)
  batch_size, targets = shape.batch_size, shape.targets
  params = shapes.random_parameters(model)
  tokens = np.random.default_rng(0).integers(
    3, model.token_embedder.num_embeddings, (batch_size, shape.inputs), np.int32
  )
  decode = jax.jit(
    functools.partial(generate, model, max_length=targets, eos_id=-1)
  )
  start = time.perf_counter()
  decode(params, tokens).tokens.block_until_ready()
  compile_seconds = time.perf_counter() - start
  seconds = []
  for _ in range(arguments.repeats):
    start = time.perf_counter()
    decode(params, tokens).tokens.block_until_ready()
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
  parser.add_argument("--repeats", type=int, default=10)
  arguments = shapes.parse(parser)
  shapes.show(measure(arguments), arguments.json)


if __name__ == "__main__":
  main()
