"""Modifications of T5 beside Mesh TensorFlow, in which they were compared.

What it computes is recorded for the fast tests by

  PYTHONPATH=.venv/mesh_tensorflow \
    .venv/bin/python -m tests.oracles.mesh_tensorflow.record NAME ...
"""

from concurrent import futures
import importlib.util
import multiprocessing

from flax import traverse_util
import pytest

from tests import tiny_t5
from tests.golden import mesh_tensorflow as golden
from tests.golden import variants
from tests.oracles.mesh_tensorflow import run

LOGITS_TOLERANCE = 2e-5
GRADIENT_TOLERANCE = 1e-4
# Scanned, a model's layers are compiled once.
outputs = variants.of_scanned(variants.outputs_with_costs, gradient=True)


@pytest.fixture(scope="module")
def original():
  """Returns a function from a name and its inputs to the original's outputs."""
  if importlib.util.find_spec("mesh_tensorflow") is None:
    pytest.skip("no mesh_tensorflow: `make test-oracles` installs it")
  with futures.ProcessPoolExecutor(
    max_workers=1, mp_context=multiprocessing.get_context("spawn")
  ) as process:
    yield lambda *given: process.submit(run.outputs, *given).result()


@pytest.mark.parametrize("name", golden.VARIANTS)
def test_logits_loss_and_gradient(name, original, report):
  model, params, batch = golden.setting(name)
  expected = original(name, traverse_util.flatten_dict(params, sep="/"), batch)
  found = outputs(model, params, batch)
  assert set(found) == set(expected)
  differences = {
    entry: tiny_t5.largest_difference(found[entry], expected[entry])
    for entry in expected
  }
  logits, loss = differences.pop("logits"), differences.pop("loss")
  worst = max(differences, key=differences.get)
  report("logits", logits)
  report("loss", loss)
  report(worst, differences[worst])
  assert logits < LOGITS_TOLERANCE
  assert loss < 1e-5
  assert differences[worst] < GRADIENT_TOLERANCE, worst
