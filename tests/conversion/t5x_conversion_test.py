"""`zoo convert` and T5X: steps, moments, sentinels, what is refused."""

import pathlib

from flax import traverse_util
import pytest

from tests import tiny_models
from tests import tiny_t5
from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.conversion import sources
from transformer_zoo.conversion.convert import convert
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.interop.t5x import adafactor
from transformer_zoo.interop.t5x import checkpoints
from transformer_zoo.tensors.lazy_tensors import Tensor

VOCABULARY = pathlib.Path(__file__).parents[2] / "tasks/miniature"
MODEL = {
  "gin_files": ["architectures/t5_1_1.gin"],
  "bindings": [f"{name}={value}" for name, value in tiny_t5.TINY.items()],
}


@pytest.fixture(name="there")
def write_checkpoint(tmp_path):
  """A T5X checkpoint of a tiny T5.1.1 after 7 steps, and its moments."""
  arrays = traverse_util.flatten_dict(
    tiny_models.random_parameters(tiny_t5.build("t5_1_1")), sep="/"
  )
  tensors = {name: Tensor.of(array) for name, array in arrays.items()}
  moments = {f"{name}/v": tensor for name, tensor in tensors.items()}
  return checkpoints.write_checkpoint(
    tmp_path / "there", tensors, step=7, moments=moments
  )


@pytest.mark.parametrize("fits", [True, False])
def test_moments_that_t5x_would_factor_are_left(
  tmp_path, there, monkeypatch, fits
):
  convert(there, tmp_path / "run", **MODEL)
  if not fits:
    monkeypatch.setattr(adafactor, "MIN_DIM_SIZE_TO_FACTOR", 4)
  told = []
  convert(tmp_path / "run", tmp_path / "again", to="t5x", report=told.append)
  found = checkpoints.open_checkpoint(tmp_path / "again")
  assert found.has_optimizer_state == fits
  assert told[0].startswith("without the optimizer's state: T5X keeps") != fits


def test_moments_that_t5x_would_factor_in_scanned_layers_are_left(
  tmp_path, there
):
  convert(there, tmp_path / "run", **MODEL)
  told = []
  convert(
    tmp_path / "run",
    tmp_path / "again",
    to="t5x",
    scanned=True,
    report=told.append,
  )
  assert told[0].startswith("without the optimizer's state: T5X keeps")
  found = checkpoints.open_checkpoint(tmp_path / "again")
  assert found.step == 7
  assert not found.has_optimizer_state


def test_the_step_stays_without_an_optimizer(tmp_path, there):
  more = {"vocabulary_size": 2_048, "report": lambda sentence: None}
  convert(there, tmp_path / "run", **MODEL, **more)
  convert(tmp_path / "run", tmp_path / "again", to="t5x")
  again = checkpoints.open_checkpoint(tmp_path / "again")
  assert again.step == 7
  assert not again.has_optimizer_state


def test_sentinels_of_the_vocabulary_that_goes_along(tmp_path, there):
  options = {**MODEL, "extra_ids": 300, "vocabulary_size": 2_048}
  with pytest.raises(
    UserError, match="--extra_ids is 300, which means nothing"
  ):
    convert(there, tmp_path / "run", **options)
  model = VOCABULARY / "vocabulary.model"
  convert(there, tmp_path / "run", **options, vocabulary_path=str(model))
  found = Vocabulary(tmp_path / "run" / "huggingface")
  assert found.size == Vocabulary(model, 0).size + 300


@pytest.mark.parametrize("name", ["model.ckpt-1000", "."])
def test_a_checkpoint_of_tensorflow_is_named(tmp_path, name):
  (tmp_path / "model.ckpt-1000.index").touch()
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"')
  for open_it in (sources.open_source, checkpoint_sources.locate):
    with pytest.raises(UserError, match="is a checkpoint of TensorFlow, as of"):
      open_it(tmp_path / name)
