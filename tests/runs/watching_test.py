"""A run that is watched: one batch is poisoned, two steps are profiled."""

import json
import random
import sys
import types

import numpy as np
import pytest

from tests.runs import conftest
from transformer_zoo.training.monitoring import recorder
from transformer_zoo.training.sharding import partitioning

POISONED = 2
OVERRIDES = (
  *("TRAIN_STEPS=6", "CHECKPOINT_PERIOD=6", "EVAL_PERIOD=0"),
  "MIXTURE_OR_TASK_NAME='no_validation'",
  *("ON_NOT_FINITE='skip'", "NORMS='layers'", "PROFILE='4'"),
  "WRITERS=[@WeightsAndBiases()]",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
  return tmp_path_factory.mktemp("watched")


@pytest.fixture
def watched(train, place, monkeypatch):
  """A run folder; the run is made by the first test that asks."""
  folder = place / "run"
  if (folder / "result.json").exists():
    return folder
  told, batches = [], []
  run = types.SimpleNamespace(
    define_metric=lambda *_, **__: None, log=told.append, finish=lambda: None
  )
  wandb = types.SimpleNamespace(init=lambda **_: run)
  monkeypatch.setitem(sys.modules, "wandb", wandb)
  put = partitioning.put_batch

  def poisoning(batch, mesh):
    batches.append(batch)
    weights = np.float32(batch["decoder_loss_weights"])
    if len(batches) == POISONED:
      weights[0, 0] = np.nan
    return put({**batch, "decoder_loss_weights": weights}, mesh=mesh)

  monkeypatch.setattr(partitioning, "put_batch", poisoning)
  code, _, error = train(folder, *OVERRIDES)
  assert code == 0, error
  np.savez(place / "poisoned.npz", **batches[POISONED - 1])
  (place / "told.json").write_text(json.dumps(told))
  return folder


@pytest.mark.slow
def test_one_batch_is_skipped_and_the_run_learns_from_the_others(watched):
  first, last = (
    line
    for line in recorder.read_lines(watched / "metrics.jsonl")
    if "train/loss" in line
  )
  assert first["train/not_finite_steps"] == last["train/skipped_steps"] == 1
  assert np.isfinite(list(first.values())).all()
  assert last["train/loss"] < first["train/loss"]
  (line,) = recorder.read_lines(watched / "anomalies.jsonl")
  assert line["step"] == POISONED and line["action"] == "skip"


@pytest.mark.slow
def test_its_batch_is_made_again_from_what_is_written(watched, place, zoo):
  (line,) = recorder.read_lines(watched / "anomalies.jsonl")
  code, output, error = zoo(
    *("inspect", "batch", watched, line["step"], "--json", "-n", 8),
    *("--output", place / "again.npz"),
  )
  assert code == 0, error
  again, poisoned = (
    dict(np.load(place / f"{name}.npz")) for name in ("again", "poisoned")
  )
  assert again.keys() == poisoned.keys()
  for name, array in poisoned.items():
    assert again[name].dtype == array.dtype
    np.testing.assert_array_equal(again[name], array)
  found = json.loads(output)
  assert found["origin"] == line["batch"]
  assert found["origin"]["index"] == POISONED - 1
  assert (found["origin"]["first_row"], found["origin"]["rows"]) == (8, 8)
  # The examples are those of the task that the numbers name.
  rng = random.Random(0)
  sentences = [" ".join(rng.choices(conftest.WORDS, k=4)) for _ in range(120)]
  named = []
  for text in found["origin"]["examples"]["no_validation"].split():
    first, _, last = text.partition("-")
    named += sentences[int(first) : int(last or first) + 1]
  shown = [row["encoder_input_tokens"] for row in found["rows"]]
  assert sorted(sum(shown, [])) == sorted(named)


@pytest.mark.slow
def test_what_a_line_of_metrics_has(watched):
  metrics = recorder.read_lines(watched / "metrics.jsonl")
  line = next(line for line in metrics if "train/loss" in line)
  groups = ("embedding", "encoder/attention", "decoder/mlp", "decoder/head")
  for name in (*groups, "encoder/layers_0", "decoder/layers_0"):
    assert line[f"gradient_norm/{name}"] > 0
    assert line[f"parameter_norm/{name}"] > 0
  # Packed rows, of which two moved the parameters.
  places = 2 * 8 * (16 + 8)
  assert line["train/padding"] == pytest.approx(
    1 - line["train/tokens"] / places
  )
  total = line["gradient_norm/embedding"]
  assert total <= line["train/gradient_norm"]


@pytest.mark.slow
def test_what_a_line_of_timing_has(watched):
  timing = recorder.read_lines(watched / "timing.jsonl")
  first, second = (
    line for line in timing if "timing/data_wait_seconds" in line
  )
  assert first["timing/compilation_seconds"] > 0
  assert "timing/compilation_seconds" not in second
  tokens = second["timing/tokens_per_second"]
  assert second["timing/tokens_per_second_per_device"] == tokens / 8
  assert second["timing/flops_per_second"] > 0
  assert "timing/utilization" not in second, "nobody knows a CPU's peak"
  assert second["timing/host_peak_bytes"] > 0


@pytest.mark.slow
def test_a_trace_and_a_writer(watched, place):
  assert list((watched / "profile").rglob("*.xplane.pb"))
  told = json.loads((place / "told.json").read_text())
  lines = [
    line
    for name in (recorder.METRICS_FILE, recorder.TIMING_FILE)
    for line in recorder.read_lines(watched / name)
  ]
  assert sorted(map(json.dumps, told)) == sorted(map(json.dumps, lines))


@pytest.mark.slow
@pytest.mark.parametrize(
  "words, sentence",
  [
    (
      ["7"],
      "step 7 is none of this run's, which has 1 to 6",
    ),
    (
      ["1", "--prepared_dir", "no"],
      "Nothing named 'no_validation' is prepared in 'no'",
    ),
  ],
)
def test_batches_that_cannot_be_made(watched, zoo, words, sentence):
  code, _, error = zoo("inspect", "batch", watched, *words)
  assert code == 2 and sentence in error


def test_a_folder_that_is_no_run(zoo, tmp_path):
  code, _, error = zoo("inspect", "batch", tmp_path, "1")
  assert code == 2
  assert error == (
    f"zoo: error: '{tmp_path}' is no run folder: it has no config.gin\n"
  )
