"""`zoo infer`: texts, files, JSON Lines, scores, and a killed one continued."""

import io
import json
import re
import sys
import types

import jax
import jax.numpy as jnp
import pytest

from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.runs.answers import answering
from transformer_zoo.runs.loading import restoration

TEXTS = ["red car sees house", "blue boat likes", "green", "house sees green"]
MANY = [f"{text} {other}" for text in TEXTS for other in TEXTS]


@pytest.fixture
def infer(finished, zoo):
  """Returns a function that answers with a trained run: lines, stderr."""

  def call(*words, refused=False):
    code, output, error = zoo(
      "infer", f"--checkpoint={finished}", "--gin.BATCH_SIZE=8", *words
    )
    assert code == (2 if refused else 0), error
    return output.splitlines(), error

  return call


def as_objects(lines):
  return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_texts_files_and_standard_input_are_answered_alike(
  infer, tmp_path, monkeypatch
):
  plain, objects = tmp_path / "texts.txt", tmp_path / "texts.jsonl"
  plain.write_text("".join(f"{text}\n" for text in TEXTS))
  objects.write_text(
    "".join(json.dumps({"inputs": text, "id": 5}) + "\n" for text in TEXTS)
  )
  answers, _ = infer(*TEXTS)
  assert len(answers) == len(TEXTS)
  assert infer(plain)[0] == answers
  assert infer(objects)[0] == answers
  for words in ([], ["-"]):
    stdin = io.TextIOWrapper(io.BytesIO(plain.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert infer(*words)[0] == answers
  found = as_objects(infer(objects, TEXTS[0], "--json")[0])
  assert [line["prediction"] for line in found] == [*answers, answers[0]]
  assert [line.get("id") for line in found] == [5, 5, 5, 5, None]
  assert all(line["score"] == line["log_likelihood"] < 0 for line in found)


@pytest.mark.slow
def test_another_vocabulary_is_told(infer, monkeypatch):
  other = types.SimpleNamespace(path="other", encode=lambda text: [7])
  assert "note on" not in infer("red")[1]
  monkeypatch.setattr(
    checkpoint_sources, "_vocabulary_of_run", lambda run: other
  )
  _, error = infer("red")
  assert error.startswith("note on the checkpoint ")
  assert ": its vocabulary 'other' has other ids than " in error


def test_interactive_answers_before_the_next_text_is_read(
  infer, monkeypatch, capsys
):
  asked = []

  class Typing(io.StringIO):
    def readline(self):
      asked.append(capsys.readouterr().out)
      return super().readline()

  monkeypatch.setattr(sys, "stdin", Typing("red car\ngreen boat\n"))
  infer("--interactive")
  assert asked[0] == ""
  answers, _ = infer("red car", "green boat")
  assert [text.rstrip("\n") for text in asked[1:]] == answers


@pytest.mark.slow
def test_several_outputs_come_best_first(infer):
  (line,) = as_objects(
    infer(
      TEXTS[0],
      "--json",
      "--gin.DecodingOptions.num_beams=3",
      "--gin.DecodingOptions.num_return=3",
    )[0]
  )
  scores = [each["score"] for each in line["predictions"]]
  assert len(scores) == 3 and scores == sorted(scores, reverse=True)
  best = line["predictions"][0]
  assert {name: line[name] for name in best} == best


@pytest.mark.slow
def test_places_without_an_output_are_left_out(infer, tmp_path):
  """A prefix that fills the length is all there is to say."""
  path = tmp_path / "texts.jsonl"
  path.write_text('{"inputs": "red", "prefix": "red car"}\n')
  options = ["num_beams=3", "num_return=3", "max_length=2"]
  (line,) = as_objects(
    infer(path, "--json", *(f"--gin.DecodingOptions.{o}" for o in options))[0]
  )
  (only,) = line["predictions"]
  assert only == {
    "prediction": line["prediction"],
    "score": 0.0,
    "log_likelihood": 0.0,
  }


@pytest.mark.slow
def test_scores_of_targets_are_those_of_what_was_made(infer):
  made = as_objects(infer(*TEXTS, "--json")[0])
  whole = [line for line in made if line["prediction"]]
  assert whole
  found = as_objects(
    infer(
      "--score", *(f"{line['inputs']}\t{line['prediction']}" for line in whole)
    )[0]
  )
  assert [line["targets"] for line in found] == [
    line["prediction"] for line in whole
  ]
  assert all(line["target_tokens"] >= 2 for line in found)
  assert all(line["log_likelihood"] < 0 for line in found)


SAMPLED = ("--gin.DecodingOptions.temperature=1.0",)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), SAMPLED])
def test_a_killed_one_is_continued_and_gives_the_whole_file(
  infer, tmp_path, monkeypatch, options
):
  texts = tmp_path / "texts.txt"
  texts.write_text("".join(f"{text}\n" for text in MANY))
  infer(texts, f"--output={tmp_path / 'at_once.jsonl'}", *options)
  output = tmp_path / "killed.jsonl"
  answers = answering.Answering.answers
  starts = []

  def killed(self, examples, first=0):
    starts.append(first)
    for number, batch in enumerate(answers(self, examples, first)):
      if number == 1 and len(starts) == 1:
        # What a kill in the midst of writing leaves.
        with open(f"{output}.journal", "ab") as journal:
          journal.write(b'[{"inputs": "red')
        raise KeyboardInterrupt
      yield batch

  monkeypatch.setattr(answering.Answering, "answers", killed)
  with pytest.raises(AssertionError, match="interrupted"):
    infer(texts, f"--output={output}", *options)
  assert not output.exists()
  _, error = infer(texts, f"--output={output}", *options)
  assert f"8 of 16 examples are in {output}.journal from before" in error
  assert starts == [0, 8]
  assert output.read_bytes() == (tmp_path / "at_once.jsonl").read_bytes()
  assert not (tmp_path / "killed.jsonl.journal").exists()


