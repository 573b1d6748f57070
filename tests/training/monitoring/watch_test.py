"""Measurements of a run: windows, speed, traces, norms, texts."""

import contextlib
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.training.monitoring import budget
from transformer_zoo.training.monitoring import monitor
from transformer_zoo.training.monitoring import profiling
from transformer_zoo.training.monitoring import progress
from transformer_zoo.training.monitoring.monitor import Window


def sums(**changes):
  return {
    "loss_sum": 6.0,
    "z_loss_sum": 0.5,
    "loss": 3.25,
    "correct_sum": 1.0,
    "weight_sum": 2.0,
    "token_sum": 30.0,
    "gradient_norm": 4.0,
    "learning_rate": 0.5,
  } | changes


def test_a_window_divides_sums_once_and_names_norms():
  window = Window()
  for factor in (1.0, 3.0):
    norms = np.array([1.0, 2.0]) * factor
    window.add(
      sums(
        loss_sum=6.0 * factor,
        weight_sum=2.0 / factor,
        place_sum=40.0,
        gradient_norms=norms,
        parameter_norms=10 * norms,
        update_norms=0.1 * norms,
      )
    )
  means = window.means(["encoder/mlp", "embedding"])
  assert means["train/loss"] == pytest.approx(24 / (2 + 2 / 3))
  assert means["train/padding"] == 0.25 and means["train/tokens"] == 60
  assert means["gradient_norm/encoder/mlp"] == 2
  assert means["gradient_norm/embedding"] == 4
  assert means["parameter_norm/embedding"] == 40
  assert means["update_norm/embedding"] == pytest.approx(0.4)
  saved = json.loads(json.dumps(window.to_json()))
  again = Window.from_json(saved)
  kinds = "gradient_norms", "parameter_norms", "update_norms"
  more = sums(**dict.fromkeys(kinds, norms))
  window.add(more)
  again.add(more)
  assert again.means(["a", "b"]) == window.means(["a", "b"])
  assert Window().means(["a"]) == {}


class Clock:
  """Seconds that pass when the test says so."""

  now = 100.0

  def __call__(self):
    return self.now


def test_speed_is_of_steps_alone():
  clock = Clock()
  watched = budget.Stopwatch(devices=4, peak_flops=50.0, clock=clock)
  for name, seconds in (
    ("compilation", 7),
    ("evaluation", 5),
    ("data_wait", 2),
  ):
    with watched.spent(name):
      clock.now += seconds
  clock.now += 8
  for _ in range(5):
    watched.add(tokens=20.0, flops=100.0)
  assert watched.lap() == {
    "timing/seconds_per_step": 2.0,
    "timing/tokens_per_second": 10.0,
    "timing/tokens_per_second_per_device": 2.5,
    "timing/flops_per_second": 50.0,
    "timing/utilization": 0.25,
    "timing/compilation_seconds": 7.0,
    "timing/evaluation_seconds": 5.0,
    "timing/data_wait_seconds": 2.0,
  }
  assert watched.lap() == {}, "the next lap begins with nothing"


def test_every_shape_of_batches_compiles_once():
  """Stages of a warm-up and buckets of lengths have others."""
  clock = Clock()
  watched = monitor.Watch(
    recorder=None,
    guard=None,
    profiler=None,
    stopwatch=budget.Stopwatch(clock=clock),
  )
  for number, rows in enumerate((2, 2, 4, 2, 4)):
    shapes = monitor.shapes_of({"tokens": jnp.zeros((rows, 8))})
    with watched.step(number, shapes):
      clock.now += 10
    watched.stopwatch.add(tokens=1.0, flops=1.0)
  lap = watched.stopwatch.lap()
  assert lap["timing/compilation_seconds"] == 20.0
  assert lap["timing/seconds_per_step"] == 6.0


def test_an_unknown_chip_has_no_utilization():
  clock = Clock()
  watched = budget.Stopwatch(clock=clock)
  watched.add(tokens=20.0, flops=100.0)
  clock.now += 2
  values = watched.lap()
  assert values["timing/flops_per_second"] == 50
  assert "timing/utilization" not in values
  watched.add(tokens=20.0, flops=0.0)
  clock.now += 2
  assert "timing/flops_per_second" not in watched.lap()


