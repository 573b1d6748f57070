"""Measures one training step: `python benchmarks/train_step.py --shape tiny`.

Prints seconds per step (median), tokens per second, model FLOPs utilisation
against a matmul peak measured in the same process, compile seconds and peak
memory. Shapes (shapes.py): tiny is d_model 256, d_ff 512 gated GELU, 4+4
layers, 4 heads of 64, vocabulary 8192, batch 16, inputs 128, targets 32; small
is T5.1.1-small at batch 8, inputs 512, targets 114; both with Adafactor.
bart_base and bart_half are 4 rows of 256 inputs and 64 targets, with AdamW;
bert_small is BERT-small's pre-training step, 16 rows of 128 tokens, masked
tokens and next sentence; bert_small_mrpc its fine-tuning on 32 pairs a step, as
long as those of MRPC, packed; both with AdamW. deberta_small, scanned with
remat, is 4 rows of 512 tokens, masked tokens; deberta_v3_small the fine-tuning
of the released size on 4 rows of 512 tokens; electra_small is generator and
discriminator, electra_small_masked a masked language model of the
discriminator's size; albert_6_layers and albert_24_layers are for their seconds
of compilation.

`--peers transformers t5x` measures their training steps in the same run, in
turn with ours (peers/comparison.py): medians and fastest steps of each round,
the processor's seconds, the peaks of memory in these steps beyond that behind
the imports, and the medians of the rounds' ratios; each side is a process of
its own. Ours computes logits at masked places alone: `transformers_masked` does
the same work, `transformers` computes them at all places. On the same pairs,
`transformers` pads each batch to its longest pair, and `transformers_grouped`
has pairs of similar lengths in a batch. `--beside SHAPE` measures another shape
of ours in the same way.
"""

import argparse
import functools
import itertools
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from peers import comparison
from workloads import random_batches
from workloads import resident
from workloads import shapes
from workloads import timing

from transformer_zoo.forecast import cost
from transformer_zoo.objectives import encoder
from transformer_zoo.objectives import replaced_tokens
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.training import state
from transformer_zoo.training import step
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.optimizers.adam import adamw
from transformer_zoo.training.sharding import partitioning

_PAIR_STEPS = 8  # Batches of pairs: their rows are packed together.
_BEHIND_IMPORTS = resident.peak_bytes()


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


def t5_work(model, shape: shapes.Shape) -> dict:
  """One batch of full rows, the objective, and the optimizer."""
  vocab_size, rows = model.token_embedder.num_embeddings, shape.batch_size
  if model.offers.has_encoder:
    batch = random_batches.packed(rows, shape.inputs, shape.targets, vocab_size)
  else:
    length = shape.inputs + shape.targets
    batch = random_batches.decoder_rows(rows, length, vocab_size)
  return {
    "batches": [batch],
    "tokens": shape.batch_size * (shape.inputs + shape.targets),
    "objective": SequenceToSequence(),
    "optimizer": adamw(schedules.constant(1e-4))
    if shape.family or shape.architecture.endswith("bart.gin")
    else adafactor(schedules.rsqrt()),
  }


def encoder_work(model, shape: shapes.Shape) -> dict:
  """Batches, the objective and the optimizer of BERT."""
  vocab_size = model.token_embedder.num_embeddings
  if "classes" in model.heads.parts:
    lengths = lengths_of_texts(shape)
    batches = random_batches.packed_pairs(
      lengths, _PAIR_STEPS, shape.inputs, vocab_size
    )
    tokens = int(lengths.sum()) / _PAIR_STEPS
    losses = (encoder.ClassLoss(),)
  else:
    batches = [
      random_batches.masked(shape.batch_size, shape.inputs, vocab_size)
    ]
    tokens = shape.batch_size * shape.inputs
    losses = (encoder.MaskedTokenLoss(),)
    if "next_sentence" in model.heads.parts:
      losses += (encoder.SentencePairLoss(),)
  objective = encoder.EncoderObjective(losses)
  if hasattr(model, "generator"):
    found = (replaced_tokens.ReplacedTokenLoss(),)
    objective = replaced_tokens.ReplacedTokens(found)
  return {
    "batches": batches,
    "tokens": tokens,
    "objective": objective,
    "optimizer": adamw(schedules.constant(1e-4)),
  }


