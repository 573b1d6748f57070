"""Marian's directories bring their vocabulary and what they forbid."""

import ast
import json
import shutil

from flax import traverse_util
import pytest

from tests import marian_vocabulary
from tests import tiny_models
from tests.golden import families
from transformer_zoo.api import configurations
from transformer_zoo.checkpoints import generation_config
from transformer_zoo.checkpoints import run_contents
from transformer_zoo.checkpoints import tokenizer_files
from transformer_zoo.conversion.convert import convert
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.tensors.lazy_tensors import Tensor

TEXTS = [">>fra<< the small house is red", "we like the boat"]
FREELY = "--gin.DecodingOptions.forbidden_ids=()"


def write_directory(folder):
  """A Marian whose padding is always the likeliest, which it forbids."""
  folder.mkdir()
  ids = marian_vocabulary.write(folder)
  padding = ids["<pad>"]
  config = {
    **families.CONFIGS["marian"],
    "vocab_size": len(ids),
    "bad_words_ids": [[padding]],
    "decoder_start_token_id": padding,
    "eos_token_id": ids["</s>"],
    "pad_token_id": padding,
    "encoder_layers": 1,
    "decoder_layers": 1,
  }
  config = family_of(config).completed(config, {"final_logits_bias"})
  parameters = traverse_util.flatten_dict(
    tiny_models.random_parameters(families.build(config)), sep="/"
  )
  parameters["decoder/logits_bias"][padding] = 1e4
  tensors = {name: Tensor.of(array) for name, array in parameters.items()}
  writing.write_directory(folder, family_of(config), config, tensors)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
  """The directory, and the run that it becomes."""
  place = tmp_path_factory.mktemp("marian")
  write_directory(place / "theirs")
  convert(place / "theirs", place / "run", report=lambda line: None)
  return place


@pytest.mark.slow
def test_the_directory_and_its_run_answer_alike(place, infer):
  answers = infer(place / "theirs", *TEXTS)
  assert infer(place / "run", *TEXTS) == answers
  assert all(line["prediction"] for line in answers)
  # A binding of the user goes before what the directory says.
  for name in ("theirs", "run"):
    freely = infer(place / name, FREELY, *TEXTS)
    assert [line["prediction"] for line in freely] == ["", ""]


@pytest.mark.slow
def test_a_decoder_that_was_first_fed_another_id(place, tmp_path):
  """As one that was trained here: no files of theirs lie beside it."""
  run = tmp_path / "run"
  shutil.copytree(
    place / "run", run, ignore=shutil.ignore_patterns("huggingface")
  )
  with open(run / "config.gin", "a") as file:
    file.write("EncoderDecoderFeatures.bos_id = 3\n")
  convert(run, tmp_path / "theirs", report=lambda line: None)
  said = json.loads((tmp_path / "theirs" / "config.json").read_text())
  assert said["decoder_start_token_id"] == 3 != said["pad_token_id"]
  convert(tmp_path / "theirs", tmp_path / "back", report=lambda line: None)
  assert run_contents.converter_field(tmp_path / "back", "bos_id") == 3


@pytest.mark.slow
def test_targets_are_cut_as_targets(place, infer, tmp_path):
  text = marian_vocabulary.TARGETS[0]
  (scored,) = infer(place / "theirs", "--score", f"{TEXTS[0]}\t{text}")
  vocabulary = Vocabulary(place / "theirs")
  ids = vocabulary.encode_targets(text)
  assert len(ids) != len(vocabulary.encode(text))
  # Cut to eight tokens, EOS included.
  assert scored["target_tokens"] == min(len(ids) + 1, 8)
  path = tmp_path / "texts.jsonl"
  path.write_text(json.dumps({"inputs": TEXTS[0], "prefix": "la petite"}))
  (forced,) = infer(place / "theirs", path)
  assert forced["prediction"].startswith("la petite")


@pytest.mark.parametrize("kind", ["infer", "evaluate"])
def test_every_command_forbids_it(place, kind, capsys):
  found = configurations.of_checkpoint(str(place / "theirs"), kind)
  padding = Vocabulary(place / "theirs").pad_id
  assert capsys.readouterr().err == (
    f"decoding as {place / 'theirs'} says: forbidden_ids=({padding},)\n"
  )
  assert f"DecodingOptions.forbidden_ids=({padding},)" in found.defaults
  written = (place / "run" / "config.gin").read_text()
  assert f"DecodingOptions.forbidden_ids = ({padding},)" in written


