"""The same work by other implementations, in processes of their own.

PyTorch and JAX do not share a process, and each has all cores while it runs.
A peer that cannot be imported is left out, and why is said.
"""

from collections.abc import Callable
import json
import pathlib
import statistics
import subprocess
import sys

from flax import linen as nn
import shapes

PEERS = ("transformers", "t5x")


def work_of(
  task: str, model: nn.Module, shape: shapes.Shape, **settings
) -> dict:
  """What a peer is told: a model of this size, and what to do with it.

  Args:
    task: 'train' or 'decode' for a T5.1.1; the name of the shape for a BERT.
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


def seconds_of(peer: str, work: dict) -> list[float] | None:
  """Seconds of each step or batch; None without the peer."""
  script = pathlib.Path(__file__).with_name(f"peer_{peer}.py")
  done = subprocess.run(
    [sys.executable, str(script), json.dumps(work)],
    capture_output=True,
    text=True,
    check=False,
  )
  if done.returncode:
    reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
    print(f"{peer} left out: {reason[0]}", file=sys.stderr)
    return None
  return json.loads(done.stdout.splitlines()[-1])


def beside(
  ours: Callable[[], list[float]], peers: list[str], work: dict, rounds: int
) -> dict[str, list[float]]:
  """Each in turn, once a round: seconds, and ratios, above 1 if slower.

  Medians are of a round's steps; so are the fastest, which other work on the
  machine disturbs least.

  Args:
    ours: measures ours once, step by step.
    peers: whom to run, of `PEERS`.
    work: what they are told.
    rounds: how often.
  """
  measured: dict[str, list[list[float]]] = {"ours": []}
  for _ in range(rounds):
    for peer in peers:
      seconds = seconds_of(peer, work)
      if seconds is not None:
        measured.setdefault(peer, []).append(seconds)
    measured["ours"].append(ours())
  found = {}
  for suffix, of in (("", statistics.median), ("_fastest", min)):
    for name, rounds_of in measured.items():
      found[name + suffix] = [of(seconds) for seconds in rounds_of]
    for name in measured.keys() - {"ours"}:
      found[f"{name}{suffix}_over_ours"] = [
        theirs / mine
        for theirs, mine in zip(
          found[name + suffix], found["ours" + suffix], strict=True
        )
      ]
  return found
