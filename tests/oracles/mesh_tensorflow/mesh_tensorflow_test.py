"""What Mesh TensorFlow computes of modifications of T5 is what is recorded.

tests/architectures/mesh_tensorflow_golden_test.py compares our models with all
records; one modification of each kind is computed anew here. All are recorded
by

  PYTHONPATH=.venv/mesh_tensorflow \
    .venv/bin/python -m tests.oracles.mesh_tensorflow.record NAME ...
"""

from concurrent import futures
import importlib.util
import multiprocessing

from flax import traverse_util
import pytest

from tests.golden import mesh_tensorflow as golden
from tests.golden import variants
from tests.oracles.mesh_tensorflow import run


@pytest.fixture(scope="module")
def original():
  """Returns a function from a name and its inputs to the original's outputs."""
  if importlib.util.find_spec("mesh_tensorflow") is None:
    pytest.skip("no mesh_tensorflow: `make test-oracles` installs it")
  with futures.ProcessPoolExecutor(
    max_workers=1, mp_context=multiprocessing.get_context("spawn")
  ) as process:
    yield lambda *given: process.submit(run.outputs, *given).result()


@pytest.mark.parametrize("name", golden.ONE_OF_EACH_KIND)
def test_logits_loss_and_gradient_are_those_that_are_recorded(name, original):
  _, params, batch = golden.setting(name)
  found = original(name, traverse_util.flatten_dict(params, sep="/"), batch)
  variants.assert_recorded(golden.path(name), params, batch, found)
