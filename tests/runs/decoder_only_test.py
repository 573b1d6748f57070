"""Decoder-only runs: trained, evaluated, and asked to continue prompts."""

import json

import gin
import numpy as np
import pytest

from transformer_zoo import config

PREFIX_LM = ("architectures/prefix_lm.gin",)
GPT_2 = ("architectures/gpt_2.gin",)
TEXTS = ["red car sees house", "blue boat likes", "green", "house sees green"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  return tmp_path_factory.mktemp("runs")


@pytest.fixture
def trained(train, runs):
  """Returns a function from gin files to the folder of a run."""

  def call(name, files, *overrides):
    folder = runs / name
    if not (folder / "result.json").exists():
      code, _, error = train(
        folder,
        *("VOCAB_SIZE=64", "DROPOUT_RATE=0.0", *overrides),
        files=files,
      )
      assert code == 0, error
    return folder

  return call


@pytest.fixture
def prefix_lm(trained):
  return trained(
    "prefix_lm",
    PREFIX_LM,
    *("TRAIN_STEPS=160", "CHECKPOINT_PERIOD=160", "EVAL_PERIOD=160"),
  )


@pytest.fixture
def gpt_2(trained):
  """Of targets alone: it has never seen an input."""
  return trained(
    "gpt_2",
    GPT_2,
    *("TRAIN_STEPS=2", "EVAL_PERIOD=0", "MAX_POSITIONS=32"),
  )


@pytest.fixture
def infer(zoo):
  """Returns a function that answers with a run: lines, stderr."""

  def call(folder, *words, refused=False):
    code, output, error = zoo(
      "infer", f"--checkpoint={folder}", "--gin.BATCH_SIZE=8", *words
    )
    assert code == (2 if refused else 0), error
    return output.splitlines(), error

  return call


def as_objects(lines):
  return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_a_prefix_language_model_learns_from_its_inputs(prefix_lm):
  result = json.loads((prefix_lm / "result.json").read_text())
  # The target is the first word of the inputs: guessing costs log(8) a word,
  # more than a nat for each of a word's few pieces and its EOS.
  assert 0 < result["loss"]["colours"] < 0.5 * np.log(8)
  assert result["scores"]["colours"]["accuracy"] > 50


@pytest.mark.slow
def test_it_is_evaluated_as_in_training(prefix_lm, zoo):
  code, output, error = zoo(
    "evaluate", f"--checkpoint={prefix_lm}", "--mixture=colours"
  )
  assert code == 0, error
  result = json.loads((prefix_lm / "result.json").read_text())
  found = json.loads(output)
  assert found["scores"] == result["scores"]
  assert found["loss"] == pytest.approx(result["loss"])


def test_batches_of_an_encoder_are_refused(train, tmp_path):
  code, _, error = train(
    tmp_path / "run", "CONVERTER=@EncoderFeatures()", files=PREFIX_LM
  )
  assert code == 2
  assert (
    "CONVERTER is @EncoderFeatures(), whose batches the model DecoderOnly does "
    "not read; set it to @LanguageModelFeatures() or "
    "@PrefixLanguageModelFeatures(), and CORRUPTION" in error
  )


@pytest.mark.slow
def test_answers_are_what_their_scores_say(prefix_lm, infer):
  made = as_objects(infer(prefix_lm, *TEXTS, "--json")[0])
  assert made[0]["prediction"] == "red"
  scored = as_objects(
    infer(
      prefix_lm,
      "--score",
      *(f"{line['inputs']}\t{line['prediction']}" for line in made),
    )[0]
  )
  for line, expected in zip(scored, made, strict=True):
    assert line["log_likelihood"] == pytest.approx(
      expected["log_likelihood"], rel=1e-4
    )


@pytest.mark.slow
def test_a_prefix_of_an_example_begins_its_answer(prefix_lm, infer, tmp_path):
  path = tmp_path / "texts.jsonl"
  lines = [{"inputs": TEXTS[0]}, {"inputs": TEXTS[0], "prefix": "blue"}]
  path.write_text("".join(json.dumps(line) + "\n" for line in lines))
  free, forced = as_objects(infer(prefix_lm, path, "--json")[0])
  assert free["prediction"] == "red"
  assert forced["prediction"].startswith("blue")
  # What is forced costs nothing.
  assert forced["log_likelihood"] > -20


@pytest.mark.slow
@pytest.mark.parametrize(
  ("line", "sentence"),
  [
    (
      {"inputs": "red", "prefix": "red car " * 9},
      "example 1: an output is to begin with",
    ),
    (
      {"inputs": "red", "prefix": 5},
      "the prefix of example 1 is 5; give the text that its answer is to begin "
      "with",
    ),
  ],
)
def test_prefixes_that_are_refused(prefix_lm, infer, tmp_path, line, sentence):
  path = tmp_path / "texts.jsonl"
  path.write_text(json.dumps(line) + "\n")
  _, error = infer(prefix_lm, path, refused=True)
  assert error.startswith(f"zoo: error: {sentence}")


@pytest.mark.slow
def test_a_language_model_continues_texts(gpt_2, infer, zoo):
  """What it reads has no EOS: a longer text is the same text and more."""
  (made,) = as_objects(infer(gpt_2, TEXTS[1], "--json")[0])
  (longer,) = as_objects(infer(gpt_2, "blue boat", "--json")[0])
  assert longer["log_likelihood"] != made["log_likelihood"]
  pair = "blue boat\t likes"
  scores = [
    as_objects(infer(gpt_2, "--score", pair, *options)[0])[0]
    for options in ([], ["--gin.DecodingOptions.start_before_prompt=False"])
  ]
  assert scores[0]["target_tokens"] == scores[1]["target_tokens"] >= 2
  assert scores[0]["log_likelihood"] != scores[1]["log_likelihood"]
  code, output, error = zoo(
    "evaluate", f"--checkpoint={gpt_2}", "--mixture=colours"
  )
  assert code == 0, error
  assert set(json.loads(output)["scores"]["colours"]) == {"accuracy"}


@pytest.mark.slow
@pytest.mark.parametrize(
  "lengths, longest", [("'inputs': 1, 'targets': 3", 3), ("'targets': 2", 2)]
)
def test_lengths_that_texts_are_cut_to_are_told(
  gpt_2, zoo, tmp_path, lengths, longest
):
  """Inputs to continue have the room of targets."""
  code, _, error = zoo(
    "evaluate",
    f"--checkpoint={gpt_2}",
    "--mixture=colours",
    f"--output_dir={tmp_path}",
    f"--gin.TASK_FEATURE_LENGTHS={{{lengths}}}",
  )
  assert code == 0, error
  assert (
    f"20 of 20 examples have more inputs than {longest} tokens and are cut"
  ) in error


@pytest.mark.slow
def test_a_prompt_without_a_token_and_a_start(gpt_2, infer):
  _, error = infer(
    gpt_2, "", "--gin.DecodingOptions.start_before_prompt=False", refused=True
  )
  assert error == (
    "zoo: error: example 1 has no token in 'inputs', and "
    "start_before_prompt=False leaves nothing to begin with; give it a text, "
    "or leave it out\n"
  )
  assert len(infer(gpt_2, "")[0]) == 1


@pytest.mark.slow
def test_long_prompts_are_cut_or_refused_with_a_sentence(gpt_2, infer):
  text = "house car boat " * 9
  _, error = infer(gpt_2, "red", text)
  assert (
    "inputs of example 2 exceed 16 tokens and lose their beginning; "
    "TASK_FEATURE_LENGTHS has the lengths"
  ) in error
  lengths = "--gin.TASK_FEATURE_LENGTHS={'inputs': 30, 'targets': 8}"
  _, error = infer(gpt_2, text, lengths, refused=True)
  assert error.endswith(
    "zoo: error: a prompt of 27 tokens and 8 that are made need 35 positions, "
    "but LearnedPositions.num_positions is 32; shorten the inputs or "
    "DecodingOptions.max_length\n"
  )


@pytest.mark.slow
def test_no_prompt_is_refused_for_its_padding(gpt_2, infer):
  """17 to 24 tokens are padded to 32 where there are positions for it."""
  text = "house car boat " * 7
  room = "--gin.TASK_FEATURE_LENGTHS={'inputs': 30, 'targets': 8}"
  exact = "--gin.TASK_FEATURE_LENGTHS={'inputs': 24, 'targets': 8}"
  found = infer(gpt_2, text, room, "--json")
  assert found == infer(gpt_2, text, exact, "--json")
  assert "lose" not in found[1]
  pair = f"{text}\tcar car car"
  found = infer(gpt_2, "--score", pair, "red\tcar", room)
  assert found == infer(gpt_2, "--score", pair, "red\tcar", exact)


@pytest.mark.slow
def test_lengths_of_targets_are_enough(trained, infer):
  """What a language model reads are its targets."""
  lengths = "TASK_FEATURE_LENGTHS={'targets': 16}"
  run = trained(
    "targets_alone",
    GPT_2,
    *("TRAIN_STEPS=2", "EVAL_PERIOD=2", "MAX_POSITIONS=32", lengths),
  )
  both = trained(
    "both",
    GPT_2,
    *("TRAIN_STEPS=2", "EVAL_PERIOD=2", "MAX_POSITIONS=32"),
    "TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 16}",
  )
  metrics = [(folder / "metrics.jsonl").read_text() for folder in (run, both)]
  assert metrics[0] == metrics[1]
  assert infer(run, TEXTS[0])[0] == infer(both, TEXTS[0])[0]


def test_a_run_decodes_as_it_trains_whatever_its_model_did_before(tmp_path):
  """GPT-2's directory begins no prompt with a token; our rows have one."""
  converted = tmp_path / "config.gin"
  converted.write_text("DecodingOptions.start_before_prompt = False")
  config.load(
    [*GPT_2, "sizes/tiny.gin", str(converted), "runs/finetune.gin"],
    ["MAX_POSITIONS=640", "MIXTURE_OR_TASK_NAME='any'", "MODEL_DIR='runs/any'"],
    root="train",
  )
  assert gin.query_parameter("DecodingOptions.start_before_prompt") is True
