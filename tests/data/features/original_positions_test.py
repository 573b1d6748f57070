"""Targets at the positions that they have in the text, as MASS has them."""

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import Fragment
from transformer_zoo.corruption import PlacedDenoising
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.data.features.converters import EncoderDecoder
from transformer_zoo.errors import UserError

REWRITES = "noise_token_to_mask_random_or_same_token", "drop_nonnoise_tokens"
PLACED = EncoderDecoder(original_positions=True)


def laid_out(converter, corruption, packing=False):
  tokens = vocabularies.text(6, 20)
  draws = Draws(0, np.arange(6))
  examples = corruption(tokens, draws, vocabularies.t5())
  lengths = {"inputs": 24, "targets": 12}
  batch = converter(
    examples,
    np.arange(6),
    num_rows=7,
    lengths=lengths,
    packing=packing,
    pad_id=0,
  )
  shapes = converter.shapes(lengths, 7, packing)
  assert {name: array.shape for name, array in batch.items()} == shapes
  return tokens, examples, batch


@pytest.mark.parametrize("packing", [False, True])
def test_targets_stand_where_they_are_in_the_text(packing):
  corruption = PlacedDenoising(Fragment(0.5), *REWRITES)
  tokens, _, batch = laid_out(PLACED, corruption, packing)
  positions, targets = (
    batch[f"decoder_{name}"] for name in ("positions", "target_tokens")
  )
  assert len({*positions[:6, 0].tolist()}) > 2
  for text, places, target in zip(tokens, positions, targets, strict=False):
    np.testing.assert_array_equal(text[places[:10]], target[:10])


def test_all_else_is_that_of_denoising():
  _, placed, _ = laid_out(PLACED, PlacedDenoising(Fragment(0.5), *REWRITES))
  _, plain, batch = laid_out(
    EncoderDecoder(), Denoising(Fragment(0.5), *REWRITES)
  )
  assert "decoder_positions" not in batch
  for name, value in plain.items():
    np.testing.assert_array_equal(placed[name].values, value.values)


def test_examples_without_places_are_refused():
  with pytest.raises(UserError, match="do not say where their targets stand"):
    laid_out(PLACED, Denoising(Fragment(0.5), *REWRITES))