def test_it_is_told_on_the_way_back(place, tmp_path):
  shutil.copytree(place / "run", tmp_path / "run")
  (tmp_path / "run/huggingface/generation_config.json").unlink()
  convert(tmp_path / "run", tmp_path / "back", report=lambda line: None)
  assert not (tmp_path / "back/generation_config.json").exists()
  for folder, name in (
    (place / "theirs", "generation_config.json"),
    (tmp_path / "back", "config.json"),
  ):
    told = json.loads((folder / name).read_text())
    assert told["bad_words_ids"] == [[Vocabulary(place / "theirs").pad_id]]


def test_the_vocabulary_becomes_files_of_theirs(place, tmp_path):
  vocabulary = Vocabulary(place / "theirs")
  tokenizer_files.write(vocabulary, tmp_path)
  told = json.loads((tmp_path / "tokenizer_config.json").read_text())
  assert told == {"tokenizer_class": "MarianTokenizer"}
  assert Vocabulary(tmp_path).checksum == vocabulary.checksum


@pytest.mark.parametrize(
  ("files", "expected"),
  [
    ({}, ()),
    ({"config": {"bad_words_ids": None}}, ()),
    ({"config": {"bad_words_ids": [[7], [3]]}}, (7, 3)),
    ({"config": {"bad_words_ids": [[7]]}, "generation_config": {}}, ()),
    ({"generation_config": {"bad_words_ids": [[4]]}}, (4,)),
    ({"config": {"bad_words_ids": [[0], [7]], "eos_token_id": 0}}, (7,)),
    ({"config": {"bad_words_ids": [[1], [7]], "eos_token_id": [0, 1]}}, (7,)),
  ],
)
def test_what_is_forbidden(files, expected, tmp_path):
  for name, content in files.items():
    (tmp_path / f"{name}.json").write_text(json.dumps(content))
  said = generation_config.options(tmp_path)
  assert said.get("forbidden_ids", ()) == expected


SEARCH = {"num_beams": 6, "beam_rules": "transformers"}


@pytest.mark.parametrize(
  ("content", "expected"),
  [
    # As published Marians say it; what is usual is left out.
    (
      {"num_beams": 6, "forced_eos_token_id": 0, "eos_token_id": 0},
      {**SEARCH, "forced_end": True},
    ),
    ({"num_beams": 1, "early_stopping": True, "length_penalty": 2.0}, {}),
    (
      {"num_beams": 6, "early_stopping": True, "length_penalty": 0.0},
      {**SEARCH, "early_stopping": True, "alpha": 0.0},
    ),
    ({"num_beams": 6, "length_penalty": 1.0}, SEARCH),
    (
      {"num_beams": 6, "renormalize_logits": True},
      {**SEARCH, "renormalize": True},
    ),
    ({"num_beams": 1, "renormalize_logits": True}, {}),
    ({"do_sample": True, "top_k": 0}, {"temperature": 1.0}),
    (
      {"forced_bos_token_id": 5, "min_length": 3, "no_repeat_ngram_size": 2},
      {"forced_prefix": (5,), "min_length": 3, "no_repeat_ngram_size": 2},
    ),
    ({"repetition_penalty": 1.2}, {"repetition_penalty": 1.2}),
    ({"repetition_penalty": 1.0}, {}),
    ({"eos_token_id": [1, 7]}, {"end_ids": (1, 7)}),
    (
      {"do_sample": True, "top_k": 0, "num_return_sequences": 3},
      {"temperature": 1.0, "num_return": 3},
    ),
    ({"min_new_tokens": 4, "min_length": 3}, {"min_length": 5}),
    ({"min_new_tokens": 0, "min_length": 3}, {"min_length": 3}),
    (
      {"do_sample": True, "num_beams": 1, "top_p": 0.9},
      {"temperature": 1.0, "top_k": 50, "top_p": 0.9},
    ),
    (
      {"do_sample": True, "temperature": 0.6, "top_k": None, "min_p": 0.1},
      {"temperature": 0.6, "top_k": 50, "min_p": 0.1},
    ),
    ({"forced_eos_token_id": [1], "eos_token_id": 1}, {"forced_end": True}),
  ],
)
def test_what_is_said_of_decoding(content, expected, tmp_path):
  path = tmp_path / "generation_config.json"
  path.write_text(json.dumps(content))
  assert generation_config.options(tmp_path) == expected
  DecodingOptions(**expected)


