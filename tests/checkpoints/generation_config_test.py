"""A run's `DecodingOptions` in a generation_config.json."""

import json

import pytest

from transformer_zoo.checkpoints import generation_config
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.errors import UserError

EOS = 1
BEAMS = {"num_beams": 4, "beam_rules": "transformers"}


def exported(decoding, eos_id=EOS, **options):
  """The attributes, and what is told."""
  told = []
  said = generation_config.attributes_of(
    decoding, eos_id, told.append, **options
  )
  return said, told


@pytest.mark.parametrize("continues", [False, True])
@pytest.mark.parametrize(
  "options",
  [
    {},
    BEAMS,
    BEAMS | {"alpha": 0.6, "early_stopping": "never", "num_return": 3},
    BEAMS | {"renormalize": True, "forced_end": True, "forbidden_ids": (7, 9)},
    {"temperature": 0.7},
    {"temperature": 1.0, "top_k": 5, "top_p": 0.9, "num_return": 2},
    {"temperature": 1.5, "min_p": 0.1, "typical_p": 0.8},
    {"min_length": 5, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2},
    {"forced_prefix": (3,), "end_ids": (EOS, 4)},
    {"forced_last": 7},
  ],
)
def test_what_is_written_is_read_again(options, continues, tmp_path):
  if "forced_prefix" in options:
    options = {**options, "forced_after_start": continues}
  said, told = exported(DecodingOptions(**options), continues=continues)
  assert not told
  said = {"eos_token_id": EOS} | said
  (tmp_path / "generation_config.json").write_text(json.dumps(said))
  found = generation_config.options(tmp_path, eos_id=EOS, continues=continues)
  assert DecodingOptions(**found) == DecodingOptions(**options)


def test_a_prefix_behind_any_prompt_is_not_theirs():
  said, told = exported(DecodingOptions(forced_prefix=(3,)), continues=True)
  assert said == {} and "none behind a prompt" in told[0]


def test_greedy_search_says_nothing():
  assert exported(GREEDY) == ({}, [])


def test_the_length_is_that_of_new_tokens(tmp_path):
  said, _ = exported(DecodingOptions(max_length=9))
  assert said == {"max_new_tokens": 9}
  (tmp_path / "generation_config.json").write_text(json.dumps(said))
  assert generation_config.longest(tmp_path) == 9


def test_what_transformers_has_no_words_for_is_told():
  said, told = exported(DecodingOptions(num_beams=4, forced_prefix=(3, 4)))
  assert said == {}
  assert told == [
    "generation_config.json says greedy search: 4 beams by the rules 't5x' "
    "do not exist in `transformers`",
    "generation_config.json leaves out forced_prefix=(3, 4): `transformers` "
    "forces one token, and none behind a prompt",
  ]


def test_a_vocabulary_without_an_end(tmp_path):
  decoding = DecodingOptions(end_ids=(4, 5), forced_end=True)
  assert exported(decoding, eos_id=None)[0] == {"eos_token_id": [4, 5]}


def test_ends_that_are_no_ids(tmp_path):
  path = tmp_path / "config.json"
  for ends in (None, []):
    path.write_text(json.dumps({"eos_token_id": ends, "num_beams": 2}))
    assert generation_config.options(tmp_path)["num_beams"] == 2
  an_id = "a whole number from {} to 2147483647"
  for ends, sentence in (
    ("</s>", f"='</s>'; it takes {an_id.format(-1)} or null or a list"),
    ([1, "2"], f"[1]='2'; it takes {an_id.format(0)}"),
    (1.5, f"=1.5; it takes {an_id.format(-1)} or null or a list"),
    ({"id": 1}, "={'id': 1}; it takes "),
  ):
    path.write_text(json.dumps({"eos_token_id": ends}))
    with pytest.raises(UserError) as error:
      generation_config.options(tmp_path)
    assert f"'{path}' has eos_token_id{sentence}" in str(error.value)
