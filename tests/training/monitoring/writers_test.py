"""Weights & Biases and MLflow, by fakes that have their clients' interface."""

import sys
import types

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.training.monitoring import recorder
from transformer_zoo.training.monitoring.writers.mlflow import MlFlow
from transformer_zoo.training.monitoring.writers.weights_and_biases import (
  WeightsAndBiases,
)
from transformer_zoo.training.watching import Watching


class FakeWandb(types.ModuleType):
  """What wandb 0.31 is told; a run is what `init` returns."""

  def __init__(self):
    super().__init__("wandb")
    self.told = []

  def init(self, **keywords):
    self.told.append(("init", keywords))
    return self

  def define_metric(self, name, step_metric=None):
    self.told.append(("define_metric", name, step_metric))

  def log(self, values):
    if "refused" in values:
      raise ConnectionError("no network")
    self.told.append(("log", values))

  def finish(self):
    self.told.append(("finish",))


class FakeMlflow(types.ModuleType):
  """What mlflow 3.17 is told; the client is the module itself."""

  class entities:
    """Its Metric."""

    Metric = staticmethod(
      lambda key, value, timestamp, step: (key, value, step)
    )

  def __init__(self):
    super().__init__("mlflow")
    self.told = []
    self.waited = []

  def MlflowClient(self, tracking_uri):
    self.told.append(("client", tracking_uri))
    return self

  def get_experiment_by_name(self, name):
    return None

  def create_experiment(self, name):
    self.told.append(("create_experiment", name))
    return "7"

  def create_run(self, experiment, run_name):
    self.told.append(("create_run", experiment, run_name))
    info = types.SimpleNamespace(run_id="abc")
    return types.SimpleNamespace(info=info)

  def log_param(self, run, name, value):
    self.told.append(("log_param", run, name, value))

  def update_run(self, run, status):
    self.told.append(("update_run", run, status))

  def log_batch(self, run, metrics, synchronous):
    assert not synchronous and len(metrics) <= 1000
    self.told.append(("log_batch", run, metrics))
    return types.SimpleNamespace(wait=lambda: self.waited.append(run))

  def set_terminated(self, run):
    self.told.append(("set_terminated", run))


@pytest.fixture
def folder(tmp_path):
  folder = tmp_path / "first"
  folder.mkdir()
  (folder / "config.gin").write_text(
    "BATCH_SIZE = 8\nNAME = 'a'\n\nMlp.d_ff = 32\n\n# Dropout.rate = 0.0\n"
  )
  return folder


def test_weights_and_biases(folder, monkeypatch):
  fake = FakeWandb()
  monkeypatch.setitem(sys.modules, "wandb", fake)
  writer = WeightsAndBiases(project="p", group="g", mode="offline")
  for step in (1, 2):
    with recorder.Recorder(folder, [writer]) as run:
      run.truncate_after(step - 1)
      run.record(step, {"train/loss": 2.0})
      run.timing(step, {"timing/seconds_per_step": 0.5})
  first, second = (call[1] for call in fake.told if call[0] == "init")
  assert first == second and first["resume"] == "allow" and first["id"]
  assert first["project"] == "p" and first["group"] == "g"
  assert first["mode"] == "offline" and first["name"] == "first"
  assert first["config"] == {"BATCH_SIZE": "8", "NAME": "'a'"}
  assert fake.told[1:6] == [
    ("define_metric", "step", None),
    ("define_metric", "*", "step"),
    ("log", {"step": 1, "train/loss": 2.0}),
    ("log", {"step": 1, "timing/seconds_per_step": 0.5}),
    ("finish",),
  ]


def test_mlflow(folder, monkeypatch):
  fake = FakeMlflow()
  monkeypatch.setitem(sys.modules, "mlflow", fake)
  for step in (1, 2):
    with recorder.Recorder(folder, [MlFlow(tracking_uri="sqlite:///a")]) as run:
      run.record(step, {f"m/{i}": i for i in range(1001)})
  made = [call for call in fake.told if call[0].startswith("create")]
  assert made == [
    ("create_experiment", "transformer_zoo"),
    ("create_run", "7", "first"),
  ]
  assert ("log_param", "abc", "BATCH_SIZE", "8") in fake.told
  assert not any("Mlp.d_ff" in call for call in fake.told)
  batches = [call[2] for call in fake.told if call[0] == "log_batch"]
  assert [len(metrics) for metrics in batches] == [1000, 1, 1000, 1]
  assert batches[3] == [("m/1000", 1000.0, 2)]
  assert fake.waited == ["abc"] * 2
  assert fake.told[-1] == ("set_terminated", "abc")


def test_a_service_that_fails_is_told_once_and_ends_no_run(
  folder, monkeypatch, capsys
):
  fake = FakeWandb()
  monkeypatch.setitem(sys.modules, "wandb", fake)
  with recorder.Recorder(folder, [WeightsAndBiases()]) as run:
    run.record(1, {"refused": 1.0})
    run.record(2, {"refused": 1.0})
  assert capsys.readouterr().out == (
    "transformer_zoo.training.monitoring.writers.weights_and_biases: "
    "writing failed (no network); the run goes on without it, its own files "
    "have everything\n"
  )
  lines = recorder.read_lines(folder / "metrics.jsonl")
  assert [line["step"] for line in lines] == [1, 2]


@pytest.mark.parametrize(
  "writer, package", [(WeightsAndBiases(), "wandb"), (MlFlow(), "mlflow")]
)
def test_a_package_that_is_not_installed(monkeypatch, writer, package):
  monkeypatch.setitem(sys.modules, package, None)
  with pytest.raises(UserError) as caught:
    Watching(writers=[writer]).check(train_steps=1)
  assert str(caught.value) == (
    f"the writer {type(writer).__name__} needs the package {package}: install "
    "transformer_zoo[watch], or take it out of WRITERS"
  )


def test_a_service_that_refuses(folder, monkeypatch):
  class Refusing(FakeWandb):
    def init(self, **keywords):
      raise RuntimeError("no key")

  monkeypatch.setitem(sys.modules, "wandb", Refusing())
  with pytest.raises(UserError) as caught:
    recorder.Recorder(folder, [WeightsAndBiases()])
  assert str(caught.value) == (
    "Weights & Biases cannot be reached (no key); log in with `wandb login`, "
    "or bind WeightsAndBiases.mode = 'offline'"
  )
