"""The same work by other implementations, each in a process of its own.

PyTorch and JAX do not share a process, and each has all cores while it runs. A
peer that cannot be imported, or that does not do the work, is left out, and its
error is printed.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys

from flax import linen as nn
from workloads import shapes
from workloads import timing

from transformer_zoo.interop.huggingface.families import FAMILIES

# The module of each peer, and what it adds to the work.
PEERS = {
  "transformers": ("peers.transformers", {}),
  "transformers_compiled": ("peers.transformers", {"compile": True}),
  # Logits at masked places alone: the work that ours does.
  "transformers_masked": ("peers.transformers", {"masked_places": True}),
  "transformers_masked_compiled": (
    "peers.transformers",
    {"masked_places": True, "compile": True},
  ),
  # Batches of pairs of similar lengths.
  "transformers_grouped": ("peers.transformers", {"group_by_length": True}),
  "t5x": ("peers.t5x", {}),
  # Embeddings as a gather and not as a product with one-hot vectors.
  "t5x_gather": ("peers.t5x", {"gather": True}),
}
BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent


def work_of(
  task: str, model: nn.Module, shape: shapes.Shape, **settings
) -> dict:
  """The JSON argument of a peer: a model of this size, and its work.

  Args:
    task: 'train' or 'decode' for a T5.1.1 or a BART; the name of the shape for
      an encoder.
    model: ours.
    shape: rows and lengths.
    **settings: `dropout`, `steps` and `warmup`; `num_beams` and `repeats`.
  """
  if shape.task:
    layer = model.encoder.layer_stack.layer
    return {
      "task": task,
      "vocab_size": model.token_embedder.num_embeddings,
      "d_model": model.token_embedder.features,
      "d_ff": layer.mlp.d_ff,
      "num_heads": layer.attention.num_heads,
      "num_layers": model.encoder.layer_stack.num_layers,
      "batch_size": shape.batch_size,
      "inputs": shape.inputs,
      **settings,
    }
  if shape.family:
    of_class = {family.kind: family for family in FAMILIES}[shape.family]
    return {
      "task": task,
      "config": of_class.config(model),
      "vocab_size": model.token_embedder.num_embeddings,
      "batch_size": shape.batch_size,
      "inputs": shape.inputs,
      "targets": shape.targets,
      **settings,
    }
  attention = model.decoder.transformer.layer_stack.layer.self_attention
  return {
    "task": task,
    "is_bart": shape.architecture.endswith("bart.gin"),
    "vocab_size": model.token_embedder.num_embeddings,
    "d_model": model.token_embedder.features,
    "d_ff": model.decoder.transformer.layer_stack.layer.mlp.d_ff,
    "num_heads": attention.num_heads,
    "head_dim": attention.head_dim,
    "num_encoder_layers": model.encoder.layer_stack.num_layers,
    "num_decoder_layers": model.decoder.transformer.layer_stack.num_layers,
    "batch_size": shape.batch_size,
    "inputs": shape.inputs,
    "targets": shape.targets,
    **settings,
  }


def figures_of(name: str, module: str, *arguments: str) -> dict | None:
  """Runs a module of the benchmarks and returns the figures that it prints.

  Args:
    name: The name of the module in messages.
    module: The module, as `peers.t5x` or `train_step`.
    *arguments: The arguments of its command line.

  Returns:
    `seconds` and `processor_seconds` of each step or batch, and perhaps
    `beyond_imports_bytes`, the peak of the resident memory in them less that
    behind the imports. None if the module fails; the last line of its error is
    printed.
  """
  path = os.pathsep.join(
    filter(None, (str(BENCHMARKS), os.environ.get("PYTHONPATH")))
  )
  done = subprocess.run(
    [sys.executable, "-m", module, *arguments],
    env=os.environ | {"PYTHONPATH": path},
    capture_output=True,
    text=True,
    check=False,
  )
  if done.returncode:
    reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
    print(f"{name} left out: {reason[0]}", file=sys.stderr)
    return None
  return json.loads(done.stdout.splitlines()[-1])


def beside(
  sides: Mapping[str, Callable[[], dict | None]],
  rounds: int,
  ratios: Sequence[tuple[str, str]] | None = None,
) -> dict[str, dict]:
  """Measures each side in turn, once a round.

  Args:
    sides: functions that measure once, by name.
    rounds: how often.
    ratios: pairs of sides whose ratio is formed; each to the last by default.

  Returns:
    `machine`, which did it, with the load before and after, and for each of
    `seconds` (the median of a round's steps), `fastest_seconds` (which other
    work on the machine disturbs least), `processor_seconds` (the median) and
    `bytes`, where known: the figures of the rounds by side, and for each ratio
    `ONE / OTHER`, the median over the rounds, above 1 if ONE needs more.
  """
  machine = timing.machine()
  measured: dict[str, list[dict]] = {}
  for _ in range(rounds):
    for name, measure in sides.items():
      figures = measure()
      if figures is not None:
        measured.setdefault(name, []).append(figures)
  found = {"machine": machine | {"load_after": timing.machine()["load"]}}
  if ratios is None:
    *names, last = sides
    ratios = [(name, last) for name in names]
  for figure, of in (
    ("seconds", lambda figures: statistics.median(figures["seconds"])),
    ("fastest_seconds", lambda figures: min(figures["seconds"])),
    (
      "processor_seconds",
      lambda figures: statistics.median(figures["processor_seconds"]),
    ),
    ("bytes", lambda figures: figures.get("beyond_imports_bytes")),
  ):
    values = {
      name: [of(figures) for figures in rounds_of]
      for name, rounds_of in measured.items()
    }
    if any(None in some for some in values.values()):
      continue
    found[figure] = values | {
      f"{one} / {other}": statistics.median(
        mine / theirs
        for mine, theirs in zip(values[one], values[other], strict=True)
      )
      for one, other in ratios
      if {one, other} <= values.keys()
    }
  return found


def sides_of(
  peers: Sequence[str], work: dict
) -> dict[str, Callable[[], dict | None]]:
  """Functions that measure each peer once.

  Args:
    peers: The peers to run, of `PEERS`.
    work: The work that each of them measures (`work_of`).
  """
  sides = {}
  for peer in peers:
    module, settings = PEERS[peer]
    argument = json.dumps(work | settings)
    sides[peer] = functools.partial(figures_of, peer, module, argument)
  return sides


def our_side(
  name: str, module: str, *flags: str, **options
) -> dict[str, Callable[[], dict | None]]:
  """A function that measures a benchmark of ours once, by name.

  Args:
    name: The name of the side.
    module: The module of the benchmark, as `train_step`.
    *flags: Flags of its command line.
    **options: The options of its command line by name, as `shape`.
  """
  words = [f"--{option}={value}" for option, value in options.items()]
  measure = functools.partial(
    figures_of, name, module, "--json", *flags, *words
  )
  return {name: measure}
