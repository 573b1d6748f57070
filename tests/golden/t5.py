"""The inputs and the places of the recorded T5 goldens."""

import pathlib
import zlib

import jax
import numpy as np

from tests import tiny_t5

FOLDER = pathlib.Path(__file__).parent
# As many layers on both sides: see oracles/pytorch/t5_test.py. Lengths cross
# the largest distance of the relative bias, 128.
SIZES = {
  "EMBED_DIM": 48,
  "NUM_ENCODER_LAYERS": 2,
  "NUM_DECODER_LAYERS": 2,
  "VOCAB_SIZE": 40,
}
GENERATED = 32


def path(architecture: str) -> pathlib.Path:
  """tests/golden/t5_v1_0.npz of t5_1_0."""
  return FOLDER / f"{architecture.replace('t5_', 't5_v')}.npz"


def setting(architecture: str):
  """Our model, its weights and the batch; nothing of them is recorded."""
  model = tiny_t5.build(architecture, **SIZES)
  params = tiny_t5.random_parameters(model, seed=2020)
  batch = tiny_t5.random_batch(
    2020, rows=6, inputs=150, targets=140, vocab_size=SIZES["VOCAB_SIZE"]
  )
  return model, params, batch


def checksum(params, batch) -> int:
  """Of the bytes of weights and batch: tells a changed seed from a bug."""
  leaves = [*jax.tree.leaves(params), *jax.tree.leaves(batch)]
  return zlib.crc32(b"".join(np.asarray(leaf).tobytes() for leaf in leaves))
