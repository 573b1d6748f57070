"""`import transformer_zoo as zoo`: what commands do, in Python."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest
import scipy.special

import transformer_zoo
from transformer_zoo.errors import UserError

TEXTS = ["red car sees house", "blue boat likes", "green"]
TARGETS = ["red", "blue", "green boat"]


def test_the_import_costs_nothing():
  code = (
    "import sys, transformer_zoo as zoo\n"
    "assert {'load', 'train', 'study'} <= set(dir(zoo))\n"
    "assert not {'jax', 'flax', 'gin', 'numpy'} & set(sys.modules)\n"
  )
  subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_is_not_there():
  with pytest.raises(AttributeError, match="has no attribute 'laod'"):
    _ = transformer_zoo.laod


@pytest.fixture
def model(finished):
  return transformer_zoo.load(finished, BATCH_SIZE=8)


def test_it_answers_as_the_command_does(model, finished, zoo):
  words = ("infer", f"--checkpoint={finished}", "--gin.BATCH_SIZE=8", *TEXTS)
  _, lines, _ = zoo(*words)
  assert model.generate(TEXTS) == lines.splitlines()
  assert model.generate(TEXTS[0]) == lines.splitlines()[0]
  assert model.generate([]) == []
  _, lines, _ = zoo(*words, "--json", "--gin.DecodingOptions.num_beams=2")
  objects = [json.loads(line) for line in lines.splitlines()]
  answers = model.generate(TEXTS, details=True, num_beams=2)
  assert [
    {"inputs": text, **answer}
    for text, answer in zip(TEXTS, answers, strict=True)
  ] == objects
  assert f"from {str(finished)!r}" in repr(model)


def test_scores_are_sums_over_logits(model, finished, zoo):
  pairs = map("\t".join, zip(TEXTS, TARGETS, strict=True))
  words = ("infer", f"--checkpoint={finished}", "--gin.BATCH_SIZE=8")
  _, lines, _ = zoo(*words, "--score", *pairs)
  expected = [json.loads(line)["log_likelihood"] for line in lines.splitlines()]
  assert model.score(TEXTS, TARGETS) == expected
  assert model.score(TEXTS[0], TARGETS[0]) == expected[0]
  for target, logits_TV, score in zip(
    TARGETS, model.logits(TEXTS, TARGETS), expected, strict=True
  ):
    ids = [*model.vocabulary.encode(target), model.vocabulary.eos_id]
    log_shares_TV = scipy.special.log_softmax(logits_TV, axis=-1)
    found = log_shares_TV[np.arange(len(ids)), ids].sum()
    np.testing.assert_allclose(found, score, rtol=1e-5)


def test_other_lengths_and_calls_share_programs(model, caplog):
  model.generate("red")
  with jax.log_compiles():
    model.generate(["blue boat", "green car sees", "red " * 5])
    assert "Compiling" not in caplog.text
    model.generate("red", num_beams=2)
  assert "Compiling" in caplog.text
  caplog.clear()
  with jax.log_compiles():
    model.generate("blue", num_beams=2)
  assert "Compiling" not in caplog.text


def test_parameters_are_read_once(model):
  params = model.params
  model.generate("red", num_beams=2)
  (other,) = model._changed.values()
  assert other.params is params


@pytest.mark.parametrize(
  ("ask", "error"),
  [
    (
      lambda m: m.generate("a", num_beam=2),
      "decoding 'num_beam'; did you",
    ),
    (lambda m: m.classify("a"), "ask it by `generate` or `score`"),
    (lambda m: m.score(["a", "b"], ["c"]), "2 texts have 1 targets"),
    (lambda m: m.logits("a"), "targets are None; give the target of each"),
    (lambda m: m.logits("a", "b", head="tokens"), "only encoders have heads"),
    (lambda m: m.embed("a"), "needs one encoder"),
    (lambda m: m.generate(3), "texts are 3"),
    (lambda m: m.generate(["a", 3]), "texts are"),
  ],
)
def test_refusals(ask, error, model):
  with pytest.raises(UserError, match=error):
    ask(model)


def test_a_value_that_gin_cannot_write(finished):
  with pytest.raises(UserError, match="BATCH_SIZE=.* cannot be written in gin"):
    transformer_zoo.load(finished, BATCH_SIZE=object())
  with pytest.raises(UserError, match="path is empty"):
    transformer_zoo.load([])
  with pytest.raises(UserError, match="no configuration: name gin files"):
    transformer_zoo.train()


@pytest.mark.slow
def test_a_run_is_trained_and_evaluated(
  gin_file, tmp_path, monkeypatch, finished
):
  monkeypatch.setitem(sys.modules, "seqio", None)
  run = transformer_zoo.train(str(gin_file), MODEL_DIR=tmp_path / "run")
  assert (
    run.scores == json.loads((finished / "result.json").read_text())["scores"]
  )
  found = transformer_zoo.evaluate(run.load(), "colours")
  assert found["scores"] == run.scores
  answer = run.load().generate("red")
  assert transformer_zoo.infer(run.folder, "red") == answer
  batches = transformer_zoo.batches(str(gin_file))
  assert batches[0]["encoder_input_tokens"].shape[0] == 8


@pytest.mark.slow
def test_an_adapter_is_opened_as_a_run_or_a_directory_of_peft(
  train, finished, tmp_path
):
  code, _, error = train(
    tmp_path / "lora",
    "TRAIN_STEPS=2",
    f"INITIAL_CHECKPOINT_PATH={str(finished)!r}",
    files=["peft/lora.gin"],
  )
  assert code == 0, error
  trained = transformer_zoo.load(tmp_path / "lora")
  trained.save(tmp_path / "peft", "peft")
  expected = trained.score(TEXTS, TARGETS)
  assert expected != transformer_zoo.load(finished).score(TEXTS, TARGETS)
  for path, adapter in (
    (finished, tmp_path / "lora"),
    (finished, tmp_path / "peft"),
    (tmp_path / "peft", None),
  ):
    model = transformer_zoo.load(path, adapter=adapter)
    assert model.score(TEXTS, TARGETS) == expected
  assert transformer_zoo.evaluate(model, "colours")["scores"]["colours"]
