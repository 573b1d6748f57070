"""The loop, with steps and evaluations that cost nothing."""

import functools
import itertools
import json
import os
import re
import signal

import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.training import loop
from transformer_zoo.training.checkpoints.retention import KEEP_NEWEST_AND_BEST
from transformer_zoo.training.checkpoints.retention import Scores
from transformer_zoo.training.checkpoints.run_checkpoints import Stalls
from transformer_zoo.training.monitoring import guard
from transformer_zoo.training.monitoring import monitor
from transformer_zoo.training.monitoring import progress
from transformer_zoo.training.monitoring import recorder
from transformer_zoo.training.monitoring.anomalies import Anomalies
from transformer_zoo.training.monitoring.budget import Stopwatch
from transformer_zoo.training.monitoring.monitor import Watch
from transformer_zoo.training.monitoring.profiling import Profiler
from transformer_zoo.training.state import TrainState

STOP, NONE = Anomalies(), range(0)
PERIODS = loop.Periods(log=3, checkpoint=2, evaluate=4)


class Memory:
  """Checkpoints in memory."""

  def __init__(self):
    self.stalls = Stalls()
    self.saved = {}
    self.finished = None

  def recall(self, lines):
    return Scores(KEEP_NEWEST_AND_BEST, lines)

  def save(self, step, state, progress):
    # As JSON would bring it back.
    self.saved[step] = (state, json.loads(json.dumps(progress)))
    return 0.25

  def finish(self, step, state, progress):
    self.finished = step


def run_step(state, batch, history):
  """Adds the batch's number to the only parameter."""
  number = float(batch["number"])
  sums = {
    "loss_sum": jnp.float32(number / 7),
    "z_loss_sum": jnp.float32(0.25),
    "loss": jnp.float32(number / 14 + 0.125),
    "correct_sum": jnp.float32(1),
    "weight_sum": jnp.float32(2),
    "token_sum": jnp.float32(10),
    "gradient_norm": jnp.float32(number),
    "learning_rate": jnp.float32(0.5),
  }
  return TrainState(state.step + 1, state.params + number, ()), sums


def evaluate(params, step):
  score = {4: 0.9, 8: 0.3}.get(step, 0.5)
  return {"validation/average": score}


def make_watch(lines, folder, progress, anomalies=STOP, steps=NONE):
  saved = (progress or {}).get("anomalies")
  return Watch(
    lines,
    guard.Guard(anomalies, lines, folder, saved=saved),
    Profiler(steps, folder),
    Stopwatch(),
    progress=progress,
  )


@pytest.fixture
def run(tmp_path):
  """Returns a function that runs the loop and returns outcome and saves."""

  def start(name="run", *, state=None, progress=None, **changes):
    state = state or TrainState(jnp.int32(0), jnp.float32(0), ())
    memory = changes.setdefault("checkpoints", Memory())
    first = int(state.step)
    arguments = {
      "train_steps": 10,
      "batches": ({"number": np.int32(i)} for i in itertools.count(first)),
      "put_batch": dict,
      "run_step": run_step,
      "evaluate": evaluate,
      "periods": PERIODS,
      "folder": tmp_path / name,
    } | changes
    with recorder.Recorder(tmp_path / name) as lines:
      arguments.setdefault(
        "watch", make_watch(lines, tmp_path / name, progress)
      )
      outcome = loop.train(state, progress or {}, recorder=lines, **arguments)
    return outcome, memory

  return start


def test_the_next_batch_is_laid_out_while_a_step_runs(run):
  """A step is over when its sums are read: the next batch is there by then."""
  calls = []

  def put(batch):
    calls.append(f"put {batch['number']}")
    return batch

  def noted_step(state, batch, history):
    calls.append(f"run {batch['number']}")
    return run_step(state, batch, history)

  def read(sums):
    calls.append(f"read {round(float(sums['gradient_norm']))}")
    return sums

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(monitor.jax, "device_get", read)
    run(
      train_steps=4,
      put_batch=put,
      run_step=noted_step,
      evaluate=None,
      periods=loop.Periods(log=4, checkpoint=4, evaluate=0),
    )
  assert calls == [
    *("put 0", "run 0", "put 1"),
    *("run 1", "put 2", "read 0"),
    *("run 2", "put 3", "read 1"),
    *("run 3", "read 2", "read 3"),
  ]


def metrics(folder):
  return recorder.read_lines(folder / "metrics.jsonl")


def test_records_saves_and_selects(run, tmp_path):
  outcome, memory = run()
  assert outcome.state.step == 10 and outcome.state.params == 45
  assert (outcome.best_step, outcome.best_score) == (4, 0.9)
  assert outcome.budget.tokens == 100
  assert list(memory.saved) == [2, 4, 6, 8, 10] and memory.finished == 10
  lines = metrics(tmp_path / "run")
  training = [line for line in lines if "train/loss" in line]
  assert [line["step"] for line in training] == [3, 6, 9, 10]
  evaluated = [line["step"] for line in lines if "validation/average" in line]
  assert evaluated == [4, 8, 10]
  # Sums over steps 4 to 6 divided once, gradient and rate by steps.
  means = training[1]
  assert means["train/loss"] == pytest.approx((3 + 4 + 5) / 7 / 6)
  assert means["train/z_loss"] == 0.125
  assert means["train/accuracy"] == 0.5
  assert means["train/gradient_norm"] == 4.0
  assert means["train/learning_rate"] == 0.5
  assert means["train/tokens"] == 30


