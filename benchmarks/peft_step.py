"""Measures steps that train a part of a model beside full ones.

    python benchmarks/peft_step.py --shape small --methods lora prompt --peers

Prints the seconds of a full step of T5 (shapes.py; Adafactor, dropout 0.1), of
a step of each method of gin_configs/peft, and their ratio; in turns, so that a
machine that slows down slows all. LoRA has rank 8 in queries and values, a
prompt 100 vectors before the rows, or in the place of their first tokens with
`--within`. `--peers` measures `peft` over `transformers` eager in the
same turns; PYTHONPATH names the folder of `peft`.
"""

import argparse
import functools
import statistics
import time

import jax
import numpy as np
from workloads import random_batches
from workloads import shapes

from transformer_zoo import config
from transformer_zoo.data.features import prompts
from transformer_zoo.objectives.sequence_to_sequence import sequence_to_sequence
from transformer_zoo.peft import trainable as trainable_lib
from transformer_zoo.training import state
from transformer_zoo.training import step
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.sharding import partitioning

_FULL = "full"
_PROMPT_LENGTH = 100
METHODS = ("lora", "dora", "ia3", "bitfit", "adapters", "prompt", "p_tuning_v2")


def our_step(method: str, arguments: argparse.Namespace):
  """Returns a function that makes one step, compiled."""
  shape = shapes.SHAPES[arguments.shape]
  files = [shape.architecture, shape.size]
  bindings = ["DROPOUT_RATE=0.1", f"DTYPE={arguments.dtype!r}"]
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
          objective=functools.partial(sequence_to_sequence, model),
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


def their_step(method: str, arguments: argparse.Namespace):
  """Returns a function that makes one step of `peft` over `transformers`."""
  import peft
  import torch
  import transformers
  from transformers.optimization import Adafactor

  shape = shapes.SHAPES[arguments.shape]
  config.load([shape.architecture, shape.size], [], root="MODEL")
  ours = config.value("MODEL")
  layer = ours.encoder.layer
  model = transformers.T5ForConditionalGeneration(
    transformers.T5Config(
      vocab_size=ours.token_embedder.num_embeddings,
      d_model=ours.token_embedder.features,
      d_kv=layer.attention.head_dim,
      d_ff=layer.mlp.d_ff,
      num_layers=ours.encoder.num_layers,
      num_heads=layer.attention.num_heads,
      feed_forward_proj="gated-gelu",
      tie_word_embeddings=False,
      decoder_start_token_id=0,
      eos_token_id=None,
    )
  )
  kinds = {
    "lora": lambda: peft.LoraConfig(r=8, lora_alpha=8),
    "ia3": peft.IA3Config,
    "prompt": lambda: peft.PromptTuningConfig(
      num_virtual_tokens=_PROMPT_LENGTH
    ),
  }
  if method != _FULL:
    settings = kinds[method]()
    settings.task_type = "SEQ_2_SEQ_LM"
    model = peft.get_peft_model(model, settings)
  model.train()
  trained = [p for p in model.parameters() if p.requires_grad]
  optimizer = Adafactor(
    trained, lr=1e-3, relative_step=False, warmup_init=False
  )
  size = ours.token_embedder.num_embeddings
  length = shape.inputs
  if method == "prompt" and arguments.within:
    length -= _PROMPT_LENGTH
  inputs = torch.randint(3, size, (shape.batch_size, length))
  targets = torch.randint(3, size, (shape.batch_size, shape.targets))
  valid = torch.ones_like(inputs)

  def once():
    model(
      input_ids=inputs, attention_mask=valid, labels=targets
    ).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

  return once


def main():
  """Parses arguments, measures, prints."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--methods", nargs="+", choices=METHODS, default=["lora"])
  parser.add_argument("--steps", type=int, default=5)
  parser.add_argument("--peers", action="store_true")
  parser.add_argument("--within", action="store_true")
  arguments = shapes.parse(parser)
  steps = {
    ("zoo", m): our_step(m, arguments) for m in (_FULL, *arguments.methods)
  }
  if arguments.peers:
    steps |= {
      ("peft", m): their_step(m, arguments) for m in (_FULL, *arguments.methods)
    }
  seconds = {name: [] for name in steps}
  for turn in range(arguments.steps + 1):
    for name, once in steps.items():
      start = time.perf_counter()
      once()
      if turn:  # The first one warms up.
        seconds[name].append(time.perf_counter() - start)
  medians = {name: statistics.median(some) for name, some in seconds.items()}
  shapes.show(
    {
      f"{by}/{method}": f"{median:.3f} s, {median / medians[by, _FULL]:.2f}"
      for (by, method), median in medians.items()
    },
    arguments.json,
  )


if __name__ == "__main__":
  main()