def lengths_of_texts(shape: shapes.Shape) -> np.ndarray:
  """The lengths of the texts of all batches that have classes."""
  number = _PAIR_STEPS * shape.batch_size
  if shape.is_mrpc:
    return random_batches.mrpc_lengths(number)
  return np.full(number, shape.inputs)


def measure(arguments) -> dict:
  """Runs the steps and returns the figures."""
  model, shape = shapes.model_of(
    arguments, [f"DROPOUT_RATE={arguments.dropout}"]
  )
  work = (encoder_work if shape.task else t5_work)(model, shape)
  optimizer = work["optimizer"]
  layout = partitioning.Partitioning()
  mesh = layout.mesh()
  objective = functools.partial(work["objective"], model)
  with layout.activate(mesh):
    train_state = jax.jit(
      functools.partial(state.initial_state, model, optimizer)
    )(jax.random.key(0))
    batches = [partitioning.put_batch(b, mesh) for b in work["batches"]]
    run_step = jax.jit(
      functools.partial(
        step.train_step, objective=objective, optimizer=optimizer
      ),
      donate_argnums=0,
    )
    key = jax.random.key(1)
    start = time.perf_counter()
    compiled = run_step.lower(train_state, batches[0], key).compile()
    compile_seconds = time.perf_counter() - start
    held, turn = [train_state], itertools.cycle(batches)
    del train_state  # Donated to the first step.

    def run():
      held[0], sums = compiled(held[0], next(turn), key)
      jax.block_until_ready((held[0], sums))

    figures = timing.timed(run, arguments.warmup, arguments.steps)
    forward = cost.count(objective, held[0].params, batches[0])
  flops = 3 * forward.matmul_flops
  peak = matmul_peak(arguments.dtype)
  median = statistics.median(figures["seconds"])
  memory = compiled.memory_analysis()
  return figures | {
    "shape": arguments.shape,
    "dtype": arguments.dtype,
    "dropout": arguments.dropout,
    "device": jax.devices()[0].device_kind,
    "seconds_per_step": median,
    "fastest_seconds": min(figures["seconds"]),
    "tokens_per_second": work["tokens"] / median,
    "model_flops": flops,
    "matmul_peak_flops_per_second": peak,
    "model_flops_utilisation": flops / median / peak,
    "compile_seconds": compile_seconds,
    "temporary_bytes": memory.temp_size_in_bytes,
    "beyond_imports_bytes": figures["peak_bytes"] - _BEHIND_IMPORTS,
  }


def sides(arguments) -> dict:
  """What is measured in turn, ours last."""
  model, shape = shapes.model_of(arguments)
  work = comparison.work_of(
    arguments.shape if shape.task else "train",
    model,
    shape,
    dropout=arguments.dropout,
    steps=arguments.steps,
    warmup=arguments.warmup,
    lengths=lengths_of_texts(shape).tolist(),
  )
  same = {
    name: getattr(arguments, name)
    for name in ("dtype", "dropout", "steps", "warmup")
  }
  found = comparison.sides_of(arguments.peers, work)
  for name in arguments.beside:
    found |= comparison.our_side(name, "train_step", shape=name, **same)
  return found | comparison.our_side(
    "ours", "train_step", shape=arguments.shape, **same
  )


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--dropout", type=float, default=0.1)
  parser.add_argument("--steps", type=int, default=10)
  parser.add_argument("--warmup", type=int, default=2)
  parser.add_argument(
    "--peers", nargs="+", choices=tuple(comparison.PEERS), default=[]
  )
  parser.add_argument(
    "--beside", nargs="+", choices=tuple(shapes.SHAPES), default=[]
  )
  parser.add_argument(
    "--rounds", type=int, default=2, help="with --peers or --beside"
  )
  arguments = shapes.parse(parser, choices=tuple(shapes.SHAPES))
  if not (arguments.peers or arguments.beside):
    shapes.show(measure(arguments), arguments.json)
    return
  found = comparison.beside(sides(arguments), arguments.rounds)
  shapes.show(found, arguments.json)


if __name__ == "__main__":
  main()
