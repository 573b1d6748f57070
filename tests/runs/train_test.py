"""Runs from start to result: reuse, fine-tuning, selection, scores."""

import json

import gin
import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from transformer_zoo import config
from transformer_zoo.runs.settings import Run
from transformer_zoo.studies.execution import run_costs
from transformer_zoo.studies.statistics import predictions
from transformer_zoo.training.monitoring import recorder


def leaves(step_folder) -> dict[str, np.ndarray]:
  """The arrays of a checkpoint by path, whatever the model."""
  with ocp.PyTreeCheckpointer() as checkpointer:
    there = checkpointer.metadata(step_folder / "state").item_metadata.tree
    arguments = jax.tree.map(
      lambda _: ocp.RestoreArgs(restore_type=np.ndarray), there
    )
    state = checkpointer.restore(
      step_folder / "state",
      args=ocp.args.PyTreeRestore(restore_args=arguments),
    )
  return {
    jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf)
    for path, leaf in jax.tree_util.tree_leaves_with_path(state)
  }


def read_result(folder):
  return json.loads((folder / "result.json").read_text())


@pytest.mark.slow
def test_leaves_everything(finished):
  names = {path.name for path in finished.iterdir()}
  assert names == {
    "checkpoints",
    "commands.txt",
    "config.gin",
    "data.json",
    "environment.json",
    "lock",
    "metrics.jsonl",
    "model.txt",
    "predictions",
    "result.json",
    "tensorboard",
    "timing.jsonl",
  }
  lines = recorder.read_lines(finished / "metrics.jsonl")
  losses = [line["train/loss"] for line in lines if "train/loss" in line]
  assert len(losses) == 4 and losses[-1] < losses[0]


@pytest.mark.slow
def test_result_is_the_best_step_of_validation(finished):
  result = read_result(finished)
  assert result["selection"] == (
    "highest mean of the task scores on the validation split"
  )
  by_step = {
    line["step"]: line
    for line in recorder.read_lines(finished / "metrics.jsonl")
    if "validation/average" in line
  }
  assert list(by_step) == [4, 8, 12]
  best = max(by_step, key=lambda step: by_step[step]["validation/average"])
  assert result["step"] == 12 and result["best_step"] == best
  line = by_step[best]
  assert result["average"] == line["validation/average"]
  assert result["scores"] == {
    "colours": {"accuracy": line["validation/colours/accuracy"]}
  }
  assert result["loss"] == {"colours": line["validation/colours/loss"]}
  # Of a single task its best step is the run's.
  assert result["best_by_task"] == {
    "colours": {
      "step": best,
      "score": line["validation/colours/accuracy"],
      "scores": {"accuracy": line["validation/colours/accuracy"]},
    }
  }
  budget, parts = result["budget"], result["seconds_by_part"]
  tokens = [
    line["train/tokens"]
    for line in recorder.read_lines(finished / "metrics.jsonl")
    if "train/tokens" in line
  ]
  assert result["tokens"] == sum(tokens) > 0
  assert budget["input_tokens"] + budget["target_tokens"] == sum(tokens)
  assert budget["steps"] == 12 and budget["rows"] == 12 * 8
  assert budget["trained_parameters"] == budget["parameters"] > 0
  assert f"parameters       {budget['parameters']:,}\n" in (
    (finished / "model.txt").read_text()
  )
  config.load([str(finished / "config.gin")])
  foreseen = run_costs.of_settings(Run.of_loaded())
  gin.clear_config()
  assert budget["flops"] == foreseen.flops
  assert budget["parameters"] == foreseen.parameters
  assert budget["input_tokens"] <= foreseen.input_tokens
  assert budget["target_tokens"] <= foreseen.target_tokens
  assert result["seconds"] == pytest.approx(sum(parts.values()))
  assert all(parts.values())
  assert result["num_examples"] == {"colours": 20}
  assert result["truncated"] == {} and result["invalid"] == {}
  steps = {int(path.name) for path in (finished / "checkpoints").iterdir()}
  assert steps == {best, 10, 12}
  predictions = finished / "predictions" / str(best) / "colours.jsonl"
  rows = [json.loads(text) for text in predictions.read_text().splitlines()]
  assert len(rows) == 20
  right = np.mean([row["targets"] == row["prediction"] for row in rows])
  assert 100 * right == pytest.approx(result["average"])


