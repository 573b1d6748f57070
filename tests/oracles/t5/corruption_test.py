"""Masks, rewrites and lengths against the t5 package.

Its functions draw from TensorFlow. What they drew is read off their results and
put in the place of our draws: with the same draws both must make the same.
"""

import json
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.corruption import vocabulary as vocabularies
from transformer_zoo.corruption import ConcatenatedDocuments
from transformer_zoo.corruption import denoising
from transformer_zoo.corruption import Iid
from transformer_zoo.corruption import RandomPrefix
from transformer_zoo.corruption import RandomSpans
from transformer_zoo.corruption import RegularSpans
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.rewrites import noise_rewrites
from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep

T5_PACKAGE = pathlib.Path(sys.prefix) / "t5_package"
VOCABULARY = vocabularies.t5(500, 1000)
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
DRAWN = [
  "permute_noise_tokens",
  "noise_token_to_gathered_token",
  "noise_token_to_random_token",
  "noise_token_to_random_token_or_sentinel",
]
LENGTHS = [
  (inputs, density, mean)
  for inputs in (16, 64, 100, 512, 1024)
  for density in (0.1, 0.15, 0.25, 0.5, 0.7)
  for mean in (1.0, 2.0, 3.0, 5.0, 10.0)
  # t5 counts no span in a text of less than half a span.
  if inputs * density > mean / 2
]
SPANS = [
  (length, density, mean, roll)
  for length in (2, 3, 10, 30, 70, 97, 568)
  for density in (0.1, 0.15, 0.5)
  for mean in (1.0, 3.0, 10.0)
  for roll in (False, True)
  # t5 fails where there are more spans than tokens between them.
  if (length, density, mean) != (3, 0.5, 1.0)
]
REGULAR = [
  (length, density) for length in (9, 64, 300) for density in (0.15, 0.25)
]
PREFIXES = [(length, 0.5) for length in (2, 3, 50)] + [(50, 0.3), (50, 0.1)]


ROW_LENGTH = 16
DOCUMENTS = np.split(
  np.random.default_rng(1).integers(3, 500, 400, np.int32),
  [7, 8, 39, 40, 120, 121, 180, 333],
)


class _Scripted:
  """Draws that were decided before."""

  batch_size = 1

  def __init__(self, *drawn):
    self._drawn = list(drawn)

  def _next(self, *arguments):
    drawn = self._drawn.pop(0)
    return drawn(*arguments) if callable(drawn) else drawn

  subsets = integers = uniform = permutations = _next


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


def _noise():
  """What is asked of t5, per kind of mask."""
  return {
    "random_spans_noise_mask": [
      (
        length,
        {
          "noise_density": density,
          "mean_noise_span_length": mean,
          "random_roll": roll,
        },
      )
      for length, density, mean, roll in SPANS
    ],
    "regular_noise_mask": [
      (length, {"noise_density": density}) for length, density in REGULAR
    ],
    "random_prefix_noise_mask": [
      (length, {"noise_density": density}) for length, density in PREFIXES
    ],
    "iid_noise_mask": [(20_000, {"noise_density": 0.15})],
  }


