"""Where arrays lie: a mesh of devices and rules from logical to mesh axes.

One program runs on all devices; XLA's SPMD partitioner inserts the collectives
that the layout implies.
"""

from collections.abc import Iterator
import contextlib
import dataclasses

from flax import linen as nn
import gin
import jax
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
import numpy as np

from transformer_zoo import axes
from transformer_zoo.errors import UserError

Rules = tuple[tuple[str, str | None], ...]

# T5X's rules with one-dimensional parameter and activation partitioning.
STANDARD_RULES: Rules = (
  ("batch", "data"),
  ("vocab", "model"),
  ("mlp", "model"),
  ("heads", "model"),
  ("joined_kv", "model"),
  ("length", None),
  ("embed", None),
  ("kv", None),
  ("relpos_buckets", None),
  ("abspos_buckets", None),
  ("layers", None),
  ("lora_rank", None),
  ("adapter", None),
  ("prompt", None),
)


@gin.register
@dataclasses.dataclass(frozen=True)
class Partitioning:
  """A data x model mesh and the rules that lay arrays out on it.

  Attributes:
    num_partitions: devices along the `model` axis, over which each copy of
      the model is split; the others are along `data`.
    rules: ordered (logical axis, mesh axis or None); the first rule whose mesh
      axis is still free is taken.
  """

  num_partitions: int = 1
  rules: Rules = STANDARD_RULES

  def __post_init__(self):
    for logical, mesh_axis in self.rules:
      axes.names(logical)
      if mesh_axis not in ("data", "model", None):
        raise UserError(
          f"partitioning rule for {logical!r} names mesh axis {mesh_axis!r}; "
          "allowed: 'data', 'model' or None"
        )

  def mesh(self) -> jax.sharding.Mesh:
    """The mesh over all devices of all processes.

    Raises:
      UserError: the devices do not divide by `num_partitions`.
    """
    count = jax.device_count()
    if self.num_partitions < 1 or count % self.num_partitions:
      divisors = [str(d) for d in range(1, count + 1) if count % d == 0]
      raise UserError(
        f"num_partitions={self.num_partitions} does not fit {count} "
        f"device{'s' * (count > 1)}; choose one of {', '.join(divisors)}"
      )
    # Auto: with Explicit axes (the default) logical constraints fail.
    return jax.make_mesh(
      (count // self.num_partitions, self.num_partitions),
      ("data", "model"),
      axis_types=(jax.sharding.AxisType.Auto,) * 2,
    )

  @contextlib.contextmanager
  def activate(self, mesh: jax.sharding.Mesh) -> Iterator[None]:
    """Puts mesh and rules in force for what is traced inside.

    Only `jax.set_mesh` makes Linen emit sharding constraints; `with mesh:`
    drops them silently.
    """
    with jax.set_mesh(mesh), nn.logical_axis_rules(self.rules):
      yield

  def check(self, mesh: jax.sharding.Mesh, boxed_params, batch_size: int):
    """Checks that parameters and batch divide over the mesh.

    Raises:
      UserError: naming the axis, its size, and the sizes that fit.
    """
    if batch_size % mesh.shape["data"]:
      raise UserError(
        f"BATCH_SIZE={batch_size} does not divide over the mesh's data axis "
        f"of {mesh.shape['data']}; choose a multiple of {mesh.shape['data']}"
      )
    mesh_axes = dict(reversed(self.rules))
    for path, leaf in jax.tree_util.tree_leaves_with_path(
      boxed_params, is_leaf=lambda x: isinstance(x, nn.meta.AxisMetadata)
    ):
      for size, logical in zip(leaf.value.shape, leaf.names, strict=True):
        parts = mesh.shape.get(mesh_axes.get(logical), 1)
        if size % parts:
          fits = [str(d) for d in range(1, size + 1) if size % d == 0][:8]
          name = jax.tree_util.keystr(path, simple=True, separator="/")
          raise UserError(
            f"axis {logical!r} of {name} has size {size}, which does not "
            f"divide over {parts} partitions; choose num_partitions from "
            f"{', '.join(fits)}"
          )

  def shardings(self, mesh: jax.sharding.Mesh, boxed_params, state_shapes):
    """Shardings of a whole state.

    Args:
      mesh: the mesh.
      boxed_params: parameters (or their shapes) with logical axes.
      state_shapes: a `TrainState` of shapes, or its parameters alone.

    Returns:
      A tree like `state_shapes` of `NamedSharding`.
    """
    named = {
      _names_of(path): leaf.names
      for path, leaf in jax.tree_util.tree_leaves_with_path(
        boxed_params, is_leaf=lambda x: isinstance(x, nn.meta.AxisMetadata)
      )
    }
    longest = max(len(path) for path in named)

    def sharding(path, leaf):
      logical = _state_axes(_names_of(path), leaf.ndim, named, longest)
      spec = nn.logical_to_mesh_axes(logical, self.rules)
      return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(sharding, state_shapes)


# Every device holds the whole model and its rows of the batch.
ONE_COPY_PER_DEVICE = Partitioning()


def abstract(shapes, shardings):
  """Shapes with their shardings, as a checkpoint is restored to."""
  return jax.tree.map(
    lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
    shapes,
    shardings,
  )


def _names_of(path) -> tuple[str, ...]:
  """Keys and fields on the way to a leaf, as strings."""
  return tuple(
    str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))))
    for key in path
  )


def _state_axes(path, ndim, named, longest) -> tuple[str | None, ...]:
  """Logical axes of a leaf of the state: those of the parameter in its path.

  A leaf of the optimizer's state lies on a path that contains the path of its
  parameter; scalars and what matches no parameter are replicated.
  """
  field = path[-1]
  for start in range(len(path)):
    for stop in range(min(len(path), start + longest), start, -1):
      logical = named.get(path[start:stop])
      if logical is None:
        continue
      if field == "v_row":
        logical = logical[:-1]
      elif field == "v_col":
        logical = logical[:-2] + logical[-1:]
      if len(logical) == ndim:
        return logical
  return (None,) * ndim


def put_batch(
  batch: dict[str, np.ndarray], mesh: jax.sharding.Mesh
) -> dict[str, jax.Array]:
  """Lays this process's rows of a global batch over the mesh's data axis."""
  sharding = NamedSharding(mesh, PartitionSpec("data"))
  return {
    key: jax.make_array_from_process_local_data(sharding, value)
    for key, value in batch.items()
  }


def put_whole_batch(
  batch: dict[str, np.ndarray], mesh: jax.sharding.Mesh
) -> dict[str, jax.Array]:
  """Lays a batch that every process has whole over the mesh's data axis."""
  sharding = NamedSharding(mesh, PartitionSpec("data"))
  return {
    key: jax.make_array_from_callback(
      value.shape, sharding, lambda index, value=value: value[index]
    )
    for key, value in batch.items()
  }


def fetch_whole(array: jax.Array) -> np.ndarray:
  """The array on the host of every process, whatever its layout."""
  if jax.process_count() > 1:
    array = multihost_utils.process_allgather(array, tiled=True)
  return np.asarray(array)


def is_same_everywhere(number: int) -> bool:
  """Whether every process has the same number."""
  if jax.process_count() == 1:
    return True
  numbers = multihost_utils.process_allgather(np.asarray(number))
  return bool((numbers == number).all())
