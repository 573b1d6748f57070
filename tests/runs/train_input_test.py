"""The loader's bindings in a run: warm-up, buckets, workers, epochs."""

import json
import shutil

import jax
import pytest

from transformer_zoo.runs import reuse
from transformer_zoo.training.monitoring import recorder

# Nothing to evaluate: what is tested here is over sooner.
TASK = "MIXTURE_OR_TASK_NAME='no_validation'"


def read_result(folder):
  return json.loads((folder / "result.json").read_text())


def losses(folder):
  lines = recorder.read_lines(folder / recorder.METRICS_FILE)
  return [line["train/loss"] for line in lines if "train/loss" in line]


@pytest.fixture
def shapes(monkeypatch):
  """The shapes of batches for which a train step is traced."""
  found = []
  jit = jax.jit

  def counting(function, **keywords):
    def noted(state, batch, *others):
      found.append(batch["encoder_input_tokens"].shape)
      return function(state, batch, *others)

    is_step = "donate_argnums" in keywords
    return jit(noted if is_step else function, **keywords)

  monkeypatch.setattr(jax, "jit", counting)
  with reuse.reused():
    yield found


@pytest.mark.slow
def test_a_warm_up_compiles_each_stage_once_and_resumes_within(
  train, tmp_path, shapes
):
  overrides = (
    TASK,
    "BATCH_SIZE=16",
    "CHECKPOINT_PERIOD=6",
    "EVAL_PERIOD=0",
    "train.packing=False",
    "train.batch_size_warmup={3: 8}",
    "train.length_warmup={8: {'inputs': 8, 'targets': 8}}",
  )
  whole, parts = tmp_path / "whole", tmp_path / "parts"
  code, output, error = train(whole, *overrides)
  assert code == 0, error
  assert shapes == [(8, 8), (16, 8), (16, 16)]
  tokens = 3 * 8 * 16 + 5 * 16 * 16 + 4 * 16 * 24
  assert f"training 12 steps, 0 to 12, {tokens:,} tokens" in output
  # 3 batches of 8 and 9 of 16 of the 100 examples.
  told = (
    "train of no_validation: 100 examples an epoch, 1.68 epochs in this run"
  )
  assert told in output
  assert read_result(whole)["train_examples"] == {"no_validation": 100}
  assert read_result(whole)["epochs"] == {"no_validation": 1.68}

  # As if it had been stopped after step 6, and gone on with another process.
  shutil.copytree(whole, parts)
  (parts / "result.json").unlink()
  for path in (parts / "checkpoints").iterdir():
    if path.name.isdigit() and int(path.name) > 6:
      shutil.rmtree(path)
  code, output, error = train(parts, *overrides, "NUM_WORKERS=1")
  assert code == 0, error
  tokens = 2 * 16 * 16 + 4 * 16 * 24
  assert f"training 6 steps, 6 to 12, {tokens:,} tokens" in output
  assert losses(parts) == losses(whole)
  measured = {"seconds": None, "seconds_by_part": None}
  assert read_result(parts) | measured == read_result(whole) | measured


@pytest.mark.slow
def test_what_has_no_effect_is_told(train, tmp_path):
  code, output, error = train(
    tmp_path,
    TASK,
    "TRAIN_STEPS=2",
    "EVAL_PERIOD=0",
    "CORRUPTION=@SpanCorruption()",
    "train.batch_size_warmup={2: 8, 3: 16}",
    "BATCH_SIZE=32",
  )
  assert code == 0, error
  for line in (
    "without a split 'validation', not evaluated: no_validation",
    "CORRUPTION, SpanCorruption, changes nothing: no task of this run is of "
    "unlabelled text",
    "batches, lengths or rates change at step 3, and the run ends "
    "before, at step 2",
    "training 2 steps, 0 to 2, 384 tokens (8 rows of 24, padding included)",
  ):
    assert line in output.splitlines()


@pytest.mark.parametrize(
  "override, message",
  [
    ("train.max_tokens=1000", "'colours' has no task of unlabelled text"),
    ("train.batch_size_warmup={3: 0}", "The batch size 0 must be a whole"),
    (
      "train.length_warmup={6: {'inputs': 99, 'targets': 8}}",
      "gives 'inputs' 99 tokens; it must be between 1 and the 16",
    ),
    ("NUM_WORKERS=-1", "NUM_WORKERS=-1 must be at least 0"),
    (
      "train.length_buckets=({'inputs':8,'targets':8,'batch_size':16},)",
      "length_buckets cannot be used with packing",
    ),
    (
      "CONVERTER=@EncoderFeatures()",
      "CONVERTER is @EncoderFeatures(), whose batches the model EncoderDecoder "
      "does not read; set it to @EncoderDecoderFeatures(), and CORRUPTION to "
      "an objective whose examples that lays out",
    ),
    (
      "CONVERTER=@LanguageModelFeatures()",
      "CONVERTER is @LanguageModelFeatures(), whose batches the model",
    ),
  ],
)
def test_impossible_bindings_claim_no_folder(
  train, tmp_path, override, message
):
  code, _, error = train(tmp_path / "run", override)
  assert code == 2
  assert message in error
  assert not (tmp_path / "run" / "config.gin").exists()