def test_predictions_give_the_scores_by_what_is_named_beside_them(finished):
  result = json.loads((finished / "result.json").read_text())
  path = finished / "predictions" / str(result["best_step"]) / "colours.jsonl"
  found = predictions.read(path).resampled()(np.ones((1, 20)))
  assert {name: value[0] for name, value in found.items()} == pytest.approx(
    result["scores"]["colours"]
  )


def test_a_finished_run_is_reused(finished, train):
  before = {
    path: path.stat().st_mtime_ns
    for path in finished.rglob("*")
    if path.is_file()
  }
  code, output, _ = train(finished)
  assert code == 0
  assert output.splitlines() == [
    f"{finished} has finished before; its result stands",
    str(finished / "result.json"),
  ]
  assert before == {
    path: path.stat().st_mtime_ns
    for path in finished.rglob("*")
    if path.is_file()
  }


def test_evaluation_can_be_switched_off(train, tmp_path):
  code, output, error = train(tmp_path, "EVAL_PERIOD=None", "TRAIN_STEPS=2")
  assert code == 0, error
  assert "EVAL_PERIOD=None: this run does not evaluate itself\n" in output
  lines = recorder.read_lines(tmp_path / "metrics.jsonl")
  assert not any(name.startswith("validation") for x in lines for name in x)
  result = read_result(tmp_path)
  assert (result["best_step"], result["num_examples"]) == (None, {})
  assert not (tmp_path / "predictions").exists()


def test_a_metric_of_no_evaluation_is_refused(train, tmp_path):
  metric = "Checkpointing.metric='validation/colours/accuracy'"
  code, _, error = train(tmp_path, "EVAL_PERIOD=None", metric)
  assert code == 2 and "is not evaluated" in error


@pytest.mark.slow
def test_evaluation_can_be_capped(train, tmp_path):
  settings = ("EVAL_MAX_EXAMPLES=3", "TRAIN_STEPS=2", "EVAL_PERIOD=0")
  code, _, error = train(tmp_path, *settings)
  assert code == 0, error
  assert read_result(tmp_path)["num_examples"] == {"colours": 3}


def test_a_folder_of_a_version_with_fewer_settings_resumes(train, tmp_path):
  """Its config.gin binds no macro of later versions."""
  assert train(tmp_path, "TRAIN_STEPS=2")[0] == 0
  (tmp_path / "result.json").unlink()
  file = tmp_path / "config.gin"
  lines = file.read_text().splitlines()
  kept = [line for line in lines if "EVAL_MAX_EXAMPLES" not in line]
  kept.append("# train.evaluation_max_examples = None")
  file.write_text("\n".join(kept))
  code, _, error = train(tmp_path, "TRAIN_STEPS=2")
  assert code == 0, error
  assert read_result(tmp_path)["step"] == 2


def test_another_configuration_is_refused(finished, train):
  code, _, error = train(finished, "TRAIN_STEPS=14", "MLP_DIM=16")
  assert code == 2
  assert error == (
    f"zoo: error: run folder {str(finished)!r} belongs to another "
    "configuration (MLP_DIM was 32 and is 16, TRAIN_STEPS was 12 and is 14); "
    "choose another MODEL_DIR or remove the folder\n"
  )


def test_another_layout_is_told_and_goes_on(finished, train):
  code, output, error = train(finished, "SCAN_LAYERS=True", "FSDP=2")
  assert code == 0, error
  assert output == (
    f"{finished} goes on in another layout: FSDP was 1 and is 2, SCAN_LAYERS "
    f"was False and is True\n{finished} has finished before; its result "
    f"stands\n{finished / 'result.json'}\n"
  )


def test_evaluate_gives_the_scores_of_the_result(finished, zoo, prepared_dir):
  code, output, error = zoo(
    "evaluate", f"--checkpoint={finished}", "--mixture=colours"
  )
  assert code == 0, error
  found, result = json.loads(output), read_result(finished)
  for name in ("scores", "average", "loss"):
    assert found[name] == result[name]
  best = finished / "checkpoints" / str(result["best_step"])
  assert found["checkpoint"] == str(best) and found["split"] == "validation"


