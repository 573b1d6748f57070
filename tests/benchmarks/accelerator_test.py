"""benchmarks/accelerator.py, at a scale that a CPU has done in a moment."""

import json
import pathlib
import subprocess
import sys

from flax import linen as nn
import jax
import pytest

from tests import quick_compilation
from transformer_zoo import config
from transformer_zoo.training import state

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BENCHMARKS = ROOT / "benchmarks"
DEVICES = 2
WORDS = "--sizes tiny base --batch_sizes 2 4 8 --kernels xla chunked"
# What it has to do without.
BLOCKED = """
import runpy, sys
names = {"tensorflow", "seqio", "grain", "orbax", "tensorstore", "gin",
         "scipy", "sklearn", "sentencepiece", "matplotlib", "array_record",
         "tensorboard", "tokenizers", "torch", "transformers"}
class Block:
  def find_spec(self, name, path=None, target=None):
    if name.partition(".")[0] in names:
      raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
script, *sys.argv[1:] = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
"""


@pytest.fixture
def accelerator(monkeypatch):
  """The script as a module."""
  monkeypatch.syspath_prepend(str(BENCHMARKS))
  return pytest.importorskip("accelerator")


@pytest.mark.slow
def test_a_step_needs_jax_flax_optax_and_the_core_alone(accelerator):
  work = {
    "model": {
      **accelerator.SIZES["tiny"],
      **{"vocab_size": 64, "head_dim": 8, "kernel": "chunked", "scan": True},
    },
    **{"batch_size": 1, "inputs": 8, "targets": 4, "steps": 1, "warmup": 1},
  }
  done = subprocess.run(
    [sys.executable, "-c", BLOCKED, BENCHMARKS / "accelerator_step.py"]
    + [json.dumps(work)],
    env=quick_compilation.environment(DEVICES)
    | {"PYTHONPATH": f"{ROOT}:{BENCHMARKS}"},
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  found = json.loads(done.stdout.splitlines()[-1])
  tokens = DEVICES * 12 / found["seconds_per_step"]
  assert found["tokens_per_second"] == pytest.approx(tokens)
  share = found["model_flops"] / found["seconds_per_step"]
  assert found["utilisation"] == pytest.approx(
    share / found["peak_flops"] / DEVICES
  )


@pytest.mark.slow
def test_errors_are_those_of_bfloat16(accelerator):
  """Finds a comparison of a kernel with itself, or of other parameters."""
  step = pytest.importorskip("accelerator_step")
  model = dict(accelerator._COMPARED, d_model=32, d_ff=32, head_dim=16)
  work = {"errors": 1, "inputs": 24, "targets": 12}
  found = step.errors(work | {"model": model | {"kernel": "xla"}})
  for name in ("kernel", "reference"):
    assert 1e-3 < found[name]["gradients"] < 0.1
    assert found[name]["loss"] < 1e-2
  assert found["kernel"] != found["reference"]
  exact = step.errors(work | {"model": model | {"dtype": "float32"}})
  assert exact["kernel"]["gradients"] < 1e-5


def test_the_model_is_that_of_the_configuration(accelerator):
  step = pytest.importorskip("accelerator_step")
  config.load(
    ["architectures/t5_1_1.gin", "sizes/t5_1_1_base.gin"],
    ["NUM_ENCODER_LAYERS=1", "NUM_DECODER_LAYERS=1"],
    root="MODEL",
  )
  ours = config.value("MODEL")
  sizes = accelerator.SIZES["base"] | {"num_layers": 1}
  built = step.t5_1_1(vocab_size=32128, head_dim=64, dtype="auto", **sizes)
  shapes = [
    jax.tree.map(
      lambda leaf: (leaf.value.shape, leaf.names),
      state.abstract_variables(model),
      is_leaf=lambda leaf: isinstance(leaf, nn.meta.AxisMetadata),
    )
    for model in (ours, built)
  ]
  assert shapes[0] == shapes[1]


class Measured:
  """Speeds that are made up: chunked is fastest, 8 rows do not fit."""

  def __init__(self):
    self.asked = []

  def __call__(self, module, work, seconds):
    if not work:
      return {"platform": "gpu", "device_kind": "H0", "devices": 2}
    if "errors" in work:
      of_reference = {"loss": 0.0, "gradients": 0.02}
      kernel = work["model"]["kernel"]
      found = {"loss": 1e-4, "gradients": {"wrong": 0.05}.get(kernel, 0.03)}
      return {"kernel": found, "reference": of_reference}
    self.asked.append((module, work))
    if work["batch_size"] == 8:
      return {"error": "RESOURCE_EXHAUSTED"}
    speed = work["batch_size"] * (1 if "compile" in work else 2)
    speed *= {"chunked": 1.5}.get(work["model"].get("kernel"), 1)
    speed *= {"full": 0.5}.get(work["model"].get("remat"), 1)
    found = {"tokens_per_second": speed, "seconds_per_step": 1 / speed}
    if "compile" not in work:
      found |= {"model_flops": 8, "peak_flops": 100, "utilisation": 0.5}
    return found


@pytest.fixture
def run(accelerator, tmp_path, monkeypatch, capsys):
  """Runs the search; what it asked and what the file holds."""
  versions = {"torch": "2", "transformers": "5", "jax": "0.10"}

  def version(package):
    if package not in versions:
      raise accelerator.importlib.metadata.PackageNotFoundError
    return versions[package]

  monkeypatch.setattr(accelerator.importlib.metadata, "version", version)

  def call(*more, without=()):
    for name in without:
      del versions[name]
    measured, path = Measured(), tmp_path / "found.json"
    words = [*WORDS.split(), f"--output={path}", *more]
    accelerator.run(accelerator.parse(words), measured)
    text = path.read_text() if path.exists() else "{}"
    return measured.asked, json.loads(text), capsys.readouterr().out

  return call


def test_the_fastest_is_found_and_what_fails_ends_nothing(run):
  _, found, out = run()
  assert found["hardware"]["device_kind"] == "H0"
  assert found["versions"]["jax"] == "0.10" and found["date"]
  for size in ("tiny", "base"):
    ours = found["best"][size]["ours"]
    assert ours["configuration"] == {
      "size": size,
      "batch_size": 4,
      "attention": "chunked",
      "remat": "none",
    }
    assert ours["tokens_per_second"] == 12
    assert found["best"][size]["peer"]["tokens_per_second"] == 4
    assert found["best"][size]["ours_over_peer"] == 3
    # Its work is that of one of the two devices.
    assert found["best"][size]["peer"]["utilisation"] == 8 / 2 * 4 / 100
  errors = [entry for entry in found["results"] if "error" in entry]
  assert {e["configuration"]["batch_size"] for e in errors} == {8}
  assert "batch_size 8, attention chunked, remat full: RESOURCE_EXHAUS" in out


def test_every_way_is_tried_until_it_does_not_fit(run):
  asked, *_ = run()
  ours = [
    (w["model"]["kernel"], w["model"]["remat"], w["batch_size"])
    for module, w in asked
    if module == "accelerator_step" and w["model"]["d_model"] == 768
  ]
  assert ours == [
    ("xla", "none", 2),
    ("chunked", "none", 2),
    *[("chunked", "none", rows) for rows in (4, 8)],
    *[("chunked", "minimal", rows) for rows in (2, 4, 8)],
    *[("chunked", "full", rows) for rows in (2, 4, 8)],
  ]
  peers = [w["compile"] for module, w in asked if "transformers" in module]
  assert peers == 2 * [*3 * [False], *3 * [True]]


def test_a_kernel_that_computes_something_else_is_not_measured(run):
  asked, found, out = run("--kernels", "xla", "wrong")
  assert "compared wrong: wrong: gradients 5.0e-02 (the reference 2.0e-" in out
  assert "compared xla: right" in out
  kernels = {work["model"].get("kernel") for _, work in asked}
  assert kernels == {"xla", None}  # PyTorch's model has none.
  compared = {
    entry["configuration"]["compared"]: "error" in entry
    for entry in found["results"]
    if "compared" in entry["configuration"]
  }
  assert compared == {"xla": False, "wrong": True}


def test_without_torch_it_says_so(run):
  asked, found, out = run(without=["torch"])
  assert "PyTorch's transformers is not installed: measured without it" in out
  assert not [module for module, _ in asked if "transformers" in module]
  assert "ours_over_peer" not in found["best"]["base"]


def test_no_time_is_no_measurement(run):
  asked, found, out = run("--budget_seconds=0")
  assert asked == [] and found == {}
  assert "base: the time is over, and not all was measured" in out


def test_a_script_that_breaks_is_told_in_a_line(accelerator):
  found = accelerator.measure_apart("accelerator_step", {"model": {}}, 100)
  assert found == {
    "error": "TypeError: t5_1_1() missing 6 required keyword-only arguments: "
    "'vocab_size', 'd_model', 'd_ff', 'num_heads', 'head_dim', and 'num_layers'"
  }
  assert accelerator.measure_apart("accelerator_step", {}, 0.001) == {
    "error": "not done after 0 s"
  }
