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
  """What a peer is told: a T5.1.1 of this size, and what to do with it.

  Args:
    task: 'train' or 'decode'.
    model: ours.
    shape: rows and lengths.
    **settings: `dropout`, `steps` and `warmup`; `num_beams` and `repeats`.
  """
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


def median_seconds(peer: str, work: dict) -> float | None:
  """Seconds of a step or a batch, the median of several; None without peer."""
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
  return statistics.median(json.loads(done.stdout.splitlines()[-1]))


def beside(
  ours: Callable[[], float], peers: list[str], work: dict, rounds: int
) -> dict[str, list[float]]:
  """Medians of each, in turn, once a round; and ratios, above 1 if slower.

  Args:
    ours: measures ours once.
    peers: whom to run, of `PEERS`.
    work: what they are told.
    rounds: how often.
  """
  found: dict[str, list[float]] = {"ours": []}
  for _ in range(rounds):
    for peer in peers:
      seconds = median_seconds(peer, work)
      if seconds is not None:
        found.setdefault(peer, []).append(seconds)
    found["ours"].append(ours())
  for peer in peers:
    if peer in found:
      found[f"{peer}_over_ours"] = [
        theirs / mine
        for theirs, mine in zip(found[peer], found["ours"], strict=True)
      ]
  return found