@pytest.mark.parametrize(
  "named", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_infer_answers_each_line(finished, zoo, prepared_dir, tmp_path, named):
  """With the vocabulary of the task trained on, or with a named one."""
  vocabulary = prepared_dir / "vocabularies" / "tiny.model"
  best = read_result(finished)["best_step"]
  predictions = finished / "predictions" / str(best) / "colours.jsonl"
  rows = [json.loads(text) for text in predictions.read_text().splitlines()]
  lines = tmp_path / "lines.txt"
  lines.write_text("".join(row["inputs"] + "\n" for row in rows))
  code, output, error = zoo(
    "infer",
    lines,
    f"--checkpoint={finished}",
    *([f"--vocabulary={vocabulary}"] if named else []),
    *(["--gin.infer.extra_ids=10"] if named else []),
  )
  assert code == 0, error
  assert output.split("\n")[:-1] == [row["prediction"] for row in rows]


@pytest.mark.slow
def test_finetuning_takes_parameters_alone_and_counts_its_own_steps(
  finished, train, tmp_path
):
  # No step moves a parameter, so that what was taken can still be seen.
  code, output, error = train(
    tmp_path / "tuned",
    f"INITIAL_CHECKPOINT_PATH={str(finished / 'checkpoints' / '10')!r}",
    "LEARNING_RATE=0.0",
    "TRAIN_STEPS=2",
    "RANDOM_SEED=5",
    "EVAL_PERIOD=0",
  )
  assert code == 0, error
  assert "training 2 steps, 0 to 2, 384 tokens" in output
  # The report of the mesh comes once, before the first step.
  assert output.count("\nmesh 8 data x 1 fsdp x 1 model: 8 x cpu") == 1
  assert output.count("\non each device in a step: temporaries ") >= 1
  start = leaves(finished / "checkpoints" / "10")
  tuned = leaves(tmp_path / "tuned" / "checkpoints" / "2")
  assert start.keys() == tuned.keys()
  assert tuned["step"] == 2 and tuned["opt_state/count"] == 2
  for name, value in start.items():
    if name.startswith("params/"):
      np.testing.assert_array_equal(tuned[name], value, err_msg=name)
  moments = [name for name in start if name.startswith("opt_state/moments")]
  assert any(np.any(start[name] != tuned[name]) for name in moments)


def test_finetuning_from_another_model_claims_no_folder(
  finished, train, tmp_path
):
  code, _, error = train(
    tmp_path / "tuned",
    f"INITIAL_CHECKPOINT_PATH={str(finished)!r}",
    "MLP_DIM=16",
  )
  assert code == 2
  assert error.startswith("zoo: error: the parameters of the checkpoint '")
  assert "wi_0/kernel (16, 32) instead of (16, 16)" in error
  assert not (tmp_path / "tuned" / "config.gin").exists()


@pytest.mark.slow
def test_a_task_without_metrics_ends_with_its_last_step(train, tmp_path):
  code, _, error = train(
    tmp_path, "MIXTURE_OR_TASK_NAME='unscored'", "TRAIN_STEPS=2"
  )
  assert code == 0, error
  result = read_result(tmp_path)
  assert result["best_step"] is None and result["average"] is None
  assert result["selection"] == "last step: no task has a metric"
  assert result["scores"] == {} and set(result["loss"]) == {"unscored"}


@pytest.mark.slow
def test_truncated_validation_examples_are_told(train, tmp_path):
  code, output, error = train(
    tmp_path,
    "TRAIN_STEPS=2",
    "EVAL_PERIOD=0",
    "TASK_FEATURE_LENGTHS={'inputs': 4, 'targets': 8}",
  )
  assert code == 0, error
  number = read_result(tmp_path)["truncated"]["colours"]["inputs"]
  assert 0 < number <= 20
  assert (
    f"validation of colours: {number} of 20 examples have more inputs than 4 "
    "tokens and are cut" in output
  )


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_the_run(train, tmp_path):
  code, _, error = train(tmp_path, "LEARNING_RATE=1e30")
  assert code == 3
  assert error.startswith("zoo: error: the loss of step ")
  assert error.count("\n") == 1
  saved = {path.name for path in (tmp_path / "not_finite").iterdir()}
  (batch,) = [name for name in saved if name.endswith(".npz")]
  step = batch.removesuffix(".npz").removeprefix("batch_")
  assert saved == {batch, f"metrics_{step}.json"}
  assert f"the loss of step {step} is not finite" in error
  arrays = np.load(tmp_path / "not_finite" / batch)
  assert arrays["encoder_input_tokens"].shape == (8, 16)
  assert not (tmp_path / "result.json").exists()
