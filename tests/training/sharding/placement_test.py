"""Tensors reach the right places of a mesh, one at a time."""

import functools

from flax import linen as nn
from flax import traverse_util
import jax
import ml_dtypes
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo import parameter_names
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding import placement
from transformer_zoo.training.sharding.partitioning import Partitioning

# Sizes that divide over four devices.
SIZES = {"MLP_DIM": 16, "VOCAB_SIZE": 48}


@functools.cache
def lying(partitioning, **macros):
  """A tiny T5's parameters as they lie on a mesh."""
  mesh = partitioning.mesh()
  boxed = state_lib.abstract_variables(
    tiny_models.build("t5_1_1", **{**SIZES, **macros})[0]
  )
  shapes = nn.unbox(boxed)
  shardings = partitioning.shardings(mesh, boxed, shapes)
  return partitioning_lib.abstract(shapes, shardings)


@pytest.fixture(params=[1, 4], ids=["copies", "split"], scope="module")
def abstract(request):
  """Returns a function: parameters as they lie on a mesh."""
  partitioning = Partitioning(num_partitions=request.param)
  return functools.partial(lying, partitioning)


@functools.cache
def _parameters() -> dict:
  return tiny_models.random_parameters(tiny_models.build("t5_1_1", **SIZES)[0])


def looped_parameters() -> dict:
  """Arrays of the caller's own."""
  return jax.tree.map(np.copy, _parameters())


def tensors_of(params, dtype=np.float32) -> dict[str, Tensor]:
  return {
    name: Tensor.of(array.astype(dtype))
    for name, array in traverse_util.flatten_dict(params, sep="/").items()
  }


def drawn(abstract_params):
  """Arrays as `abstract_params` says, of the tree's path alone."""
  return jax.tree_util.tree_map_with_path(
    lambda path, leaf: jax.device_put(
      np.full(leaf.shape, len(str(path)), leaf.dtype), leaf.sharding
    ),
    abstract_params,
  )


def assert_equal(placed, expected, abstract_params):
  assert jax.tree.structure(placed) == jax.tree.structure(abstract_params)
  for array, wanted, leaf in zip(
    *map(jax.tree.leaves, (placed, expected, abstract_params)), strict=True
  ):
    assert array.dtype == leaf.dtype
    assert array.sharding.is_equivalent_to(leaf.sharding, array.ndim)
    np.testing.assert_array_equal(np.asarray(array), wanted)


@pytest.mark.parametrize("scanned", [False, True])
def test_layers_by_themselves_fill_looped_and_scanned_models(abstract, scanned):
  params = looped_parameters()
  wanted = abstract(SCAN_LAYERS=scanned)
  placed = placement.place(tensors_of(params), wanted)
  expected = tiny_models.stack_layers(params) if scanned else params
  assert_equal(placed, expected, wanted)


def test_layers_by_themselves_reach_their_stages():
  params = looped_parameters()
  wanted = lying(Partitioning(num_stages=2), SCAN_LAYERS=True)
  placed = placement.place(tensors_of(params), wanted)
  assert_equal(placed, tiny_models.stack_layers(params), wanted)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_smaller_dtypes_are_widened(abstract, dtype):
  params = looped_parameters()
  wanted = abstract()
  placed = placement.place(tensors_of(params, dtype), wanted)
  narrow = jax.tree.map(lambda x: x.astype(dtype).astype(np.float32), params)
  assert_equal(placed, narrow, wanted)


@pytest.mark.parametrize("rows", [40, 48, 52])
def test_tables_of_other_lengths(abstract, rows):
  """More rows are cut, missing ones stay fresh, along either axis."""
  tensors = tensors_of(looped_parameters())
  table = np.random.RandomState(0).standard_normal((rows, 24))
  tensors["token_embedder/embedding"] = Tensor.of(table.astype(np.float32))
  tensors["decoder/logits_dense/kernel"] = Tensor.of(table.T.copy())
  wanted = abstract()
  fresh = drawn(wanted)
  expected = np.array(fresh["token_embedder"]["embedding"])
  expected[:rows] = table[:48]
  unread = np.array(fresh["decoder"]["logits_dense"]["kernel"])[:, rows:]
  placed = placement.place(tensors, wanted, fresh)
  np.testing.assert_array_equal(placed["token_embedder"]["embedding"], expected)
  kernel = np.array(placed["decoder"]["logits_dense"]["kernel"])
  np.testing.assert_array_equal(kernel[:, :rows], expected.T[:, :rows])
  np.testing.assert_array_equal(kernel[:, rows:], unread)


