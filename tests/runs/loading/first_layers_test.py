"""Assignments that read the first layers of a language model alone."""

import re

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.runs.loading.initial_checkpoint import first_layers

NAMES = (
  "encoder/layers_0/mlp/wi/kernel",
  "encoder/layers_1/mlp/wi/kernel",
  "encoder/layers_10/mlp/wi/kernel",
  "encoder/position_embedder/pos_embedding",
  "token_embedder/new_embedding",
)


def read_from(name, assignments):
  """The name in the checkpoint, None for a fresh parameter."""
  for expression, target in assignments:
    if match := re.fullmatch(expression, name):
      return target and match.expand(target)
  return name


@pytest.mark.parametrize("number, fresh", [(0, 3), (1, 2), (2, 1), (11, 0)])
def test_layers_behind_the_first_are_fresh(number, fresh):
  assignments = first_layers(
    number, 11, source="decoder", fresh=("token_embedder/new_embedding",)
  )
  found = [read_from(name, assignments) for name in NAMES]
  layers = [name.replace("encoder", "decoder", 1) for name in NAMES[:3]]
  assert found[:3] == layers[: 3 - fresh] + [None] * fresh
  assert found[3:] == ["decoder/position_embedder/pos_embedding", None]


def test_more_layers_than_there_are_are_refused():
  with pytest.raises(UserError, match="num_read is 12, but the stack has 11"):
    first_layers(12, 11)
