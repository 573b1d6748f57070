"""Decoder-only runs: trained by likelihood, refused where they would decode."""

import json

import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.errors import UserError
from transformer_zoo.experiment import scoring

FILES = ("architectures/prefix_lm.gin",)


def test_a_prefix_language_model_learns_from_its_inputs(train, tmp_path):
  code, output, error = train(
    tmp_path,
    "MIXTURE_OR_TASK_NAME='unscored'",
    "TRAIN_STEPS=60",
    "DROPOUT_RATE=0.0",
    "VOCAB_SIZE=64",
    "CHECKPOINT_PERIOD=60",
    "EVAL_PERIOD=60",
    files=FILES,
  )
  assert code == 0, error
  result = json.loads((tmp_path / "result.json").read_text())
  # The target is the first word of the inputs: guessing costs log(8) a word,
  # more than a nat for each of a word's few pieces and its EOS.
  assert 0 < result["loss"]["unscored"] < 0.5 * np.log(8)


def test_a_task_that_needs_generated_text_is_refused(train, tmp_path):
  code, _, error = train(tmp_path / "run", files=FILES)
  assert code == 2
  assert (
    "Task 'colours' is scored by generated text, which only an encoder-decoder "
    "makes so far; choose a task without such metrics."
  ) in error
  assert not (tmp_path / "run" / "config.gin").exists()


def test_what_generates_says_that_it_cannot():
  model, _ = tiny_models.build("prefix_lm")
  with pytest.raises(
    UserError, match="MODEL is a DecoderOnly, and only an encoder-decoder reads"
  ):
    scoring.check_generates(model)
  scoring.check_generates(tiny_models.build("t5_1_1")[0])
