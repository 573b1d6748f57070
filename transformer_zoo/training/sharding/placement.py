"""Tensors of a checkpoint, laid out on the mesh one after the other."""

from collections.abc import Mapping, Sequence
import typing
from typing import Any

from flax import linen as nn
import jax
import numpy as np

from transformer_zoo import parameter_names
from transformer_zoo.parameter_names import Parameter

# A run from scratch imports no part of `interop`.
if typing.TYPE_CHECKING:
  from transformer_zoo.tensors.lazy_tensors import Tensor

# (start, stop) along each axis: what a device has of an array.
_Box = tuple[tuple[int, int], ...]


def parameters_of(boxed_params) -> dict[str, Parameter]:
  """The parameters of a model by name, every layer by itself.

  Args:
    boxed_params: parameters (or their shapes) with logical axes.
  """
  found = {}
  for path, leaf in jax.tree_util.tree_leaves_with_path(
    boxed_params, is_leaf=lambda x: isinstance(x, nn.meta.AxisMetadata)
  ):
    name = _name(path)
    own = 1 if parameter_names.is_stacked(name) else 0
    parameter = Parameter(
      leaf.value.shape[own:], leaf.names[own:], leaf.value.dtype
    )
    for layer in parameter_names.names_in(name, leaf.value.shape):
      found[layer] = parameter
  return found


def shapes(tree) -> dict[str, tuple[int, ...]]:
  """Shapes of the arrays of a state by name, every layer by itself."""
  found = {}
  for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
    name = _name(path)
    own = leaf.shape[1:] if parameter_names.is_stacked(name) else leaf.shape
    found.update(dict.fromkeys(parameter_names.names_in(name, leaf.shape), own))
  return found


def place(
  tensors: "Mapping[str, Tensor | None]", abstract_params, fresh=None
) -> Any:
  """Reads parameters, one after the other, into the devices' memory.

  The host holds no more than what its devices have of one parameter, besides
  the tensor that is being read.

  Args:
    tensors: The tensors by name, in the order in which they are read, each
      layer by itself whether the model scans layers or not. A tensor shorter
      than the parameter along an axis fills the first places there, a longer
      one is cut; None reads nothing.
    abstract_params: shapes, dtypes and shardings of the parameters.
    fresh: parameters like those, from which comes what is not read. They are
      used up: what is read takes their place in memory.

  Returns:
    A tree like `abstract_params` of arrays.
  """
  leaves, structure = jax.tree_util.tree_flatten_with_path(abstract_params)
  before = [None] * len(leaves) if fresh is None else jax.tree.leaves(fresh)
  order = {name: place for place, name in enumerate(tensors)}
  names = [
    parameter_names.names_in(_name(path), leaf.shape) for path, leaf in leaves
  ]
  placed = [*before]
  for i in sorted(range(len(leaves)), key=lambda i: order[names[i][0]]):
    path, leaf = leaves[i]
    parts = [tensors[name] for name in names[i]]
    if any(parts):
      stacked = parameter_names.is_stacked(_name(path))
      placed[i] = _read(leaf, parts, before[i], stacked)
      if before[i] is not None:
        before[i].delete()
  return jax.tree.unflatten(structure, placed)


def _read(
  leaf: jax.ShapeDtypeStruct,
  parts: "Sequence[Tensor | None]",
  fresh: jax.Array | None,
  stacked: bool,
) -> jax.Array:
  shape = leaf.shape[1:] if stacked else leaf.shape
  whole = all(part is not None and part.shape == shape for part in parts)
  blocks = _blocks(leaf, None if whole else fresh)
  for layer, part in enumerate(parts):
    if part is None:
      continue
    array = part.read()
    for box, block in blocks.items():
      if not stacked:
        _fill(block, box, array)
      elif box[0][0] <= layer < box[0][1]:
        _fill(block[layer - box[0][0], ...], box[1:], array)
  placed = jax.make_array_from_callback(
    leaf.shape, leaf.sharding, lambda index: blocks[_box(index, leaf.shape)]
  )
  return jax.block_until_ready(placed)  # the host's memory is free again


def _blocks(
  leaf: jax.ShapeDtypeStruct, fresh: jax.Array | None
) -> dict[_Box, np.ndarray]:
  """The parts of an array on this process's devices: box -> numbers."""
  if fresh is not None:
    return {
      _box(shard.index, leaf.shape): np.array(shard.data)
      for shard in fresh.addressable_shards
    }
  return {
    box: np.empty([stop - start for start, stop in box], leaf.dtype)
    for box in {
      _box(index, leaf.shape)
      for index in leaf.sharding.addressable_devices_indices_map(
        leaf.shape
      ).values()
    }
  }


def _fill(block: np.ndarray, box: _Box, array: np.ndarray) -> None:
  """Writes what `array` has of a box, widened to the block's dtype."""
  piece = array[tuple(slice(start, stop) for start, stop in box)]
  block[tuple(map(slice, piece.shape))] = piece


def _box(index: tuple[slice, ...], shape: Sequence[int]) -> _Box:
  return tuple(
    part.indices(size)[:2] for part, size in zip(index, shape, strict=True)
  )


def _name(path) -> str:
  return jax.tree_util.keystr(path, simple=True, separator="/")
