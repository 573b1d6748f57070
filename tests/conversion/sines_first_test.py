"""Sinusoids that alternate, and those that stand side by side."""

import types

from flax import traverse_util
import pytest

from tests import programs
from tests import tiny_models
from tests import tiny_t5
from tests.golden import families
from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.conversion import exported_directory
from transformer_zoo.errors import UserError
from transformer_zoo.runs.loading import restoration
from transformer_zoo.runs.loading.initial_checkpoint import InitialCheckpoint
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state

SIZES = {"HEAD_DIM": 6}


def with_parameters(*files, bindings=(), **sizes):
  model, _ = tiny_models.build(*files, bindings=bindings, **SIZES, **sizes)
  params = families.weights(model)
  flat = traverse_util.flatten_dict(params, sep="/")
  return model, {name: Tensor.of(array) for name, array in flat.items()}


def logits(model, parameters):
  params = traverse_util.unflatten_dict(
    {name: tensor.read() for name, tensor in parameters.items()}, sep="/"
  )
  batch = families.batch_for(model)
  return programs.apply(model, {"params": params}, batch, method="all_logits")[
    "tokens"
  ]


@pytest.mark.slow
@pytest.mark.parametrize(
  ("files", "sizes"),
  [
    (["transformer_2017"], {}),
    # Unlike matrices, of whom both sides may be d_model wide.
    (["transformer_2017"], {"MLP_DIM": 24}),
    (["lm", "positions/sinusoidal.gin", "softmax/untied.gin"], {}),
    (["t5_1_1", "positions/sinusoidal.gin", "connections/parallel.gin"], {}),
  ],
)
def test_the_model_computes_the_same(files, sizes):
  model, parameters = with_parameters(*files, **sizes)
  expected = logits(model, parameters)
  changed, reordered = exported_directory.with_sines_first(model, parameters)
  found = logits(changed, reordered)
  assert tiny_t5.largest_difference(found, expected) < 2e-6
  # The order matters: other logits come of the same parameters.
  assert tiny_t5.largest_difference(logits(changed, parameters), expected) > 0.1


@pytest.mark.parametrize(
  ("files", "bindings"),
  [
    (["t5_1_1"], ()),
    (["transformer_2017"], ("SinusoidalPositions.interleaved=False",)),
    # The two sides share what has d_model: there is no order for both.
    (
      ["transformer_2017"],
      (
        "encoder/Transformer.position_embedder=@encoder/SinusoidalPositions()",
        "encoder/SinusoidalPositions.interleaved=False",
      ),
    ),
  ],
)
def test_others_stay_as_they_are(files, bindings):
  model, parameters = with_parameters(*files, bindings=bindings)
  assert exported_directory.with_sines_first(model, parameters) == (
    model,
    parameters,
  )


def test_the_transformer_of_2017_becomes_a_marian(tmp_path):
  """It is read again as one, and is not taken for what it was."""
  model, parameters = with_parameters("transformer_2017")
  exported_directory.write(tmp_path, model, parameters)
  source = checkpoint_sources.open_source(tmp_path)
  again = source.make_model()
  assert not again.encoder.position_embedder.interleaved
  found = logits(again, source.tensors)
  assert tiny_t5.largest_difference(found, logits(model, parameters)) < 2e-6
  boxed = state.abstract_variables(model)
  no_text = types.SimpleNamespace(size=0)
  with pytest.raises(UserError, match="position_embedder.interleaved"):
    restoration.open_initial(
      InitialCheckpoint(str(tmp_path)), model, boxed, [no_text]
    )


def test_nothing_is_read_before_it_is_written():
  def read():
    raise AssertionError

  model, parameters = with_parameters("transformer_2017")
  unread = {
    name: Tensor(tensor.shape, tensor.dtype, read)
    for name, tensor in parameters.items()
  }
  _, reordered = exported_directory.with_sines_first(model, unread)
  assert {n: t.shape for n, t in reordered.items()} == {
    n: t.shape for n, t in parameters.items()
  }
