"""Rewrites and lengths against the t5 package, on the same masks."""

import json
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

from transformer_zoo.corruption import Iid
from transformer_zoo.corruption import lengths
from transformer_zoo.corruption import RandomPrefix
from transformer_zoo.corruption import RandomSpans
from transformer_zoo.corruption import RegularSpans
from transformer_zoo.corruption import rewrites
from transformer_zoo.corruption.draws import Draws

T5_PACKAGE = pathlib.Path(sys.prefix) / "t5_package"
VOCABULARY = types.SimpleNamespace(
  sentinel_ids=np.arange(999, 499, -1), size=1000
)
# Rewrites that draw nothing.
FIXED = [
  "noise_span_to_unique_sentinel",
  "nonnoise_span_to_unique_sentinel",
  "noise_span_to_sentinel",
  "nonnoise_span_to_sentinel",
  "noise_token_to_sentinel",
  "drop_noise_tokens",
  "drop_nonnoise_tokens",
]
LENGTHS = [
  (inputs, density, mean)
  for inputs in (16, 64, 100, 512, 1024)
  for density in (0.1, 0.15, 0.25, 0.5, 0.7)
  for mean in (1.0, 2.0, 3.0, 5.0, 10.0)
]


def _masks():
  draws = Draws(0, np.arange(20))
  noises = (
    Iid(0.15),
    Iid(0.6),
    RandomSpans(),
    RandomSpans(0.5, 2, random_roll=True),
    RegularSpans(),
    RandomPrefix(),
  )
  ends = np.array([[False] * 50, [True] * 50])
  return np.concatenate([*(noise(draws, 50) for noise in noises), ends])


@pytest.fixture(scope="module")
def case():
  """The masks, the tokens, and what t5 makes of them."""
  if not T5_PACKAGE.is_dir():
    pytest.skip("no t5 package: run `make test-oracles`")
  masks = _masks()
  tokens = np.random.default_rng(0).integers(
    3, 500, masks.shape, dtype=np.int32
  )
  asked = {
    "rewrites": FIXED,
    "tokens": tokens.tolist(),
    "masks": masks.tolist(),
    "vocab_size": 1000,
    "lengths": LENGTHS,
  }
  done = subprocess.run(
    [sys.executable, pathlib.Path(__file__).with_name("t5_corruption.py")],
    input=json.dumps(asked),
    env={**os.environ, "PYTHONPATH": str(T5_PACKAGE)},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  return masks, tokens, json.loads(done.stdout)


@pytest.mark.parametrize("name", FIXED)
def test_rewrites(case, name):
  masks, tokens, theirs = case
  draws = Draws(0, np.arange(len(masks)))
  ours = rewrites.find(name)(tokens, masks, draws, VOCABULARY)
  assert [row.tolist() for row in ours.rows()] == theirs["rewrites"][name]


def test_lengths(case):
  ours = [list(lengths.random_spans_helper(*asked)) for asked in LENGTHS]
  assert ours == case[2]["lengths"]
