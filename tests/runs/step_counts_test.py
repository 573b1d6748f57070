"""Steps that follow from epochs and from shares of a run."""

import dataclasses
import functools
import math
import shutil
import sys

import gin
import numpy as np
import pytest

from tests import prepared_forms
from tests import prepared_splits
from transformer_zoo import config
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.runs import step_counts

LENGTHS = {"inputs": 16, "targets": 8}


@pytest.fixture
def steps(prepared_dir, monkeypatch):
  """Returns a function from epochs and rows to steps of a prepared task."""
  monkeypatch.setitem(sys.modules, "seqio", None)

  def call(epochs, batch_size, task="colours"):
    return step_counts.steps_of_epochs(
      epochs, task, str(prepared_dir), LENGTHS, batch_size
    )

  return call


def test_epochs_are_rounded_up_to_batches(steps):
  assert steps(1, 10) == 10
  assert steps(1, 32) == 4  # of 100 examples
  assert steps(3, 32) == 12
  assert steps(2.5, 32) == 10
  assert steps(0.1, 32) == 1
  assert steps(1, 10, "mixed") == 20  # Of two tasks with a rate.


@pytest.fixture
def steps_of_run(prepared_dir, gin_file, tmp_path, monkeypatch):
  """Returns a function from overrides to the steps of an epoch of 8 rows."""
  monkeypatch.setitem(sys.modules, "seqio", None)
  folder = tmp_path / "prepared"
  shutil.copytree(prepared_dir, folder)
  prepared_forms.write_text(folder)

  def call(*overrides, files=()):
    config.load(
      [str(gin_file), "runs/epochs.gin", *files],
      [
        *("MODEL_DIR='run'", f"PREPARED_DIR={str(folder)!r}"),
        *("EPOCHS=1", "WARMUP_SHARE=0.1", "BATCH_SIZE=8", *overrides),
      ],
    )
    return gin.get_bindings("train")["train_steps"]

  yield call
  gin.clear_config()


def test_examples_that_a_run_leaves_out_are_not_of_its_epochs(
  steps_of_run, prepared_dir, tmp_path
):
  """40 examples of 1 to 40 tokens."""
  folder = tmp_path / "prepared" / "sizes"
  folder.mkdir()
  task = dataclasses.replace(
    *manifest.load("unscored", str(prepared_dir)).tasks,
    name="sizes",
    folder=str(folder),
    splits={},
  )
  tokens = np.full(40, 5, np.int32)
  examples = [
    {"inputs": tokens[: i + 1], "targets": tokens[:2]} for i in range(40)
  ]
  task.splits["train"] = prepared_splits.write_split(
    examples, "train", task, folder
  )
  manifest.save_task(task, folder)
  sizes = "MIXTURE_OR_TASK_NAME='sizes'"
  assert steps_of_run(sizes) == 5
  assert steps_of_run(sizes, "train.whole_examples_only=True") == 2


