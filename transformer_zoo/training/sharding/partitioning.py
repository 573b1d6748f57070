"""The layout of arrays: rules from logical axes to axes of a mesh.

One program runs on all devices; XLA's SPMD partitioner inserts the collectives
that the layout implies.
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import dataclasses
import math

from flax import linen as nn
import gin
import jax
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
import numpy as np

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.training.sharding import meshes

Rules = tuple[tuple[str, str | tuple[str, ...] | None], ...]

# Keys and fields on the way to a leaf.
_Path = tuple[str, ...]
# (size, mesh axes that share it out) -> what has that size.
_Shares = dict[tuple[int, tuple[str, ...]], str]

# The words are T5X's. A parameter's `embed` is sharded over `fsdp`; the `embed`
# of activations is not, because their `batch` has taken `fsdp` before.
STANDARD_RULES: Rules = (
  ("batch", meshes.BATCH_AXES),
  ("lookup", "data"),
  ("vocab", "model"),
  ("mlp", "model"),
  ("expert", None),
  ("heads", "model"),
  ("joined_kv", "model"),
  ("embed", "fsdp"),
  ("length", None),
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
  """A data x fsdp x model mesh and the rules that lay arrays out on it.

  Rows of a batch lie over `data` and `fsdp`; what else lies where, the rules
  say. The devices that `fsdp` and `num_partitions` leave are along `data`, the
  only axis that runs across slices, between which the network is slow.

  Attributes:
    num_partitions: devices along the `model` axis, over which each copy of
      the model is split; -1 for all that the others leave in a slice.
    fsdp: devices along the `fsdp` axis, over which parameters, gradients and
      optimizer state are shared out; -1 for all that the others leave in a
      slice.
    num_slices: slices (TPU), or groups of hosts, inside of which the network
      is fast; -1 for the number that the devices report, or one.
    num_stages: devices along the `stage` axis, each of which holds its share of
      the layers of every stack (modules/pipeline.py); 1 for no such axis.
    expert: devices along the `expert` axis, each of which holds its share of
      the experts (modules/sparse/experts.py) and its rows of the batch, whose
      tokens are exchanged by all-to-all; 1 for no such axis.
    sequence: devices along the `sequence` axis, each of which holds its share
      of the tokens of every row, and gathers the keys and values of the others;
      1 for no such axis.
    rules: ordered (logical axis, mesh axes or None). Of an array, each axis
      gets the first rule of its name whose mesh axes are still free when the
      rules are gone through in their order.
  """

  num_partitions: int = 1
  fsdp: int = 1
  num_slices: int = -1
  num_stages: int = 1
  expert: int = 1
  sequence: int = 1
  rules: Rules = STANDARD_RULES

  def __post_init__(self):
    for name in ("num_stages", "expert", "sequence"):
      if getattr(self, name) < 1:
        raise UserError(
          f"Partitioning.{name} is {getattr(self, name)}; it must be at least 1"
        )
    if self.sequence > 1 and self.num_stages > 1:
      raise UserError(
        "Partitioning.sequence does not go with Partitioning.num_stages: the "
        "stages of a pipeline have whole rows; leave one of the two 1"
      )
    for logical, mesh_axes in self.rules:
      axes.names(logical)
      for mesh_axis in axes.each(mesh_axes):
        if mesh_axis not in meshes.AXES:
          raise UserError(
            f"partitioning rule for {logical!r} names mesh axis {mesh_axis!r}; "
            "allowed: 'data', 'fsdp', 'model', several of them or None"
          )
    ruled = {logical for logical, _ in self.rules}
    missing = [axis for axis in axes.LOGICAL_AXES if axis not in ruled]
    if missing:
      raise UserError(
        f"Partitioning.rules has no rule for {', '.join(missing)}; give each "
        "logical axis one, with None for what is whole on every device"
      )

  def mesh(
    self, devices: Sequence[jax.Device] | None = None
  ) -> jax.sharding.Mesh:
    """Lays devices out, by default the devices of all processes.

    Raises:
      UserError: the devices do not divide as asked.
    """
    return meshes.make_mesh(
      jax.devices() if devices is None else devices,
      fsdp=self.fsdp,
      num_partitions=self.num_partitions,
      num_slices=self.num_slices,
      num_stages=self.num_stages,
      expert=self.expert,
      sequence=self.sequence,
    )

  @property
  def rules_in_force(self) -> Rules:
    """The rules, with what the axes of other sizes than 1 share out.

    Rows lie over the devices of the experts too, but in arrays that have an
    axis of experts themselves.
    """
    rules = self.rules
    if self.num_stages > 1:
      rules = _ruled(rules, "layers", meshes.STAGE)
    if self.sequence > 1:
      rules = _ruled(rules, "length", meshes.SEQUENCE)
    if self.expert > 1:
      rules = _ruled(rules, "expert", meshes.EXPERT)
      own = [rule for rule in rules if rule[0] == "expert"]
      wider = [
        (logical, (*axes.each(mesh_axes), meshes.EXPERT))
        for logical, mesh_axes in rules
        if logical in ("batch", "lookup")
      ]
      rules = (*own, *wider, *(rule for rule in rules if rule not in own))
    return rules

  @contextlib.contextmanager
  def activate(self, mesh: jax.sharding.Mesh) -> Iterator[None]:
    """Puts mesh and rules in force for what is traced inside.

    Only `jax.set_mesh` makes Linen emit sharding constraints; `with mesh:`
    drops them silently.
    """
    with jax.set_mesh(mesh), nn.logical_axis_rules(self.rules_in_force):
      yield

  def check(
    self, mesh: jax.sharding.Mesh, boxed_params, batch_size: int
  ) -> None:
    """Checks that parameters and batch divide over the mesh.

    Raises:
      UserError: naming the axis, its size, and the meshes that fit.
    """
    rows = meshes.batch_axes(mesh)
    shares = self._shares(boxed_params, batch_size, rows)
    undivided = _undivided(shares, mesh.shape)
    if not undivided:
      return
    size, mesh_axes = undivided[0]
    over = math.prod(mesh.shape[axis] for axis in mesh_axes)
    choices = []
    if mesh_axes == rows:
      choices.append(f"a multiple of {over}")
    num_slices = meshes.number_of_slices(mesh, self.num_slices)
    others = {
      meshes.STAGE: self.num_stages,
      meshes.EXPERT: self.expert,
      meshes.SEQUENCE: self.sequence,
    }
    count = mesh.size // math.prod(others.values())
    fitting = [
      sizes
      for sizes in meshes.possible_sizes(
        count, max(1, num_slices // self.num_stages)
      )
      if not _undivided(shares, sizes | others)
    ]
    if fitting:
      choices.append(
        f"a mesh of {count} devices that divides, as "
        f"{meshes.LEGEND}: "
        f"{meshes.described(fitting)}"
      )
    raise UserError(
      f"{shares[undivided[0]]} does not divide over {over} devices along "
      f"{' and '.join(mesh_axes)}; "
      + (f"choose {' or '.join(choices)}" if choices else "no mesh divides")
    )

  def _shares(
    self, boxed_params, batch_size: int, rows: tuple[str, ...]
  ) -> _Shares:
    """The sizes that mesh axes have to divide."""
    shares = {(batch_size, rows): f"BATCH_SIZE={batch_size}"}
    for path, names, shape in _boxes(boxed_params):
      spec = nn.logical_to_mesh_axes(names, self.rules_in_force)
      for size, logical, mesh_axes in zip(shape, names, spec, strict=True):
        name = f"axis {logical!r} of {'/'.join(path)}, of size {size},"
        shares.setdefault((size, axes.each(mesh_axes)), name)
    return shares

  def shardings(self, mesh: jax.sharding.Mesh, boxed_params, state_shapes):
    """Shardings of a whole state.

    Args:
      mesh: the mesh.
      boxed_params: parameters (or their shapes) with logical axes.
      state_shapes: a `TrainState` of shapes, or its parameters alone.

    Returns:
      A tree like `state_shapes` of `NamedSharding`.
    """
    specs = {
      path: (*nn.logical_to_mesh_axes(names, self.rules_in_force),)
      for path, names, _ in _boxes(boxed_params)
    }
    longest = max(map(len, specs))

    def sharding(path, leaf):
      spec = _state_spec(_names_of(path), leaf.ndim, specs, longest)
      return NamedSharding(mesh, PartitionSpec(*spec))

    return jax.tree_util.tree_map_with_path(sharding, state_shapes)


def _ruled(rules: Rules, axis: str, mesh_axis: str) -> Rules:
  """Rules with another one for an axis, in its place."""
  return tuple(
    (logical, mesh_axis if logical == axis else mesh_axes)
    for logical, mesh_axes in rules
  )


# Every device holds the whole model and its rows of the batch.
ONE_COPY_PER_DEVICE = Partitioning()


def batch_shares(mesh: jax.sharding.Mesh) -> int:
  """Into how many parts a mesh cuts the rows of a batch."""
  return math.prod(mesh.shape[axis] for axis in meshes.batch_axes(mesh))


def abstract(shapes, shardings):
  """Shapes with their shardings, as a checkpoint is restored to."""
  return jax.tree.map(
    lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
    shapes,
    shardings,
  )


def _boxes(boxed_params) -> Iterator[tuple[_Path, tuple, tuple[int, ...]]]:
  """Path, logical axes and shape of each parameter."""
  for path, leaf in jax.tree_util.tree_leaves_with_path(
    boxed_params, is_leaf=lambda x: isinstance(x, nn.meta.AxisMetadata)
  ):
    yield _names_of(path), leaf.names, leaf.value.shape


def _undivided(shares: _Shares, sizes: Mapping[str, int]) -> list:
  """The keys of what does not divide over a mesh of such sizes."""
  return [
    (size, mesh_axes)
    for size, mesh_axes in shares
    if size % math.prod(sizes[axis] for axis in mesh_axes)
  ]


def _names_of(path) -> _Path:
  """Keys and fields on the way to a leaf, as strings."""
  return tuple(
    str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))))
    for key in path
  )


def _state_spec(path: _Path, ndim: int, specs, longest: int) -> tuple:
  """Mesh axes of a leaf of the state: the axes of the parameter in its path.

  A leaf of the optimizer's state lies on a path that contains the path of its
  parameter; scalars and what matches no parameter are replicated.
  """
  field = path[-1]
  for start in range(len(path)):
    for stop in range(min(len(path), start + longest), start, -1):
      spec = specs.get(path[start:stop])
      if spec is None:
        continue
      if field == "v_row":
        spec = spec[:-1]
      elif field == "v_col":
        spec = spec[:-2] + spec[-1:]
      if len(spec) == ndim:
        return spec
  return ()


def put_batch(
  batch: dict[str, np.ndarray], mesh: jax.sharding.Mesh
) -> dict[str, jax.Array]:
  """Lays the rows of `meshes.shares_of_batch` over the mesh."""
  sharding = meshes.over_rows(mesh)
  shares, count = meshes.shares_of_batch(mesh).values()

  def put(local):
    size = len(local) // len(shares)

    def rows(index):
      first = shares.index(index[0].indices(count * size)[0] // size) * size
      return local[first : first + size]

    shape = (count * size, *local.shape[1:])
    return jax.make_array_from_callback(shape, sharding, rows)

  return {key: put(local) for key, local in batch.items()}


def put_whole_batch(
  batch: dict[str, np.ndarray], mesh: jax.sharding.Mesh
) -> dict[str, jax.Array]:
  """Lays the rows of a batch that every process has whole over the mesh."""
  sharding = meshes.over_rows(mesh)
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
