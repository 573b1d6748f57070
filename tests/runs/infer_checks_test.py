"""Errors and warnings about examples before anything is computed."""

import types

import pytest

from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.runs import infer

# A token for each word.
WORDS = types.SimpleNamespace(encode_prompt=str.split, encode_targets=str.split)


def test_prompts_without_a_token():
  good = [{"inputs": "red"}, {"inputs": " blue "}]
  assert list(infer.check_prompts(good, WORDS)) == good
  with pytest.raises(UserError, match="example 3 has no token in 'inputs', "):
    list(infer.check_prompts([*good, {"inputs": " "}], WORDS))


def test_prefixes_that_are_too_long():
  options = DecodingOptions(max_length=3, forced_prefix=(5,))
  good = [{"inputs": "red"}, {"inputs": "red", "prefix": "a b"}]
  assert list(infer.check_prefixes(good, WORDS, options)) == good
  with pytest.raises(UserError) as error:
    list(infer.check_prefixes([*good, {"prefix": "a b c"}], WORDS, options))
  assert str(error.value) == (
    "example 3: an output is to begin with 4 ids, more than the largest "
    "length, 3; shorten its prefix or raise max_length"
  )


def test_prefixes_of_targets_that_are_scored():
  good = [{"inputs": "red"}, {"inputs": "red", "prefix": ""}]
  assert list(infer.check_no_prefixes(good)) == good
  with pytest.raises(UserError) as error:
    list(infer.check_no_prefixes([*good, {"inputs": "red", "prefix": "a"}]))
  assert str(error.value) == (
    "example 3 has the prefix 'a', and --score scores its targets from the "
    "first token on; begin the targets with it, and leave the prefix out"
  )