@pytest.mark.parametrize(
  ("words", "sentence"),
  [
    (
      ["a", "--interactive"],
      "--interactive takes neither texts nor files nor --output",
    ),
    (
      ["a", "--output=absent/out.jsonl"],
      "there is no folder 'absent' for the output",
    ),
    (
      ["a", "--score"],
      "example 1 has no text called 'targets'; it has 'inputs'",
    ),
    (
      ["a", "--gin.BATCH_SIZE=0"],
      "BATCH_SIZE=0 must be at least 1",
    ),
    (
      ["a", "--gin.TASK_FEATURE_LENGTHS={'inputs': 4}"],
      "TASK_FEATURE_LENGTHS={'inputs': 4} has to give 'targets' 1 token or "
      "more",
    ),
    (
      ["a", "--gin.TASK_FEATURE_LENGTHS={'targets': 4}"],
      "TASK_FEATURE_LENGTHS={'targets': 4} has to give 'inputs' 1 token or "
      "more",
    ),
    (
      ["a", "--gin.TASK_FEATURE_LENGTHS={'inputs': -5, 'targets': 4}"],
      "TASK_FEATURE_LENGTHS={'inputs': -5, 'targets': 4} has to give 'inputs' "
      "1 token or more",
    ),
    (
      ["a", "--gin.DecodingOptions.min_length=9"],
      "min_length=9 is more than the largest length, 8",
    ),
    (
      [
        "a",
        "--gin.DecodingOptions.num_beams=2",
        "--gin.DecodingOptions.temperature=0.5",
      ],
      "temperature=0.5 with num_beams=2: a beam search draws no tokens; leave "
      "one of the two out",
    ),
  ],
)
def test_refusals(infer, words, sentence):
  _, error = infer(*words, refused=True)
  assert error == f"zoo: error: {sentence}\n"


def test_more_beams_than_there_is_memory_for(infer):
  _, error = infer("a", "--gin.DecodingOptions.num_beams=99999", refused=True)
  assert re.fullmatch(
    r"zoo: error: num_beams=99999 for 8 texts at a time, of up to 8 tokens "
    r"each, needs [\d,.]+ GiB or more on each device, which has [\d,.]+ GiB; "
    r"choose a smaller num_beams, BATCH_SIZE or max_length\n",
    error,
  )