@pytest.fixture(scope="module")
def case():
  """The masks, the tokens, and what t5 makes of them."""
  if not T5_PACKAGE.is_dir():
    pytest.skip("no t5 package: run `make test-oracles`")
  masks = _masks()
  tokens = np.random.default_rng(0).integers(
    3, 500, masks.shape, dtype=np.int32
  )
  noise = _noise()
  asked = {
    "rewrites": FIXED + DRAWN,
    "tokens": tokens.tolist(),
    "masks": masks.tolist(),
    "vocab_size": 1000,
    "lengths": LENGTHS,
    "noise": [(name, *one) for name, all_ in noise.items() for one in all_],
    "documents": [document.tolist() for document in DOCUMENTS],
    "row_length": ROW_LENGTH,
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
  theirs = json.loads(done.stdout)
  drawn = iter(map(np.array, theirs["noise"]))
  theirs["noise"] = {
    name: [next(drawn) for _ in all_] for name, all_ in noise.items()
  }
  return masks, tokens, theirs


@pytest.mark.parametrize("name", FIXED)
def test_rewrites(case, name):
  masks, tokens, theirs = case
  draws = Draws(0, np.arange(len(masks)))
  ours = noise_rewrites.find(name)(tokens, masks, draws, VOCABULARY)
  assert [row.tolist() for row in ours.rows()] == theirs["rewrites"][name]


def _draws_of(name, mask, places, made):
  """Returns the draws with which t5 made `made`, for our rewrite."""
  if name == "permute_noise_tokens":
    ranks = np.cumsum(mask) - 1
    return _Scripted(ranks[places[mask]][None])
  if name == "noise_token_to_gathered_token":
    return _Scripted(places[None])
  random = _Scripted(np.where(mask, made - 3, 0)[None])
  if name == "noise_token_to_random_token":
    return random
  use_random = np.where(made == VOCABULARY.mask_id, 1.0, 0.0)
  return _Scripted(use_random[None], random.integers())


@pytest.mark.parametrize("name", DRAWN)
def test_rewrites_that_draw(case, name):
  masks, tokens, theirs = case
  rows = zip(
    tokens,
    masks,
    np.array(theirs["places"][name]),
    np.array(theirs["rewrites"][name]),
    strict=True,
  )
  for text, mask, places, made in rows:
    draws = _draws_of(name, mask, places, made)
    ours = noise_rewrites.find(name)(text[None], mask[None], draws, VOCABULARY)
    np.testing.assert_array_equal(ours.values, made)
  if "random" in name:
    drawn = np.array(theirs["rewrites"][name])[masks]
    assert drawn.min() >= 3 and drawn.max() < 1000


def test_lengths(case):
  ours = [list(denoising.random_spans_helper(*asked)) for asked in LENGTHS]
  assert ours == case[2]["lengths"]


def _cuts(sizes):
  """Returns the subset that cuts items into segments of some sizes."""
  cuts = np.zeros(sizes.sum() - 1, bool)
  cuts[np.cumsum(sizes)[:-1] - 1] = True

  def subset(bounds, number):
    # As many tokens and as many spans as t5 has.
    assert bounds.tolist() == [len(cuts)]
    assert number.tolist() == [len(sizes) - 1]
    return cuts[None]

  return subset


@pytest.mark.parametrize("number", range(len(SPANS)))
def test_random_spans(case, number):
  length, density, mean, roll = SPANS[number]
  mask = case[2]["noise"]["random_spans_noise_mask"][number]
  # The offset is not told, but a mask that is not rolled ends in noise.
  wrapped = np.roll(mask, 1) & ~mask
  offset = int(np.flatnonzero(wrapped)[0]) if roll else 0
  straight = np.roll(mask, -offset)
  edges = np.flatnonzero(np.diff(np.append(straight, False)))
  sizes = np.diff(edges, prepend=-1)
  draws = _Scripted(_cuts(sizes[1::2]), _cuts(sizes[::2]), np.array([[offset]]))
  ours = RandomSpans(density, mean, roll)(draws, length)
  np.testing.assert_array_equal(ours[0], mask)


@pytest.mark.parametrize("number", range(len(REGULAR)))
def test_regular_spans(case, number):
  length, density = REGULAR[number]
  mask = case[2]["noise"]["regular_noise_mask"][number]
  ours = [
    RegularSpans(density)(
      _Scripted(np.array([[span]]), np.array([[offset]])), length
    )[0]
    for span in range(5)
    for offset in range(round((span + 1) / density))
  ]
  assert any((mask == one).all() for one in ours)


@pytest.mark.parametrize("number", range(len(PREFIXES)))
def test_random_prefix(case, number):
  length, density = PREFIXES[number]
  mask = case[2]["noise"]["random_prefix_noise_mask"][number]
  made = []

  def drawn(bound, _):
    # Shortest and longest are ours; what was drawn is theirs.
    shortest = length - int(np.asarray(bound).ravel()[0])
    made.append(mask.sum() - shortest)
    assert 0 <= made[0] < bound
    return np.array([[made[0]]])

  ours = RandomPrefix(density)(_Scripted(drawn), length)
  np.testing.assert_array_equal(ours[0], mask)


def test_iid(case):
  (mask,) = case[2]["noise"]["iid_noise_mask"]
  ours = Iid(0.15)(Draws(0, [0]), 20_000)[0]
  for one in (mask, ours):
    assert one.mean() == pytest.approx(0.15, abs=0.01)
    assert (one[1:] & one[:-1]).mean() == pytest.approx(0.15**2, abs=0.005)


def test_full_lm(case):
  features = {
    "targets": types.SimpleNamespace(
      vocabulary=types.SimpleNamespace(zoo_vocabulary=VOCABULARY),
      add_eos=False,
    )
  }
  documents = tf.data.Dataset.from_generator(
    lambda: ({"targets": document} for document in DOCUMENTS),
    output_signature={"targets": tf.TensorSpec([None], tf.int32)},
  )
  lengths = {"inputs": 1, "targets": ROW_LENGTH}
  rows = CorruptionStep(ConcatenatedDocuments())(documents, lengths, features)
  ours = [row["targets"].tolist() for row in rows.as_numpy_iterator()]
  theirs = case[2]["full_lm"]
  assert len(ours) == sum(map(len, theirs)) // ROW_LENGTH == 25
  assert theirs[: len(ours)] == ours
