"""Widths of batches: few, and no row that fits is refused for its padding."""

import dataclasses
import math

import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.architectures.ensemble import Ensemble
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.runs.answers import answering

LENGTHS = {"inputs": 512, "targets": 128}
GREEDY = DecodingOptions(max_length=128)
WITHOUT_START = dataclasses.replace(GREEDY, start_before_prompt=False)


def rows(*lengths):
  return Ragged.of([np.ones(length, np.int32) for length in lengths])


def widths(architecture, decoding=GREEDY, **macros):
  model, _ = tiny_models.build(architecture, **macros)
  return answering.Widths.of_model(model, LENGTHS, decoding)


def test_powers_of_two_up_to_the_length():
  found = [answering.width(rows(3, n), 40) for n in (0, 16, 17, 32, 33, 40)]
  assert found == [16, 16, 32, 32, 40, 40]


@pytest.mark.parametrize(
  ("decoding", "room"), [(GREEDY, 384), (WITHOUT_START, 385)]
)
def test_prompts_leave_room_for_what_is_made(decoding, room):
  found = widths("gpt_1", decoding, MAX_POSITIONS=512)
  assert found.of_prompts(rows(300, 4)) == room
  assert found.of_prompts(rows(200)) == 256
  # One that does not fit is told with its own length.
  assert found.of_prompts(rows(400)) == 400


def test_an_ensemble_has_the_fewest_positions():
  members = [
    tiny_models.build("gpt_1", MAX_POSITIONS=positions)[0]
    for positions in (1024, 512)
  ]
  found = answering.Widths.of_model(Ensemble.of(members), LENGTHS, GREEDY)
  assert found.of_prompts(rows(300)) == 384


@pytest.mark.parametrize("pairs", [((300, 100),), ((490, 10), (20, 120))])
def test_pairs_of_one_sequence_fit_together(pairs):
  inputs, targets = zip(*pairs, strict=True)
  sides = {"inputs": rows(*inputs), "targets": rows(*targets)}
  found = widths("gpt_1", MAX_POSITIONS=512).of_pairs(sides)
  assert found == {"inputs": 384, "targets": 128}
  found = widths("gpt_1", WITHOUT_START, MAX_POSITIONS=512).of_pairs(sides)
  assert sum(found.values()) == 513
  # Too long a pair is told with its own length.
  sides = {"inputs": rows(500), "targets": rows(20)}
  found = widths("gpt_1", MAX_POSITIONS=512).of_pairs(sides)
  assert sum(found.values()) == 520


def test_an_encoder_has_positions_of_its_own():
  learned = "positions/learned.gin"
  model, _ = tiny_models.build("t5_1_1", learned, MAX_POSITIONS=400)
  found = answering.Widths.of_model(model, LENGTHS, GREEDY)
  assert found.of_prompts(rows(300)) == 400
  sides = {"inputs": rows(300), "targets": rows(100)}
  assert found.of_pairs(sides) == {"inputs": 400, "targets": 128}


def test_relative_positions_limit_nothing():
  for architecture in ("t5_1_1", "lm"):
    found = widths(architecture)
    assert set(found.positions.values()) == {math.inf}
    assert found.of_prompts(rows(300)) == 512
    sides = {"inputs": rows(300), "targets": rows(9)}
    assert found.of_pairs(sides) == {"inputs": 512, "targets": 16}
