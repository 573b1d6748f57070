"""The mean of a run's last checkpoints."""

import numpy as np
import pytest

from transformer_zoo.checkpoints import averaging
from transformer_zoo.errors import UserError
from transformer_zoo.tensors.lazy_tensors import Tensor


def tensors(value, shape=(2, 3), name="a/kernel"):
  return {name: Tensor.of(np.full(shape, value, np.float32))}


@pytest.fixture
def run(tmp_path):
  for step in (5, 10, 20, 100):
    (tmp_path / "checkpoints" / str(step) / "state").mkdir(parents=True)
  return tmp_path


def test_the_last_steps_by_number(run):
  found = averaging.last_steps(run, 3)
  assert [step.name for step in found] == ["10", "20", "100"]


@pytest.mark.parametrize(
  ("number", "sentence"),
  [(5, "has 4; choose fewer"), (0, "it must be 1 or more")],
)
def test_too_many_and_too_few(run, number, sentence):
  with pytest.raises(UserError, match=sentence):
    averaging.last_steps(run, number)


def test_a_checkpoint_and_those_before_it(run):
  checkpoint = run / "checkpoints" / "20"
  found = averaging.last_steps(checkpoint, 2)
  assert [step.name for step in found] == ["10", "20"]
  with pytest.raises(UserError, match="has 3; choose fewer"):
    averaging.last_steps(checkpoint, 4)


def test_the_mean_is_that_of_numpy():
  random = np.random.default_rng(0)
  arrays = [random.standard_normal((4, 5), np.float32) for _ in range(8)]
  found = averaging.mean([{"a": Tensor.of(array)} for array in arrays])["a"]
  assert found.dtype == np.float32
  np.testing.assert_allclose(found.read(), np.mean(arrays, axis=0), rtol=1e-6)


@pytest.mark.parametrize(
  "other", [tensors(1.0, (3, 2)), tensors(1.0, name="b/kernel")]
)
def test_different_models_have_no_mean(other):
  with pytest.raises(UserError, match="of different models"):
    averaging.mean([tensors(0.0), other])
