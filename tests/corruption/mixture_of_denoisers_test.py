"""Mixtures of denoisers: shares, modes, rows as each denoiser makes them."""

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo.corruption import Denoiser
from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import MixtureOfDenoisers
from transformer_zoo.corruption import RandomPrefix
from transformer_zoo.corruption import RandomSpans
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.errors import UserError

SPANS = Denoising(RandomSpans(0.15, 3.0))
PREFIX = Denoising(
  RandomPrefix(0.25), "drop_nonnoise_tokens", "drop_noise_tokens"
)
LENGTHS = {"inputs": 64, "targets": 64}
ROWS = 4000


def made(*denoisers, rows=ROWS, vocabulary=None):
  mixture = MixtureOfDenoisers(denoisers)
  tokens = vocabularies.text(rows, mixture.raw_length(LENGTHS))
  vocabulary = vocabulary or vocabularies.t5()
  return tokens, mixture(tokens, Draws(3, np.arange(rows)), vocabulary)


VOCABULARY = vocabularies.t5(
  encode=lambda text: [11] if text == "r" else [12, 13]
)


def test_shares_and_modes():
  _, found = made(
    Denoiser(SPANS, 3.0, "r"), Denoiser(PREFIX, 1.0, "s"), vocabulary=VOCABULARY
  )
  rows = found["inputs"].rows()
  is_span = np.array([row[0] == 11 for row in rows])
  assert all(row[1] == 13 for row in rows if row[0] == 12)
  assert is_span.mean() == pytest.approx(0.75, abs=0.02)


def test_without_modes_each_row_is_one_of_its_denoiser():
  tokens, found = made(Denoiser(SPANS), Denoiser(PREFIX), rows=60)
  sentinel = vocabularies.t5().sentinel_ids[0]
  for text, inputs, targets in zip(
    tokens, found["inputs"].rows(), found["targets"].rows(), strict=True
  ):
    if sentinel in inputs:
      assert len(inputs) < len(text) and sentinel in targets
    else:
      np.testing.assert_array_equal(np.concatenate([inputs, targets]), text)


def test_one_denoiser_is_that_denoiser():
  tokens, found = made(Denoiser(SPANS), rows=8)
  draws = Draws(3, np.arange(8))
  draws.uniform(1)  # That of the choice.
  expected = SPANS(tokens, draws, vocabularies.t5())
  for name, value in expected.items():
    np.testing.assert_array_equal(found[name].values, value.values)


def test_refusals():
  with pytest.raises(UserError, match="denoisers is empty"):
    MixtureOfDenoisers(())
  with pytest.raises(UserError, match="share is 0"):
    Denoiser(SPANS, 0)
  long = vocabularies.t5(encode=lambda text: [7] * 4)
  mixture = MixtureOfDenoisers((Denoiser(SPANS, mode="long"),))
  with pytest.raises(UserError, match="4 tokens of the vocabulary where 3"):
    mixture.check(LENGTHS, long)