@pytest.mark.parametrize("evaluated", [True, False])
@pytest.mark.parametrize("step", [2, 4, 8, 10])
def test_goes_on_from_any_checkpoint(run, tmp_path, step, evaluated):
  """Also where a kill came between a checkpoint and its evaluation."""
  outcome, memory = run("whole")
  state, progress = memory.saved[step]
  whole = metrics(tmp_path / "whole")
  with recorder.Recorder(tmp_path / "resumed") as lines:
    for line in whole:
      before, is_evaluation = line["step"] <= step, "train/loss" not in line
      if before and (evaluated or line["step"] < step or not is_evaluation):
        lines.record(line.pop("step"), line)
  again, _ = run("resumed", state=state, progress=progress)
  assert again.best_step == outcome.best_step
  assert again.budget.tokens == outcome.budget.tokens
  assert again.state.params == outcome.state.params
  assert metrics(tmp_path / "resumed") == metrics(tmp_path / "whole")


def test_stalls_of_saves_are_told(run, tmp_path, capsys):
  run()
  told = capsys.readouterr().out
  assert "checkpoint 2: training waited 0.25 s\n" in told
  assert "0 checkpoints saved" in told
  timing = recorder.read_lines(tmp_path / "run" / "timing.jsonl")
  name = "timing/checkpoint_stall_seconds"
  stalls = {line["step"]: line[name] for line in timing if name in line}
  assert stalls == dict.fromkeys([2, 4, 6, 8, 10], 0.25)


class Seconds:
  """A clock of a run whose parts take what they say."""

  def __init__(self):
    self.now = self.compiled = 0.0

  def spend(self, seconds, compiled=0.0):
    self.now += seconds + compiled
    self.compiled += compiled


@pytest.mark.parametrize("longer", [1, 8], ids=["rows", "longer rows"])
@pytest.mark.parametrize("evaluate_every", [4, 0, None])
def test_the_time_left_is_right(
  run, capsys, monkeypatch, evaluate_every, longer
):
  """It counts evaluations, the last write and the lengths of rows.

  Not the compilation to come, and no evaluation before one is over.
  """
  clock, memory, lines = Seconds(), Memory(), []
  lengths = [1] * 6 + [longer] * 4
  evaluations = {4: 3, 0: 1, None: 0}[evaluate_every]

  def compiled_step(state, batch, history):
    clock.spend(0.0, 40.0 if int(batch["number"]) in (0, 6) else 0.0)
    return run_step(state, batch, history)

  def read(sums):
    clock.spend(3.0 * lengths[round(float(sums["gradient_norm"]))])
    return sums

  def slow_evaluation(params, step):
    clock.spend(25.0, 0.0 if step > 4 and evaluate_every else 60.0)
    return evaluate(params, step)

  def save(step, state, progress):
    memory.stalls.writing = 20.0
    return 0.0

  def finish(step, state, progress):
    clock.spend(0.0 if evaluations else 20.0)

  memory.save, memory.finish = save, finish
  monkeypatch.setattr(monitor.jax, "device_get", read)
  display = functools.partial(
    progress.Progress,
    every_seconds=0,
    clock=lambda: clock.now,
    compiling=lambda: clock.compiled,
  )
  monkeypatch.setattr(loop, "Progress", display)
  monkeypatch.setattr(
    progress.Progress,
    "_print",
    lambda _, line: lines.append((clock.now - clock.compiled, line)),
  )
  run(
    run_step=compiled_step,
    evaluate=slow_evaluation if evaluations else None,
    periods=loop.Periods(log=1, checkpoint=2, evaluate=evaluate_every),
    checkpoints=memory,
    work=lambda step: sum(lengths[:step]),
  )
  end = clock.now - clock.compiled
  told = [each for each in lines if each[1].startswith("training: step")]
  assert len(told) == 11
  for now, line in told[2:]:
    found = re.search(
      r"  (?:(\d+) min )?(?:(\d+) s)?(?: and )?(?:(\d) evaluations?)? left",
      line,
    )
    minutes, seconds, untimed = (int(text or 0) for text in found.groups())
    expected = 60 * minutes + seconds + 25 * untimed
    assert expected == pytest.approx(end - now, abs=1), line
  assert ("evaluation" in told[-1][1]) == (evaluations == 1)


def test_a_run_that_has_all_its_steps_only_ends(run):
  _, memory = run()
  outcome, again = run("again", state=memory.saved[10][0], progress={})
  assert outcome.state.step == 10 and not again.saved


