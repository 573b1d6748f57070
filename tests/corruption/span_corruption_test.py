"""Span corruption: lengths, invertibility, errors, specs."""

import json

import numpy as np
import pytest

from tests.corruption import vocabulary
from transformer_zoo import corruption
from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.errors import UserError

VOCABULARY = vocabulary.t5(100, 32100)


def _corrupt(corrupt, tokens, rows=1):
  """Corrupts a text several times; lists {'inputs', 'targets'}."""
  tokens = np.tile(tokens, (rows, 1))
  pair = corrupt(tokens, Draws(0, np.arange(rows)), VOCABULARY)
  sides = zip(pair["inputs"].rows(), pair["targets"].rows(), strict=True)
  return [{"inputs": i, "targets": t} for i, t in sides]


def _restore(inputs, targets):
  """Puts the spans of the targets back in place of the inputs' sentinels."""
  pieces, spans, current = [], {}, None
  for token in targets.tolist():
    if token >= 32000:
      current = spans.setdefault(token, [])
    else:
      current.append(token)
  for token in inputs.tolist():
    pieces += spans[token] if token >= 32000 else [token]
  return pieces


@pytest.mark.parametrize(
  "inputs, density, mean",
  [(512, 0.15, 3.0), (128, 0.15, 3.0), (64, 0.5, 3.0), (512, 0.25, 10.0)],
)
def test_examples_fill_the_lengths_and_lose_nothing(inputs, density, mean):
  corrupt = SpanCorruption(noise_density=density, mean_noise_span_length=mean)
  tokens = np.arange(100, 100 + corrupt.raw_length({"inputs": inputs}))
  for example in _corrupt(corrupt, tokens, rows=5):
    # Density 0.5 gives up one raw token to keep the targets within the inputs.
    assert len(example["inputs"]) + 1 in (inputs - 1, inputs)
    assert example["inputs"].dtype == example["targets"].dtype == np.int32
    assert example["targets"][0] == 32099
    assert (
      example["inputs"][-1]
      == example["targets"][example["targets"] >= 32000].min()
    )
    assert _restore(**example) == tokens.tolist()


def test_targets_of_the_released_recipe():
  corrupt = SpanCorruption()
  tokens = np.arange(corrupt.raw_length({"inputs": 512}))
  (example,) = _corrupt(corrupt, tokens)
  assert len(tokens) == 568
  assert len(example["inputs"]) + 1 == 512
  assert len(example["targets"]) + 1 == 114
  assert np.sum(example["targets"] >= 32000) == 28


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_short_rests_of_a_corpus(length):
  (example,) = _corrupt(SpanCorruption(), np.arange(length))
  assert _restore(**example) == list(range(length))


def test_check_accepts_the_released_recipe():
  SpanCorruption().check({"inputs": 512, "targets": 114}, VOCABULARY)


@pytest.mark.parametrize(
  "lengths, fields, message",
  [
    ({"inputs": 512, "targets": 113}, {}, "targets of 114 tokens where 113"),
    ({"inputs": 2048, "targets": 456}, {}, "114 spans, .* 100 sentinel ids"),
    (
      {"inputs": 512, "targets": 512},
      {"noise_density": 0.5, "mean_noise_span_length": 1.0},
      "510 tokens makes 255 spans",
    ),
    ({"inputs": 2, "targets": 9}, {}, "2 tokens are too short"),
  ],
)
def test_check_refuses(lengths, fields, message):
  with pytest.raises(UserError, match=message):
    SpanCorruption(**fields).check(lengths, VOCABULARY)


@pytest.mark.parametrize(
  "fields, message",
  [
    ({"noise_density": 0.0}, "noise_density is 0.0; .* above 0"),
    ({"noise_density": "0.1"}, "noise_density is '0.1'; .* a number"),
    ({"mean_noise_span_length": 0.5}, "is 0.5; .* at least 1 token"),
  ],
)
def test_fields_are_checked(fields, message):
  with pytest.raises(UserError, match=message):
    SpanCorruption(**fields)


def test_spec_goes_through_json():
  spec = corruption.to_spec(SpanCorruption(noise_density=0.25))
  assert spec == {
    "name": "SpanCorruption",
    "noise_density": 0.25,
    "mean_noise_span_length": 3.0,
  }
  restored = corruption.from_spec(json.loads(json.dumps(spec)))
  assert restored == SpanCorruption(noise_density=0.25)


@pytest.mark.parametrize(
  "spec, message",
  [
    ({"name": "SpanCorrupt"}, "named 'SpanCorrupt'; did you mean 'SpanC"),
    ({}, "named None"),
    (
      {"name": "SpanCorruption", "density": 0.1},
      "no field 'density'; did you mean 'noise_density'",
    ),
  ],
)
def test_bad_specs_are_refused(spec, message):
  with pytest.raises(UserError, match=message):
    corruption.from_spec(spec)
