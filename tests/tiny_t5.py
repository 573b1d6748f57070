"""Tiny T5s from the shipped gin files; weights and batches from seeds.

RandomState is used throughout: numpy keeps its streams the same for ever.
"""

import functools
import zlib

from flax import linen as nn
from flax import traverse_util
import jax
import numpy as np

from tests import programs
from transformer_zoo import config
from transformer_zoo.objectives import terms
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.training import state

ARCHITECTURES = ("t5_1_0", "t5_1_1")
# No two sizes agree, and heads times head_dim is not d_model: a transposed or
# swapped axis cannot go unseen.
TINY = {
  "EMBED_DIM": 32,
  "MLP_DIM": 48,
  "NUM_HEADS": 3,
  "HEAD_DIM": 8,
  "NUM_ENCODER_LAYERS": 2,
  "NUM_DECODER_LAYERS": 3,
  "VOCAB_SIZE": 96,
}


@functools.cache
def build(architecture: str = "t5_1_1", **macros) -> nn.Module:
  """The model of architectures/<architecture>.gin, tiny but for `macros`."""
  settings = {**TINY, **macros}
  config.load(
    [f"architectures/{architecture}.gin"],
    [f"{name}={value!r}" for name, value in settings.items()],
    root="MODEL",
  )
  return config.value("MODEL")


def shapes(model: nn.Module):
  """The boxed parameter tree by shape evaluation: no memory, no compute."""
  return state.abstract_variables(model)


def random_parameters(model: nn.Module, seed: int = 0) -> dict:
  """Float32 numpy weights of a looped model, a function of seed and path."""
  drawn = {}
  flat = traverse_util.flatten_dict(nn.unbox(shapes(model)), sep="/")
  for path, leaf in flat.items():
    random = np.random.RandomState([seed, zlib.crc32(path.encode())])
    normal = random.standard_normal(leaf.shape)
    if path.endswith("scale"):
      value = 1.0 + 0.2 * normal
    elif path.endswith("kernel"):
      value = normal * leaf.shape[0] ** -0.5
    else:
      value = normal
    drawn[path] = value.astype(np.float32)
  return traverse_util.unflatten_dict(drawn, sep="/")


def loss_and_sums(*arguments, **settings):
  """The loss and the sums of the sequence-to-sequence objective."""
  found = SequenceToSequence(**settings)(*arguments)
  return terms.loss(found), terms.sums(found)


def stack_layers(params: dict) -> dict:
  """A looped model's parameters, for the scanned model that equals it."""
  stacked = {}
  for name, subtree in params.items():
    if name in ("encoder", "decoder"):
      count = sum(key.startswith("layers_") for key in subtree)
      layers = [subtree[f"layers_{i}"] for i in range(count)]
      rest = {k: v for k, v in subtree.items() if not k.startswith("layers_")}
      subtree = {
        **rest,
        "layers": jax.tree.map(lambda *leaves: np.stack(leaves), *layers),
      }
    stacked[name] = subtree
  return stacked


def random_batch(
  seed: int = 0,
  *,
  rows: int = 3,
  inputs: int = 12,
  targets: int = 7,
  vocab_size: int = TINY["VOCAB_SIZE"],
) -> dict[str, np.ndarray]:
  """Rows of random lengths, EOS at their end and padding after; row 0 full."""
  random = np.random.RandomState(seed)

  def tokens(length):
    ids = random.randint(3, vocab_size, (rows, length)).astype(np.int32)
    ends = random.randint(length // 3, length, (rows, 1))
    ends[0] = length - 1
    positions = np.arange(length)[None]
    return np.where(positions < ends, ids, positions == ends).astype(np.int32)

  encoder, decoder = tokens(inputs), tokens(targets)
  return {
    "encoder_input_tokens": encoder,
    "decoder_input_tokens": shift_right(decoder),
    "decoder_target_tokens": decoder,
    "decoder_loss_weights": (decoder > 0).astype(np.int32),
  }


def shift_right(targets: np.ndarray) -> np.ndarray:
  """What the decoder is fed: the targets, one later, after a 0."""
  return np.pad(targets, ((0, 0), (1, 0)))[:, :-1]


def logits(model: nn.Module, params, batch, **keywords) -> np.ndarray:
  """Teacher-forced logits [B, L, V]."""
  return np.asarray(
    programs.apply(
      model,
      {"params": params},
      batch["encoder_input_tokens"],
      batch["decoder_input_tokens"],
      batch["decoder_target_tokens"],
      **keywords,
    )
  )


def largest_difference(ours, theirs) -> float:
  """The largest difference, relative to the largest absolute value."""
  ours, theirs = np.asarray(ours), np.asarray(theirs)
  assert ours.shape == theirs.shape
  return float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))