@pytest.mark.parametrize("scanned", [False, True])
def test_what_is_not_read_stays_as_it_was(abstract, scanned):
  params = looped_parameters()
  tensors = tensors_of(params)
  for name in tensors:
    if "layers_1/mlp" in name or "decoder_norm" in name:
      tensors[name] = None
  wanted = abstract(SCAN_LAYERS=scanned)
  fresh = drawn(wanted)
  values = jax.tree.map(np.array, fresh)
  placed = jax.tree.map(np.array, placement.place(tensors, wanted, fresh))
  np.testing.assert_array_equal(
    placed["decoder"]["decoder_norm"]["scale"],
    values["decoder"]["decoder_norm"]["scale"],
  )

  def layer(tree, number):
    stack = tree["encoder"]
    if not scanned:
      return stack[f"layers_{number}"]["mlp"]["wo"]["kernel"]
    return stack["layers"]["mlp"]["wo"]["kernel"][number]

  np.testing.assert_array_equal(layer(placed, 1), layer(values, 1))
  np.testing.assert_array_equal(
    layer(placed, 0), params["encoder"]["layers_0"]["mlp"]["wo"]["kernel"]
  )


def test_fresh_parameters_are_freed_as_they_are_replaced(abstract):
  wanted = abstract()
  fresh = drawn(wanted)
  freed = []

  def watched(name, tensor):
    def read():
      freed.append(sum(leaf.is_deleted() for leaf in jax.tree.leaves(fresh)))
      return tensor.read()

    return Tensor(tensor.shape, tensor.dtype, read)

  tensors = tensors_of(looped_parameters())
  placement.place({n: watched(n, t) for n, t in tensors.items()}, wanted, fresh)
  assert freed == list(range(len(tensors)))


@pytest.mark.parametrize("scanned", [False, True])
def test_tensors_are_read_once_in_the_order_in_which_they_are_given(
  abstract, scanned
):
  """As a file has them: layers of one array after each other."""
  tensors = tensors_of(looped_parameters())
  given = sorted(tensors, key=parameter_names.pattern_of, reverse=True)
  read = []

  def watched(name):
    def note():
      read.append(name)
      return tensors[name].read()

    return Tensor(tensors[name].shape, tensors[name].dtype, note)

  placement.place(
    {name: watched(name) for name in given}, abstract(SCAN_LAYERS=scanned)
  )
  assert read == given


def test_the_arrays_are_not_the_tensors_memory(abstract):
  """The optimizer writes into them, or the caller's array may change."""
  wanted = abstract()
  params = looped_parameters()
  placed = placement.place(tensors_of(params), wanted)
  advance = jax.jit(
    lambda tree: jax.tree.map(lambda x: x + 1.0, tree), donate_argnums=0
  )
  copy = jax.tree.map(np.array, params)
  for array in jax.tree.leaves(params):
    array += 7.0
  for _ in range(3):
    placed = advance(placed)
  for array, expected in zip(
    *map(jax.tree.leaves, (placed, copy)), strict=True
  ):
    np.testing.assert_array_equal(np.asarray(array), expected + 1 + 1 + 1)


def test_names_and_logical_axes_of_a_scanned_model():
  looped, scanned = (
    placement.parameters_of(
      state_lib.abstract_variables(
        tiny_models.build("t5_1_1", SCAN_LAYERS=scan)[0]
      )
    )
    for scan in (False, True)
  )
  assert looped == scanned
  assert looped["decoder/layers_1/mlp/wo/kernel"] == (
    (36, 24),
    ("mlp", "embed"),
    np.float32,
  )
  assert looped["token_embedder/embedding"].axes == ("vocab", "embed")
