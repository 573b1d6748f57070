"""Measures decoding: `python benchmarks/decode.py --shape tiny --num_beams 4`.

Prints tokens per second of decoding a batch to its full length, one output a
row (the median of several). The parameters are random and EOS is out of reach,
so that no row ends early. Shapes are those of shapes.py.

`--peers transformers t5x` measures their searches in the same run, in turn with
ours (peers/comparison.py), each side in a process of its own.
"""

import argparse
import statistics
import time

import jax
import numpy as np
from peers import comparison
from workloads import shapes
from workloads import timing

from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions


def measure(arguments) -> dict:
  """Decodes several times and returns the figures."""
  model, shape = shapes.model_of(arguments)
  batch_size = arguments.batch_size or shape.batch_size
  targets = arguments.targets or shape.targets
  params = shapes.random_parameters(model)
  tokens = np.random.default_rng(0).integers(
    3, model.token_embedder.num_embeddings, (batch_size, shape.inputs), np.int32
  )
  options = DecodingOptions(num_beams=arguments.num_beams)

  @jax.jit
  def decode(params, tokens):
    # Scores too, as T5X's searches return them: XLA drops what nobody reads.
    return generate(
      model, params, tokens, max_length=targets, options=options, eos_id=-1
    )

  start = time.perf_counter()
  jax.block_until_ready(decode(params, tokens))
  compile_seconds = time.perf_counter() - start
  figures = timing.timed(
    lambda: jax.block_until_ready(decode(params, tokens)), 0, arguments.repeats
  )
  median = statistics.median(figures["seconds"])
  return figures | {
    "shape": arguments.shape,
    "batch_size": batch_size,
    "num_beams": arguments.num_beams,
    "dtype": arguments.dtype,
    "device": jax.devices()[0].device_kind,
    "seconds_per_batch": median,
    "fastest_seconds": min(figures["seconds"]),
    "tokens_per_second": batch_size * targets / median,
    "seconds_per_token_step": median / targets,
    "first_call_seconds": compile_seconds,
  }


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--repeats", type=int, default=10)
  parser.add_argument("--batch_size", type=int, help="that of the shape")
  parser.add_argument("--num_beams", type=int, default=1)
  parser.add_argument("--targets", type=int, help="those of the shape")
  parser.add_argument("--peers", nargs="+", choices=tuple(comparison.PEERS))
  parser.add_argument("--rounds", type=int, default=2, help="with --peers")
  arguments = shapes.parse(parser)
  if not arguments.peers:
    shapes.show(measure(arguments), arguments.json)
    return
  model, shape = shapes.model_of(arguments)
  work = comparison.work_of(
    "decode",
    model,
    shape,
    num_beams=arguments.num_beams,
    repeats=arguments.repeats,
  )
  work["batch_size"] = arguments.batch_size or shape.batch_size
  work["targets"] = arguments.targets or shape.targets
  sides = comparison.sides_of(arguments.peers, work) | comparison.our_side(
    "ours",
    "decode",
    shape=arguments.shape,
    dtype=arguments.dtype,
    repeats=arguments.repeats,
    batch_size=work["batch_size"],
    num_beams=arguments.num_beams,
    targets=work["targets"],
  )
  found = comparison.beside(sides, arguments.rounds)
  shapes.show(found, arguments.json)


if __name__ == "__main__":
  main()
