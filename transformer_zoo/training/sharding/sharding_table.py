"""A table of the layout: axes of each parameter, bytes, replication."""

import dataclasses
import math

import jax

from transformer_zoo.training.program import TrainProgram

# A replicated parameter of more bytes is pointed out.
LARGE = 10**6


@dataclasses.dataclass(frozen=True)
class Row:
  """One parameter.

  Attributes:
    path: The name of the parameter.
    shape: The shape of the whole parameter.
    axes: logical axes.
    mesh_axes: The mesh axes over which each axis is split; `-` for none.
    device_bytes: The number of bytes on one device.
    replicated: whether every device has all of it, and it is large.
  """

  path: str
  shape: tuple[int, ...]
  axes: tuple[str | None, ...]
  mesh_axes: tuple[str, ...]
  device_bytes: int
  replicated: bool


def rows(program: TrainProgram) -> list[Row]:
  """One row per parameter of a program."""
  params = program.abstract_state.params
  logical = [leaf.names for leaf in _boxes(program.boxed_params)]
  return [
    _row(path, leaf, names)
    for (path, leaf), names in zip(
      jax.tree_util.tree_leaves_with_path(params), logical, strict=True
    )
  ]


def device_bytes(tree) -> int:
  """Bytes on one device of arrays with shardings."""
  return sum(_device_bytes(leaf) for leaf in jax.tree.leaves(tree))


def _row(path, leaf, names) -> Row:
  spec = (*leaf.sharding.spec, *(None,) * leaf.ndim)[: leaf.ndim]
  size = _device_bytes(leaf)
  return Row(
    path=jax.tree_util.keystr(path, simple=True, separator="/"),
    shape=leaf.shape,
    axes=tuple(names),
    mesh_axes=tuple(map(_written, spec)),
    device_bytes=size,
    replicated=(
      leaf.sharding.is_fully_replicated
      and leaf.sharding.num_devices > 1
      and size > LARGE
    ),
  )


def _boxes(boxed) -> list:
  return jax.tree.leaves(boxed, is_leaf=lambda leaf: hasattr(leaf, "names"))


def _device_bytes(leaf) -> int:
  shard = leaf.sharding.shard_shape(leaf.shape)
  return math.prod(shard) * leaf.dtype.itemsize


def _written(mesh_axes) -> str:
  if isinstance(mesh_axes, tuple):
    return "+".join(mesh_axes) or "-"
  return mesh_axes or "-"