def test_an_equal_score_does_not_move_the_best(run):
  outcome, _ = run(evaluate=lambda params, step: {"validation/average": 0.5})
  assert outcome.best_step == 4


def test_without_scores_there_is_no_best(run):
  outcome, memory = run(evaluate=lambda params, step: {"loss": 1.0})
  assert outcome.best_step is None
  outcome, _ = run("none", evaluate=None)
  assert outcome.best_step is None


def test_evaluates_at_the_end_only(run, tmp_path):
  outcome, _ = run(periods=loop.Periods(log=5, checkpoint=5, evaluate=0))
  assert outcome.best_step == 10


def test_sigterm_saves_the_step_and_the_rest_is_the_same(run, tmp_path):
  def terminated(state, batch, history):
    if batch["number"] == 4:
      os.kill(os.getpid(), signal.SIGTERM)
    return run_step(state, batch, history)

  before = signal.getsignal(signal.SIGTERM)
  memory = Memory()
  with pytest.raises(SystemExit) as caught:
    run("cut", run_step=terminated, checkpoints=memory)
  assert caught.value.code == 143
  assert signal.getsignal(signal.SIGTERM) is before
  assert list(memory.saved) == [2, 4, 5] and memory.finished == 5
  state, progress = memory.saved[5]
  assert progress["window"]["steps"] == 2
  run("cut", state=state, progress=progress)
  outcome, _ = run("whole")
  assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")


@pytest.fixture
def keyboard():
  """Ctrl-C arrives; a shell starts its background with SIGINT ignored."""
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  yield
  signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("keyboard")
def test_control_c_saves_the_step_and_the_rest_is_the_same(
  run, tmp_path, capfd
):
  def interrupted(state, batch, history):
    if batch["number"] == 4:
      signal.raise_signal(signal.SIGINT)
    return run_step(state, batch, history)

  memory = Memory()
  with pytest.raises(KeyboardInterrupt):
    run("cut", run_step=interrupted, checkpoints=memory)
  assert "this step is finished and saved" in capfd.readouterr().err
  assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
  assert list(memory.saved) == [2, 4, 5] and memory.finished == 5
  run("cut", state=memory.saved[5][0], progress=memory.saved[5][1])
  run("whole")
  assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")


@pytest.mark.usefixtures("keyboard")
def test_control_c_again_ends_at_once(run):
  def interrupted(state, batch, history):
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)

  memory = Memory()
  with pytest.raises(KeyboardInterrupt):
    run(run_step=interrupted, checkpoints=memory)
  assert not memory.saved


@pytest.mark.usefixtures("keyboard")
def test_control_c_in_an_evaluation_waits_for_nothing(run):
  def interrupted(params, step):
    signal.raise_signal(signal.SIGINT)
    raise AssertionError("the evaluation went on")

  memory = Memory()
  with pytest.raises(KeyboardInterrupt):
    run(evaluate=interrupted, checkpoints=memory)
  assert list(memory.saved) == [2, 4]  # The last save is complete at `close`.


def test_sigterm_in_the_last_evaluation_is_not_forgotten(run, tmp_path):
  def terminated(params, step):
    if step == 10:
      os.kill(os.getpid(), signal.SIGTERM)
    return evaluate(params, step)

  memory = Memory()
  with pytest.raises(SystemExit) as caught:
    run("cut", evaluate=terminated, checkpoints=memory)
  assert caught.value.code == 143
  assert memory.finished == 10
  state, progress = memory.saved[10]
  run("cut", state=state, progress=progress)
  run("whole")
  assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")


@pytest.mark.parametrize("name", ["loss", "gradient_norm"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(run, tmp_path, name, value):
  def spoilt(state, batch, history):
    state, sums = run_step(state, batch, history)
    if batch["number"] == 5:
      sums[name] = jnp.float32(value)
    return state, sums

  memory = Memory()
  with pytest.raises(guard.NotFinite) as caught:
    run(run_step=spoilt, checkpoints=memory)
  assert list(memory.saved) == [2, 4]
  folder = tmp_path / "run" / "not_finite"
  saved = json.loads((folder / "metrics_6.json").read_text())
  assert saved["step"] == 6 and saved[name] == str(value)
  assert np.load(folder / "batch_6.npz")["number"] == 5
  sentence = str(caught.value)
  assert sentence.startswith("the loss of step 6 is not finite (loss ")
  assert f"its batch is saved as {folder / 'batch_6.npz'}" in sentence


@pytest.mark.parametrize(
  "periods, sentence",
  [
    (
      {"log": 0},
      "periods must be positive, not log=0, checkpoint=1000, evaluate=1000",
    ),
    (
      {"checkpoint": 300},
      "EVAL_PERIOD=1000 is not a multiple of CHECKPOINT_PERIOD=300: an "
      "evaluated step must have a checkpoint; choose a multiple",
    ),
  ],
)
def test_periods_that_are_refused(periods, sentence):
  with pytest.raises(UserError) as caught:
    loop.Periods(**periods)
  assert str(caught.value) == sentence
