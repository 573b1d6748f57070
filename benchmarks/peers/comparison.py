"""The same work by other implementations, each in a process of its own.

PyTorch and JAX do not share a process, and each has all cores while it runs. A
peer that cannot be imported is left out, and its error is printed.
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

PEERS = ("transformers", "t5x")
BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent


def work_of(
  task: str, model: nn.Module, shape: shapes.Shape, **settings
) -> dict:
  """The JSON argument of a peer: a model of this size, and its work.

  Args:
    task: 'train' or 'decode' for a T5.1.1 or a BART; the name of the shape for
      a BERT.
    model: ours.
    shape: rows and lengths.
    **settings: `dropout`, `steps` and `warmup`; `num_beams` and `repeats`.
  """
  if shape.task:
    layer = model.encoder.layer
    return {
      "task": task,
      "vocab_size": model.token_embedder.num_embeddings,
      "d_model": model.token_embedder.features,
      "d_ff": layer.mlp.d_ff,
      "num_heads": layer.attention.num_heads,
      "num_layers": model.encoder.num_layers,
      "batch_size": shape.batch_size,
      "inputs": shape.inputs,
      **settings,
    }
  attention = model.decoder.stack.layer.self_attention
  return {
    "task": task,
    "is_bart": shape.architecture.endswith("bart.gin"),
    "vocab_size": model.token_embedder.num_embeddings,
    "d_model": model.token_embedder.features,
    "d_ff": model.decoder.stack.layer.mlp.d_ff,
    "num_heads": attention.num_heads,
    "head_dim": attention.head_dim,
    "num_encoder_layers": model.encoder.num_layers,
    "num_decoder_layers": model.decoder.stack.num_layers,
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
    `seconds` of each step or batch, and perhaps `beyond_imports_bytes`, the
    peak of the resident memory in them less that behind the imports, and
    `processor_seconds`, the median of the processor's seconds. None if the
    module fails; the last line of its error is printed.
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
  found = json.loads(done.stdout.splitlines()[-1])
  return found if isinstance(found, dict) else {"seconds": found}


def beside(
  sides: Mapping[str, Callable[[], dict | None]], rounds: int
) -> dict[str, list[float]]:
  """Each in turn, once a round: seconds, and ratios, above 1 if slower.

  Medians are of a round's steps; so are the fastest, which other work on the
  machine disturbs least. Peaks of memory and the processor's seconds are of
  each round, where known.

  Args:
    sides: functions that measure once, by name; the ratios are to the last.
    rounds: how often.
  """
  measured: dict[str, list[dict]] = {}
  for _ in range(rounds):
    for name, measure in sides.items():
      figures = measure()
      if figures is not None:
        measured.setdefault(name, []).append(figures)
  *_, last = sides
  found = {}
  for suffix, of in (
    ("", lambda figures: statistics.median(figures["seconds"])),
    ("_fastest", lambda figures: min(figures["seconds"])),
    ("_bytes", lambda figures: figures.get("beyond_imports_bytes")),
    ("_processor", lambda figures: figures.get("processor_seconds")),
  ):
    for name, rounds_of in measured.items():
      found[name + suffix] = [of(figures) for figures in rounds_of]
      if None in found[name + suffix]:
        del found[name + suffix]
    for name in measured.keys() - {last}:
      if {name + suffix, last + suffix} <= found.keys():
        found[f"{name}{suffix}_over_{last}"] = [
          theirs / mine
          for theirs, mine in zip(
            found[name + suffix], found[last + suffix], strict=True
          )
        ]
  return found


def sides_of(
  peers: Sequence[str], work: dict
) -> dict[str, Callable[[], dict | None]]:
  """Functions that measure each peer once.

  Args:
    peers: The peers to run, of `PEERS`.
    work: The work that each of them measures (`work_of`).
  """
  work = json.dumps(work)
  return {
    peer: functools.partial(figures_of, peer, f"peers.{peer}", work)
    for peer in peers
  }