def test_memory_is_of_the_fullest_device_or_of_the_process(monkeypatch):
  (name, bytes_), *_ = budget.memory().items()
  assert name == "timing/host_peak_bytes"
  assert 2**26 < bytes_ < 2**42

  class Device:
    def __init__(self, used):
      self.used = used

    def memory_stats(self):
      return {"bytes_in_use": self.used, "peak_bytes_in_use": 2 * self.used}

  monkeypatch.setattr(jax, "local_devices", lambda: [Device(3), Device(5)])
  assert budget.memory() == {
    "timing/device_bytes": 5,
    "timing/device_peak_bytes": 10,
  }


@pytest.mark.parametrize(
  "text, steps",
  [("10:13", range(10, 14)), ("4", range(4, 5))],
)
def test_steps_to_profile(text, steps):
  assert profiling.parse(text, 20) == steps


@pytest.mark.parametrize(
  "text, sentence",
  [
    (
      "10-13",
      "--profile is '10-13'; write the steps as 10:13, first and last",
    ),
    *(
      (
        text,
        f"--profile is '{text}'; the steps of this run are 1 to 20, and the "
        "first comes before the last",
      )
      for text in ("0:3", "13:10", "19:21")
    ),
  ],
)
def test_steps_that_cannot_be_profiled(text, sentence):
  with pytest.raises(UserError) as caught:
    profiling.parse(text, 20)
  assert str(caught.value) == sentence


@pytest.fixture
def traces(monkeypatch):
  """What JAX's profiler was asked for."""
  told = []
  monkeypatch.setattr(jax.profiler, "start_trace", lambda f: told.append(f))
  monkeypatch.setattr(jax.profiler, "stop_trace", lambda: told.append("stop"))
  return told


@pytest.mark.parametrize("first", [1, 4, 6])
def test_a_trace_has_the_steps_that_are_left(tmp_path, traces, first, capsys):
  profiler = profiling.Profiler(range(3, 6), tmp_path)
  for step in range(first, 9):
    profiler.begin(step)
    traces.append(step)
    told = profiler.finish(step, jnp.float32(0))
    assert bool(told) == (step == 5)
  within = [
    *range(first, 3),
    *[tmp_path / "profile"] * (first < 6),
    *range(max(first, 3), 6),
    *["stop"] * (first < 6),
    *range(max(first, 6), 9),
  ]
  assert traces == within
  told = "--profile names steps that were made before: no trace is taken\n"
  assert capsys.readouterr().out == told * (first > 5)


def test_a_trace_that_is_cut_short_is_closed(tmp_path, traces):
  with contextlib.closing(
    profiling.Profiler(range(1, 9), tmp_path)
  ) as profiler:
    profiler.begin(1)
  assert traces == [tmp_path / "profile", "stop"]


def test_shapes_of_batches_hold_no_arrays():
  batch = {"encoder_input_tokens": jnp.zeros((4, 8), jnp.int32)}
  (shape,) = monitor.shapes_of(batch).values()
  assert isinstance(shape, jax.ShapeDtypeStruct) and shape.size == 32


@pytest.mark.parametrize(
  "values, text",
  [
    ({}, "training: step 1/9"),
    (
      {"loss": 2.5, "tokens_per_second": 1e4, "flops_per_second": 3.21e12},
      "training: step 1/9  loss 2.500  10,000 tokens/s  3.21 TFLOP/s",
    ),
    (
      {"flops_per_second": 3.21e12, "utilization": 0.4321},
      "training: step 1/9  43.2 % of peak",
    ),
  ],
)
def test_progress_says_what_is_known(values, text, capsys):
  with progress.Progress(first_step=0, last_step=9) as shown:
    shown.update(1, **values)
  assert capsys.readouterr().out == text + "\n"


@pytest.mark.parametrize(
  "number, text",
  [(7, "7 "), (12345, "12.3 k"), (9.99e14, "999 T"), (2e18, "2e+03 P")],
)
def test_quantities(number, text):
  assert progress.quantity(number) == text
