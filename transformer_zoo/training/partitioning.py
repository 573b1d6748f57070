"""Where arrays lie: a mesh of devices and rules from logical to mesh axes.

One program runs on all devices; XLA's SPMD partitioner inserts the collectives
that the layout implies.
"""

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import math

from flax import linen as nn
import gin
import jax
from jax.experimental import mesh_utils
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
import numpy as np

from transformer_zoo import axes
from transformer_zoo.errors import UserError

MESH_AXES = ("data", "fsdp", "model")
# Over these lie the rows of a batch.
BATCH_AXES = ("data", "fsdp")

MeshAxes = str | tuple[str, ...] | None
Rules = tuple[tuple[str, MeshAxes], ...]

# T5X's rules with one-dimensional parameter and activation partitioning.
STANDARD_RULES: Rules = (
  ("batch", BATCH_AXES),
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


def _each(mesh_axes: MeshAxes) -> tuple[str, ...]:
  """A rule's mesh axes, one by one."""
  if mesh_axes is None:
    return ()
  return (mesh_axes,) if isinstance(mesh_axes, str) else tuple(mesh_axes)


@gin.register
@dataclasses.dataclass(frozen=True)
class Partitioning:
  """A data x fsdp x model mesh and the rules that lay arrays out on it.

  Rows of a batch lie over `data` and `fsdp`; what else lies where, the rules
  say. The devices that `fsdp` and `num_partitions` leave are along `data`, the
  only axis that runs across slices, between which the network is slow.

  Attributes:
    num_partitions: devices along the `model` axis, over which each copy of
      the model is split; -1 is all that the others leave in a slice.
    fsdp: devices along the `fsdp` axis; -1 is all that the others leave in a
      slice.
    num_slices: slices (TPU) or groups of hosts that a fast network joins.
    rules: ordered (logical axis, mesh axes or None); the first rule whose mesh
      axes are still free is taken.
  """

  num_partitions: int = 1
  fsdp: int = 1
  num_slices: int = 1
  rules: Rules = STANDARD_RULES

  def __post_init__(self):
    for logical, mesh_axes in self.rules:
      axes.names(logical)
      for mesh_axis in _each(mesh_axes):
        if mesh_axis not in MESH_AXES:
          raise UserError(
            f"partitioning rule for {logical!r} names mesh axis {mesh_axis!r}; "
            "allowed: 'data', 'fsdp', 'model', several of them or None"
          )

  def mesh(
    self, devices: Sequence[jax.Device] | None = None
  ) -> jax.sharding.Mesh:
    """Lays devices out.

    Args:
      devices: all devices of all processes by default.

    Raises:
      UserError: the devices do not divide as asked.
    """
    devices = jax.devices() if devices is None else devices
    data, fsdp, model = self._sizes(len(devices))
    shape = (data // self.num_slices, fsdp, model)
    laid_out = [
      mesh_utils.create_device_mesh(
        shape, devices=group, allow_split_physical_axes=True
      )
      for group in _slices(devices, self.num_slices)
    ]
    # Auto: with Explicit axes (the default) logical constraints fail.
    return jax.sharding.Mesh(
      np.concatenate(laid_out),
      MESH_AXES,
      axis_types=(jax.sharding.AxisType.Auto,) * 3,
    )

  def _sizes(self, count: int) -> tuple[int, int, int]:
    """Returns the sizes of the mesh's axes over so many devices."""
    asked = {"fsdp": self.fsdp, "num_partitions": self.num_partitions}
    fixed = math.prod(size for size in asked.values() if size != -1)
    free = [name for name, size in asked.items() if size == -1]
    per_slice, rest = divmod(count, max(1, self.num_slices))
    if (
      min(self.num_slices, fixed) < 1
      or len(free) > 1
      or rest
      or per_slice % fixed
    ):
      fits = ", ".join("x".join(map(str, sizes)) for sizes in _meshes(count))
      raise UserError(
        f"num_slices={self.num_slices}, fsdp={self.fsdp}, "
        f"num_partitions={self.num_partitions} do not fit {count} "
        f"device{'s' * (count > 1)}; meshes that do, as data x fsdp x "
        f"num_partitions: {fits}"
      )
    asked |= dict.fromkeys(free, per_slice // fixed)
    fsdp, model = asked.values()
    return count // (fsdp * model), fsdp, model

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
    shares = batch_shares(mesh)
    if batch_size % shares:
      raise UserError(
        f"BATCH_SIZE={batch_size} does not divide over the mesh's data and "
        f"fsdp axes of {shares} devices; choose a multiple of {shares}"
      )
    for path, leaf in jax.tree_util.tree_leaves_with_path(
      boxed_params, is_leaf=lambda x: isinstance(x, nn.meta.AxisMetadata)
    ):
      spec = nn.logical_to_mesh_axes(leaf.names, self.rules)
      for size, logical, mesh_axes in zip(
        leaf.value.shape, leaf.names, spec, strict=True
      ):
        parts = math.prod(mesh.shape[axis] for axis in _each(mesh_axes))
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


def batch_shares(mesh: jax.sharding.Mesh) -> int:
  """Into how many parts a mesh cuts the rows of a batch."""
  return math.prod(mesh.shape[axis] for axis in BATCH_AXES)


def _meshes(count: int) -> list[tuple[int, int, int]]:
  """All sizes of the mesh's axes that so many devices have."""
  divisors = [d for d in range(1, count + 1) if count % d == 0]
  return [
    (count // (fsdp * model), fsdp, model)
    for fsdp in divisors
    for model in divisors
    if count % (fsdp * model) == 0
  ]


def _slices(
  devices: Sequence[jax.Device], num_slices: int
) -> list[list[jax.Device]]:
  """Devices by the slice that they are in, equally many in each.

  Devices that know of no slices (of simulations, of GPUs) are cut in their
  order, which is that of their processes.
  """
  slice_of = [getattr(device, "slice_index", 0) for device in devices]
  if num_slices == 1 or len(set(slice_of)) != num_slices:
    slice_of = np.arange(len(devices)) * num_slices // len(devices)
  return [
    [
      device
      for device, own in zip(devices, slice_of, strict=True)
      if own == index
    ]
    for index in sorted(set(slice_of))
  ]


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
  """Lays this process's rows of a global batch over the mesh."""
  sharding = NamedSharding(mesh, PartitionSpec(BATCH_AXES))
  return {
    key: jax.make_array_from_process_local_data(sharding, value)
    for key, value in batch.items()
  }


def put_whole_batch(
  batch: dict[str, np.ndarray], mesh: jax.sharding.Mesh
) -> dict[str, jax.Array]:
  """Lays the rows of a batch that every process has whole over the mesh."""
  sharding = NamedSharding(mesh, PartitionSpec(BATCH_AXES))
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