@pytest.mark.parametrize(
  ("content", "expected"),
  [({}, None), ({"max_length": 512}, 511), ({"max_new_tokens": 9}, 9)],
)
def test_the_longest_output(content, expected, tmp_path):
  (tmp_path / "config.json").write_text(json.dumps(content))
  assert generation_config.longest(tmp_path) == expected
  said = generation_config.longest(tmp_path, continues=True)
  assert said == content.get("max_new_tokens")


def test_options_that_are_not_built_are_told(tmp_path, capsys):
  file = tmp_path / "generation_config.json"
  neutral = {
    "min_p": None,
    "epsilon_cutoff": 0.0,
    "encoder_no_repeat_ngram_size": 0,
  }
  said = {"top_h": 0.4, "do_sample": True, "num_beams": 2}
  file.write_text(json.dumps({**neutral, **said, "num_beam_groups": 1}))
  assert generation_config.options(tmp_path)["temperature"] == 1.0
  assert capsys.readouterr().err == (
    f"passed over: num_beams in {str(file)!r}, where tokens are drawn "
    "(do_sample)\n"
    f"passed over: top_h=0.4 in {str(file)!r}, which decoding here has not\n"
  )


def test_what_changes_nothing_or_means_another_thing_is_told(tmp_path, capsys):
  file = tmp_path / "generation_config.json"
  said = {"do_sample": True, "temperature": 0.0, "num_return_sequences": 3}
  file.write_text(json.dumps({**said, "min_length": 9}))
  assert generation_config.options(tmp_path, continues=True) == {}
  assert capsys.readouterr().err == (
    f"passed over: do_sample in {str(file)!r}, for at temperature 0 nothing is "
    "drawn\n"
    f"passed over: num_return_sequences=3 in {str(file)!r}, as greedy search "
    "has one output\n"
    f"passed over: min_length=9 in {str(file)!r}, which counts the prompt\n"
  )


@pytest.mark.parametrize(
  ("ends", "eos_id", "expected"),
  [
    (1, 1, ()),
    (1, None, ()),
    (2, 1, (2,)),
    ([1], 1, ()),
    ([1, 2], 1, (1, 2)),
    (None, 1, ()),
  ],
)
def test_an_end_that_is_not_the_vocabularys(ends, eos_id, expected, tmp_path):
  path = tmp_path / "generation_config.json"
  path.write_text(json.dumps({"eos_token_id": ends}))
  said = generation_config.options(tmp_path, eos_id=eos_id)
  assert said.get("end_ids", ()) == expected


@pytest.mark.parametrize(
  ("given", "expected"),
  [
    (["DecodingOptions.num_beams=1"], GREEDY),
    (
      ["DecodingOptions.num_beams = 2", "DecodingOptions.alpha=0.5"],
      DecodingOptions(
        num_beams=2, alpha=0.5, beam_rules="transformers", early_stopping=True
      ),
    ),
    (
      ["DecodingOptions.temperature=0.7"],
      DecodingOptions(temperature=0.7),
    ),
    (["BATCH_SIZE=4", "DecodingOptions.min_length=3"], None),
  ],
)
def test_what_a_user_asks_for_goes_before_all_of_another_search(
  given, expected
):
  """Of a directory that says four beams, or of one that draws."""
  beams = {"num_beams": 4, "alpha": 2.0, "beam_rules": "transformers"}
  beams |= {"early_stopping": True}
  draws = {"temperature": 1.0, "top_k": 50, "top_p": 0.9}

  def options(said):
    for line in [*generation_config.instead(given), *given]:
      name, _, value = line.partition("=")
      if name.startswith("DecodingOptions."):
        said = {**said, name.strip()[16:]: ast.literal_eval(value.strip())}
    return DecodingOptions(**said)

  if expected is None:
    assert generation_config.instead(given) == []
    return
  assert options(beams) == expected
  assert options(draws).sampled == (expected.num_beams == 1)
  greedy = options(draws | {"temperature": 0.0, "top_k": None, "top_p": None})
  assert greedy.num_beams == expected.num_beams


