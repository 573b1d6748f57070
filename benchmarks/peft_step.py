"""Measures steps that train a part of a model beside full ones.

    python benchmarks/peft_step.py --shape small --methods lora prompt --peers

Prints the figures of a step of each method of gin_configs/peft and of a full
step of T5 (shapes.py; Adafactor, dropout 0.1), and the medians of their ratios
(peers/comparison.py). Each is a process of its own, in turn, so that a machine
that slows down slows all. LoRA has rank 8 in queries and values, a prompt 100
vectors before the rows, or in the place of their first tokens with `--within`.
`--peers` measures `peft` over `transformers` in the same rounds.
"""

import argparse
import functools
import json

import jax
import numpy as np
from peers import comparison
from workloads import random_batches
from workloads import shapes
from workloads import timing

from transformer_zoo import config
from transformer_zoo.data.features import prompts
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.peft import trainable as trainable_lib
from transformer_zoo.training import state
from transformer_zoo.training import step
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.sharding import partitioning

_FULL = "full"
_PROMPT_LENGTH = 100
_DROPOUT = 0.1
METHODS = ("lora", "dora", "ia3", "bitfit", "adapters", "prompt", "p_tuning_v2")


def our_step(method: str, arguments: argparse.Namespace):
  """Returns a function that makes one step, compiled."""
  shape = shapes.SHAPES[arguments.shape]
  files = [shape.architecture, shape.size]
  bindings = [f"DROPOUT_RATE={_DROPOUT}", f"DTYPE={arguments.dtype!r}"]
  if method != _FULL:
    files.append(f"peft/{method}.gin")
  config.load(files, bindings, root="MODEL")
  model, trainable = config.value("MODEL"), trainable_lib.ALL
  if method != _FULL:
    trainable = config.call("Trainable")
  optimizer = adafactor(schedules.constant(1e-3))
  batch = random_batches.packed(
    shape.batch_size,
    shape.inputs,
    shape.targets,
    model.token_embedder.num_embeddings,
  )
  if method == "prompt":
    batch = with_prompt(batch, cut=_PROMPT_LENGTH * arguments.within)
  layout = partitioning.Partitioning()
  mesh = layout.mesh()
  with layout.activate(mesh):
    train_state = jax.jit(
      lambda key: state.initial_state(model, optimizer, key, trainable)
    )(jax.random.key(0))
    batch = partitioning.put_batch(batch, mesh)
    key = jax.random.key(1)
    compiled = (
      jax.jit(
        functools.partial(
          step.train_step,
          objective=functools.partial(SequenceToSequence(), model),
          optimizer=optimizer,
          trainable=trainable,
        ),
        donate_argnums=0,
      )
      .lower(train_state, batch, key)
      .compile()
    )
  held = [train_state]

  def once():
    held[0], sums = compiled(held[0], batch, key)
    jax.block_until_ready((held[0], sums))

  return once


def with_prompt(batch, cut: int):
  """The batch with a prompt before each row, in which so many are cut."""
  rows = len(batch["encoder_input_tokens"])
  batch = {
    name: array[:, cut:] if name.startswith("encoder_") else array
    for name, array in batch.items()
  }

  def before(name, ids):
    first = np.broadcast_to(ids, (rows, _PROMPT_LENGTH))
    return np.concatenate([first, batch[name]], axis=1).astype(np.int32)

  places = np.arange(_PROMPT_LENGTH)
  changed = {
    "encoder_input_tokens": before(
      "encoder_input_tokens", prompts.FIRST_ID + places
    )
  }
  if "encoder_segment_ids" in batch:
    changed["encoder_segment_ids"] = before("encoder_segment_ids", 1)
    longer = batch["encoder_positions"] + _PROMPT_LENGTH
    changed["encoder_positions"] = np.concatenate(
      [np.broadcast_to(places, (rows, _PROMPT_LENGTH)), longer], axis=1
    ).astype(np.int32)
  return {**batch, **changed}


def sides_of(arguments: argparse.Namespace) -> dict:
  """Functions that measure each method once, ours and those of `peft`."""
  methods = (*arguments.methods, _FULL)
  options = ["--within"] if arguments.within else []
  sides = {}
  for method in methods:
    sides |= comparison.our_side(
      method,
      "peft_step",
      *options,
      shape=arguments.shape,
      dtype=arguments.dtype,
      steps=arguments.steps,
      alone=method,
    )
  if not arguments.peers:
    return sides
  model, shape = shapes.model_of(arguments)
  for method in methods:
    work = comparison.work_of(
      "train",
      model,
      shape,
      dropout=_DROPOUT,
      steps=arguments.steps,
      warmup=1,
      prompt_length=_PROMPT_LENGTH,
    )
    if method != _FULL:
      work["method"] = method
    if method == "prompt" and arguments.within:
      work["inputs"] -= _PROMPT_LENGTH
    name = f"peft {method}"
    sides[name] = functools.partial(
      comparison.figures_of, name, "peers.peft", json.dumps(work)
    )
  return sides


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--methods", nargs="+", choices=METHODS, default=["lora"])
  parser.add_argument(
    "--alone",
    choices=(_FULL, *METHODS),
    help="measures this method alone, in this process",
  )
  parser.add_argument("--steps", type=int, default=5)
  parser.add_argument("--rounds", type=int, default=2)
  parser.add_argument("--peers", action="store_true")
  parser.add_argument("--within", action="store_true")
  arguments = shapes.parse(parser)
  if arguments.alone:
    run = our_step(arguments.alone, arguments)
    shapes.show(timing.timed(run, 1, arguments.steps), arguments.json)
    return
  ratios = [(method, _FULL) for method in arguments.methods]
  if arguments.peers:
    for method in arguments.methods:
      ratios.append((f"peft {method}", f"peft {_FULL}"))
    for method in (*arguments.methods, _FULL):
      ratios.append((f"peft {method}", method))
  found = comparison.beside(sides_of(arguments), arguments.rounds, ratios)
  shapes.show(found, arguments.json)


if __name__ == "__main__":
  main()