@pytest.mark.slow
def test_answers_from_before_are_left_out(infer, tmp_path):
  path = tmp_path / "texts.jsonl"
  before = {"prediction": "mine", "score": 3, "predictions": 5, "id": 7}
  path.write_text(json.dumps({"inputs": TEXTS[0]} | before) + "\n")
  (found,) = as_objects(infer(path, "--json")[0])
  assert found.keys() == {
    *("inputs", "id", "prediction", "score", "log_likelihood")
  }
  assert found["prediction"] == infer(TEXTS[0])[0][0]


def test_scores_leave_answers_from_before_out(infer, tmp_path):
  path = tmp_path / "texts.jsonl"
  given = {"inputs": TEXTS[0], "targets": "red", "id": 7}
  path.write_text(json.dumps({**given, "prediction": "a", "score": 3}) + "\n")
  (found,) = as_objects(infer(path, "--score")[0])
  assert found.keys() == {*given, "log_likelihood", "target_tokens"}


def test_a_prefix_is_not_scored(infer, tmp_path):
  path = tmp_path / "texts.jsonl"
  path.write_text('{"inputs": "red", "targets": "red", "prefix": "a"}\n')
  _, error = infer(path, "--score", refused=True)
  assert error.startswith("zoo: error: example 1 has the prefix 'a', and ")


def test_inputs_that_are_no_text(infer, tmp_path):
  path = tmp_path / "texts.jsonl"
  path.write_text('{"inputs": 5}\n')
  _, error = infer(path, refused=True)
  assert error == (
    "zoo: error: example 1 has no text called 'inputs'; its 'inputs' is 5, "
    "which is no text\n"
  )


def test_a_line_that_is_no_object(infer, tmp_path):
  path = tmp_path / "texts.jsonl"
  path.write_text('{"inputs": "red"}\nred\n')
  _, error = infer(path, refused=True)
  assert error == f"zoo: error: line 2 of {str(path)!r} is no JSON object\n"


@pytest.mark.parametrize("output", [True, False])
def test_a_bad_line_is_told_before_any_answer(infer, tmp_path, output):
  path = tmp_path / "texts.jsonl"
  words = [path] + ([f"--output={tmp_path / 'out.jsonl'}"] if output else [])
  good = '{"inputs": "red"}\n' * 20
  for bad, sentence in (
    ("red\n", f"line 21 of {str(path)!r} is no JSON object"),
    (
      '{"inputs": "red", "prefix": "red red red red red red red red red"}\n',
      "example 21: an output is to begin with 9 ids, more than the largest "
      "length, 8; shorten its prefix or raise max_length",
    ),
  ):
    path.write_text(good + bad)
    lines, error = infer(*words, refused=True)
    assert not lines
    assert error == f"zoo: error: {sentence}\n"


@pytest.mark.slow
@pytest.mark.parametrize("scored", [True, False])
def test_parameters_that_are_no_numbers(infer, monkeypatch, scored):
  restore = restoration.restore

  def damaged(*arguments, **keywords):
    params = restore(*arguments, **keywords)
    return jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), params)

  monkeypatch.setattr(restoration, "restore", damaged)
  words = ["red\tred", "--score"] if scored else ["red"]
  _, error = infer(*words, refused=True)
  assert error == (
    "zoo: error: the log-probabilities of example 1 are no numbers (NaN): the "
    "parameters are damaged or have diverged; take another checkpoint\n"
  )


@pytest.mark.slow
def test_options_that_forbid_everything(infer):
  ids = tuple(range(1, 64))
  _, error = infer(
    "red",
    "--gin.DecodingOptions.no_repeat_ngram_size=1",
    f"--gin.DecodingOptions.forbidden_ids={ids}",
    refused=True,
  )
  assert error == (
    "zoo: error: nothing can be made for example 1: the options forbid every "
    "token at some place; loosen no_repeat_ngram_size, forbidden_ids or "
    "min_length\n"
  )