@pytest.mark.parametrize(
  ("given", "number"),
  [
    (["DecodingOptions.num_beams=1"], 1),
    (["DecodingOptions.temperature=0"], 1),
    (["DecodingOptions.num_beams=1", "DecodingOptions.temperature=0.0"], 1),
    (["DecodingOptions.num_beams=1", "DecodingOptions.num_return=2"], 2),
    (["DecodingOptions.num_beams=1", "DecodingOptions.temperature=2."], None),
    (["DecodingOptions.num_beams=8"], None),
    (["BATCH_SIZE=4"], None),
  ],
)
def test_who_asks_for_greedy_search_gets_one_output(given, number):
  """The last line counts: more is the user's own, and refused elsewhere."""
  lines = [*generation_config.instead(given), *given]
  name = "DecodingOptions.num_return="
  found = [line.removeprefix(name) for line in lines if line.startswith(name)]
  assert found[-1:] == ([] if number is None else [str(number)])


@pytest.mark.parametrize(
  ("config", "generation", "expected"),
  [
    ({}, None, None),
    ({"decoder_start_token_id": 0}, None, None),
    ({"decoder_start_token_id": 0, "pad_token_id": 1}, None, 0),
    ({"decoder_start_token_id": 0, "pad_token_id": 1}, {}, 0),
    ({"pad_token_id": 1}, {"decoder_start_token_id": 1}, None),
    ({"decoder_start_token_id": 0}, {"decoder_start_token_id": 5}, 5),
    ({"model_type": "t5gemma"}, {}, 2),
    ({"model_type": "t5gemma", "decoder": {"bos_token_id": 5}}, None, 5),
    ({"model_type": "t5gemma", "bos_token_id": 0}, None, None),
  ],
)
def test_what_a_decoder_is_first_fed(config, generation, expected, tmp_path):
  (tmp_path / "config.json").write_text(json.dumps(config))
  if generation is not None:
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(generation))
  assert generation_config.start_id(tmp_path) == expected


def test_a_forced_token_that_does_not_end(tmp_path, capsys):
  file = tmp_path / "config.json"
  file.write_text(json.dumps({"forced_eos_token_id": 3, "eos_token_id": [0]}))
  assert generation_config.options(tmp_path) == {"forced_last": 3}
  file.write_text(
    json.dumps({"forced_eos_token_id": 2, "eos_token_id": [1, 2]})
  )
  assert generation_config.options(tmp_path, eos_id=1) == {
    "end_ids": (1, 2),
    "forced_last": 2,
  }
  file.write_text(json.dumps({"forced_eos_token_id": [1, 2]}))
  assert generation_config.options(tmp_path, eos_id=1) == {}
  assert capsys.readouterr().err == (
    f"passed over: forced_eos_token_id [1, 2] in {str(file)!r}, as it is "
    "several\n"
  )


@pytest.mark.parametrize(
  ("content", "sentence"),
  [
    ({"num_beams": "4"}, "{} has num_beams='4'; it takes a whole number"),
    ({"max_length": "20"}, "{} has max_length='20'; it takes a whole number"),
    (
      {"do_sample": True, "temperature": "1"},
      "{} has temperature='1'; it takes a number",
    ),
    (
      {"do_sample": True, "temperature": float("nan")},
      "{} has temperature=nan; it takes a number",
    ),
  ],
)
def test_numbers_that_are_none(content, sentence, tmp_path):
  file = tmp_path / "generation_config.json"
  file.write_text(json.dumps(content))
  with pytest.raises(UserError) as error:
    generation_config.options(tmp_path)
  assert str(error.value).startswith(sentence.format(repr(str(file))))


def test_longer_bad_words_are_told(tmp_path, capsys):
  file = tmp_path / "config.json"
  file.write_text(json.dumps({"bad_words_ids": [[7], [3, 4], [5, 6, 7]]}))
  assert generation_config.options(tmp_path) == {"forbidden_ids": (7,)}
  assert capsys.readouterr().err == (
    f"passed over: 2 of the 3 bad_words_ids in {str(file)!r}, which are of "
    "several ids; single ones alone are forbidden here\n"
  )


@pytest.mark.parametrize(
  ("words", "sentence"),
  [
    (7, r"has bad_words_ids=7; it takes a list or null"),
    ([7], r"has bad_words_ids\[0\]=7; it takes a list"),
    ([[]], "has a word without ids"),
    ([["a"]], r"has bad_words_ids\[0\]\[0\]='a'; it takes a whole number"),
  ],
)
def test_what_are_no_bad_words(words, sentence, tmp_path):
  (tmp_path / "config.json").write_text(json.dumps({"bad_words_ids": words}))
  with pytest.raises(UserError, match=sentence):
    generation_config.options(tmp_path)
