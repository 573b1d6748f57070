"""Anomalies of steps in the loop: counted, written, resumed, the end."""

import itertools
import json

import jax.numpy as jnp
import numpy as np
import pytest

from tests.training import loop_test
from transformer_zoo.training import loop
from transformer_zoo.training.monitoring import guard
from transformer_zoo.training.monitoring import recorder
from transformer_zoo.training.monitoring.anomalies import Anomalies
from transformer_zoo.training.monitoring.budget import Stopwatch
from transformer_zoo.training.monitoring.monitor import Watch
from transformer_zoo.training.state import TrainState

SKIP = Anomalies(on_not_finite="skip", on_spike="skip", horizon=3)


def origin(index):
  return {"index": index, "places": f"{8 * index}-{8 * index + 7}"}


@pytest.fixture
def run(tmp_path):
  """Returns a function that runs the loop on gradient norms, one a batch."""

  def start(name, norms, anomalies, saved=None):
    state, progress = saved or (
      TrainState(jnp.int32(0), jnp.float32(0), ()),
      {},
    )

    def run_step(before, batch, history):
      after, sums = loop_test.run_step(before, batch, history)
      if anomalies.are_looked_for:
        return anomalies.judge(before, after, sums, history)
      return after, sums

    memory = loop_test.Memory()
    folder = tmp_path / name
    with recorder.Recorder(folder) as lines:
      lines.truncate_after(int(state.step) if saved else -1)
      watched = Watch(
        lines,
        guard.Guard(
          anomalies,
          lines,
          folder,
          origin=origin,
          saved=progress.get("anomalies"),
        ),
        None,
        Stopwatch(),
        progress=progress,
      )
      rest = itertools.islice(norms, int(state.step), None)
      loop.train(
        state,
        progress,
        train_steps=len(norms),
        batches=({"number": np.float32(norm)} for norm in rest),
        put_batch=dict,
        run_step=run_step,
        evaluate=None,
        periods=loop.Periods(log=3, checkpoint=1, evaluate=0),
        watch=watched,
        recorder=lines,
        checkpoints=memory,
        folder=folder,
      )
    return memory

  return start


def lines(folder, name="metrics.jsonl"):
  return recorder.read_lines(folder / name)


NORMS = [1.0, 1.1, np.nan, 0.9, 1.0, 50.0, np.inf, 1.05, 1.0]


def test_skipped_steps_are_counted_and_told_with_their_batches(
  run, tmp_path, capsys
):
  memory = run("run", NORMS, SKIP)
  told = capsys.readouterr().out
  for what in (
    "step 3: skipped: not finite (gradient norm nan)",
    "step 6: skipped: a spike (gradient norm 50)",
  ):
    assert f"{what}; anomalies.jsonl names its batch\n" in told
  state, _ = memory.saved[9]
  kept = [norm for norm in NORMS if norm < 2]
  assert state.params == np.sum(kept, dtype=np.float32) and state.step == 9
  metrics = lines(tmp_path / "run")
  names = ("not_finite", "spike", "skipped")
  counts = [[line[f"train/{name}_steps"] for name in names] for line in metrics]
  assert counts == [[1, 0, 1], [1, 1, 2], [2, 1, 3]]
  # Means are of the steps that moved the parameters.
  assert metrics[0]["train/gradient_norm"] == pytest.approx(1.05)
  assert metrics[2]["train/tokens"] == 20
  anomalies = lines(tmp_path / "run", "anomalies.jsonl")
  assert [
    (line["step"], line["kind"], line["action"], line["gradient_norm"])
    for line in anomalies
  ] == [
    (3, "not_finite", "skip", "nan"),
    (6, "spike", "skip", "50.0"),
    (7, "not_finite", "skip", "inf"),
  ]
  assert [line["batch"] for line in anomalies] == list(map(origin, [2, 5, 6]))
  loss_limit, norm_limit = anomalies[1]["limits"]
  assert 1 < norm_limit < 50 and loss_limit < 50 / 7 / 2
  for text in (tmp_path / "run" / "anomalies.jsonl").read_text().splitlines():
    json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize("step", range(1, 9))
def test_a_resumed_run_is_the_uninterrupted_one(run, tmp_path, step):
  whole = run("whole", NORMS, SKIP)
  run("cut", NORMS[: step + 2], SKIP)
  again = run("cut", NORMS, SKIP, whole.saved[step])
  assert again.saved[9][0] == whole.saved[9][0]
  for _, progress in (again.saved[9], whole.saved[9]):
    assert progress["budget"].pop("seconds").keys() >= {"training"}
  assert again.saved[9][1] == whole.saved[9][1]
  for name in ("metrics.jsonl", "anomalies.jsonl"):
    expected = (tmp_path / "whole" / name).read_bytes()
    assert (tmp_path / "cut" / name).read_bytes() == expected


def test_too_many_in_a_row_end_the_run(run, tmp_path):
  patient = Anomalies(on_not_finite="skip", max_in_a_row=2)
  run("patient", [1, np.nan, np.nan, 1, np.nan, np.nan, 1], patient)
  with pytest.raises(guard.NotFinite) as caught:
    run("run", [1, np.nan, np.nan, np.nan, 1, 1, 1], patient)
  sentence = str(caught.value)
  assert sentence.startswith(
    "the loss of step 4 is not finite, after 2 skipped ones in a row (loss "
  )
  assert (tmp_path / "run" / "not_finite" / "batch_4.npz").exists()
  assert len(lines(tmp_path / "run", "anomalies.jsonl")) == 3


def test_a_spike_is_noted_or_ends_the_run(run, tmp_path):
  norms = [1.0, 1.1, 0.9, 1.0, 50.0, 1.0]
  memory = run("noted", norms, Anomalies(on_spike="note", horizon=3))
  assert memory.saved[6][0].params == 55
  (line,) = lines(tmp_path / "noted", "anomalies.jsonl")
  assert (line["step"], line["action"]) == (5, "note")
  with pytest.raises(guard.Spike) as caught:
    run("stopped", norms, Anomalies(on_spike="stop", horizon=3))
  path = tmp_path / "stopped" / "not_finite" / "batch_5.npz"
  assert str(caught.value) == (
    f"step 5 is a spike (loss {float(np.float32(50 / 14 + 0.125))}, "
    f"gradient_norm 50.0); its batch is saved as {path}; lower the "
    "learning rate or look at it"
  )
  assert np.load(path)["number"] == 50


def test_a_run_that_stops_at_once_tells_where_the_batch_comes_from(
  run, tmp_path
):
  with pytest.raises(guard.NotFinite):
    run("run", [1, np.nan, 1], Anomalies())
  (line,) = lines(tmp_path / "run", "anomalies.jsonl")
  assert line["action"] == "stop" and line["batch"] == origin(1)
  assert "train/skipped_steps" not in "".join(map(str, lines(tmp_path / "run")))