def test_text_that_a_run_leaves_out_is_not_of_its_epochs(steps_of_run):
  """20 documents of 20 tokens, of which an example reads 7."""
  lengths = {"inputs": 8, "targets": 8}
  text = ["MIXTURE_OR_TASK_NAME='text'", f"TASK_FEATURE_LENGTHS={lengths}"]
  call = functools.partial(
    steps_of_run, *text, files=["objectives/deshuffling.gin"]
  )
  assert call() == math.ceil(400 // 7 / 8)
  assert call("MAX_TOKENS=100") == math.ceil(100 // 7 / 8)


def test_epochs_of_a_corruption_that_has_no_hash(steps_of_run):
  """A list makes one of ours unhashable, as the field of a user's may."""
  lengths = {"inputs": 16, "targets": 8}
  found = [
    steps_of_run(
      "MIXTURE_OR_TASK_NAME='text'",
      f"TASK_FEATURE_LENGTHS={lengths}",
      "s/Denoiser.mode=''",
      f"MixtureOfDenoisers.denoisers={denoisers}",
      files=["objectives/ul2.gin"],
    )
    for denoisers in ("(@s/Denoiser(),)", "[@s/Denoiser()]")
  ]
  assert found[0] == found[1] > 1


@pytest.mark.parametrize("epochs", [0, -1, float("nan"), float("inf")])
def test_epochs_have_to_be_some(steps, epochs):
  with pytest.raises(UserError, match="steps_of_epochs.epochs=.* has to be ab"):
    steps(epochs, 10)


@pytest.mark.parametrize("rows", [0, -1])
def test_an_epoch_needs_batches_of_a_row(steps, rows):
  with pytest.raises(UserError, match=f"BATCH_SIZE={rows} must be at least 1"):
    steps(1, rows)


@pytest.fixture
def encoder():
  """Returns a function that loads a tiny encoder with a budget of FLOPs."""

  def call(flops, *overrides):
    config.load(
      [
        *("architectures/bert.gin", "sizes/bert_tiny.gin"),
        *("runs/bert_pretrain.gin", "objectives/bert.gin", "runs/flops.gin"),
      ],
      [
        *("MODEL_DIR='run'", "MIXTURE_OR_TASK_NAME='text'", "BATCH_SIZE=8"),
        "TASK_FEATURE_LENGTHS={'inputs': 16, 'targets': 16}",
        *("VOCAB_SIZE=64", f"FLOPS={flops}", *overrides),
      ],
    )
    return gin.get_bindings("train")

  yield call
  gin.clear_config()


def test_flops_pay_for_steps_of_the_models_own(encoder):
  budget = 10**10
  few, many = encoder(budget), encoder(3 * budget)
  assert few["train_steps"] > 10
  assert many["train_steps"] == pytest.approx(3 * few["train_steps"], abs=2)
  assert config.value("WARMUP_STEPS") == round(0.1 * many["train_steps"])


def test_flops_have_to_pay_for_a_step(encoder):
  with pytest.raises(UserError, match="steps_of_flops.flops=10 has to pay for"):
    encoder(10)


def test_shares():
  assert step_counts.share_of_steps(115, 0.06) == 7
  assert step_counts.share_of_steps(10, 0.0) == 0
  with pytest.raises(UserError, match="share_of_steps.share=1.5 has to be fr"):
    step_counts.share_of_steps(10, 1.5)


@pytest.mark.parametrize(
  "family, epoch, steps, warmup, decay",
  [("bert", 4, 12, 1, 0.01), ("roberta", 7, 70, 4, 0.1)],
)
def test_recipes_count_the_rows_of_their_task(
  monkeypatch, family, epoch, steps, warmup, decay
):
  monkeypatch.setattr(step_counts, "_examples", lambda *_: 100)
  files = [f"architectures/{family}.gin", f"sizes/{family}_base.gin"]
  config.load(
    [*files, f"runs/{family}_finetune.gin"],
    ["MODEL_DIR='run'", "MIXTURE_OR_TASK_NAME='task'"],
  )
  run = gin.get_bindings("train")
  rates = [float(run["learning_rate"](step)) for step in range(steps + 1)]
  assert run["train_steps"] == steps
  assert run["periods"].evaluate == run["periods"].checkpoint == epoch
  assert rates[warmup] == max(rates) == pytest.approx(2e-5)
  assert rates[0] == rates[steps] == 0.0
  assert gin.query_parameter("adamw.weight_decay") == decay
  gin.clear_config()


@pytest.mark.parametrize(
  "files, form, length",
  [
    (["runs/squad.gin"], "spans", 384),
    (["runs/squad.gin", "heads/span_beam.gin"], "spans", 384),
    (["runs/conll2003.gin"], "tags", 128),
    (["runs/choices.gin"], "choices", 512),
    (["heads/number.gin"], "number", 128),
    (["runs/conll2003.gin", "peft/features.gin"], "tags", 128),
    (
      ["runs/conll2003.gin", "peft/features.gin", "peft/bilstm.gin"],
      "tags",
      128,
    ),
  ],
)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_files_after_a_recipe(monkeypatch, family, files, form, length):
  monkeypatch.setattr(step_counts, "_examples", lambda *_: 100)
  recipe = [f"architectures/{family}.gin", f"sizes/{family}_base.gin"]
  recipe += [f"runs/{family}_finetune.gin", *files]
  task = ["MIXTURE_OR_TASK_NAME='task'"]
  config.load(recipe, ["MODEL_DIR='run'", *task])
  run = gin.get_bindings("train")
  assert run["converter"].form == form
  assert run["task_feature_lengths"] == {"inputs": length}
  assert not run["packing"]
  run["objective"].check(run["model"])
  gin.clear_config()
