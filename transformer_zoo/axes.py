"""The logical axis names of parameters and activations, and dimension letters.

Logical axes are T5X's words, and `lookup`: the batch while rows of a table are
looked up for it, which leaves the devices that share out the table's `embed`
the same rows. A misspelt name would be replicated over the mesh silently, so
every name passes through `names`, which rejects an unknown one.

Dimension letters, as suffixes of tensor names and (lower case) in einsum:

  B batch               L query or target length  M key or memory length
  D d_model             F d_ff                    E factorized embedding
  H heads               G key-value heads         K head_dim
  V vocabulary          N layers                  1 broadcast
  P places of a row: of its prompt, or those that a head reads
  T tokens: of an output while it is written, or of a batch laid flat
  W outputs of one row in the making: beams or samples
  C candidates: continuations of beams, choices of an example; the places for
    tokens that an expert has
  S starts of spans
  R relative positions: rows of a table, distances
  Q a block of queries in a fused kernel
  X experts, or another axis, which is described where it stands

Statistics of studies, which hold no tensors of a model, have `R` for rows and
`S` for seeds.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import math

from flax import linen as nn
import jax

from transformer_zoo import tracing
from transformer_zoo.errors import UserError

LOGICAL_AXES = (
  "batch",
  "lookup",
  "length",
  "embed",
  "vocab",
  "mlp",
  "expert",
  "heads",
  "kv",
  "joined_kv",
  "relpos_buckets",
  "abspos_buckets",
  "layers",
  "lora_rank",
  "adapter",
  "prompt",
)


def names(*axes: str | None) -> tuple[str | None, ...]:
  """Returns `axes` unchanged.

  Raises:
    UserError: a name is not one of `LOGICAL_AXES`.
  """
  for axis in axes:
    if axis is not None and axis not in LOGICAL_AXES:
      raise UserError(
        f"unknown logical axis {axis!r}; allowed: {', '.join(LOGICAL_AXES)}"
      )
  return axes


def constrain(x: jax.Array, *axes: str | None) -> jax.Array:
  """Asks for `x` to be laid out by the rules in force for its logical axes.

  Without rules or outside of a mesh it does nothing. Where mesh axes do not
  divide a size, that axis is whole on every device.
  """
  names(*axes)
  if jax.sharding.get_abstract_mesh().empty or not nn.get_logical_axis_rules():
    return x
  return jax.lax.with_sharding_constraint(x, _spec(x.shape, axes))


def each(mesh_axes: str | tuple[str, ...] | None) -> tuple[str, ...]:
  """The mesh axes that a rule names, one by one."""
  if mesh_axes is None:
    return ()
  return (mesh_axes,) if isinstance(mesh_axes, str) else tuple(mesh_axes)


def partitions(axis: str | None) -> int:
  """Returns over how many devices the rules in force split a logical axis."""
  if axis is None or jax.sharding.get_abstract_mesh().empty:
    return 1
  (mesh_axes,) = nn.logical_to_mesh_axes(names(axis))
  return _devices(mesh_axes)


@contextlib.contextmanager
def beside(axis: str) -> Iterator[None]:
  """Leaves the mesh axes of a logical axis to that axis, in what is traced.

  The functions inside of `jax.vmap` do not see an axis that they are mapped
  over, and must not ask for its mesh axes.
  """
  rules = nn.get_logical_axis_rules()
  taken = {m for name, mesh in rules if name == axis for m in each(mesh)}
  kept = [rule for rule in rules if taken.isdisjoint(each(rule[1]))]
  with nn.logical_axis_rules(kept):
    yield


def num_stages() -> int:
  """The stages of a pipeline in the mesh in force (modules/pipeline.py)."""
  mesh = jax.sharding.get_abstract_mesh()
  return 1 if mesh.empty else mesh.shape.get("stage", 1)


def num_parts_of_length() -> int:
  """The devices of the mesh in force that share the tokens of a row out."""
  mesh = jax.sharding.get_abstract_mesh()
  return 1 if mesh.empty else mesh.shape.get("sequence", 1)


def of_queries() -> str | None:
  """The logical axis of the queries of attention, or None if they are whole.

  That of a length says where other activations lie, between attentions too,
  and only where devices share lengths out does attention have some of them.
  """
  return "length" if num_parts_of_length() > 1 else None


def check_length(length: int) -> None:
  """Refuses a length that the devices which share it out do not divide.

  Raises:
    UserError: They do not.
  """
  parts = num_parts_of_length()
  if length % parts:
    raise UserError(
      f"a length of {length} does not divide over Partitioning.sequence="
      f"{parts} devices; set TASK_FEATURE_LENGTHS to multiples of {parts}, or "
      "SEQUENCE to a divisor"
    )


def _devices(mesh_axes: str | tuple[str, ...] | None) -> int:
  """Returns how many devices of the mesh in force lie along mesh axes."""
  sizes = jax.sharding.get_abstract_mesh().shape
  return math.prod(sizes[axis] for axis in each(mesh_axes))


def _spec(
  shape: Sequence[int], logical: Sequence[str | None]
) -> jax.sharding.PartitionSpec:
  """Returns an array's layout by the rules in force, where sizes divide."""
  parts = []
  for size, axis, mesh_axes in zip(
    shape, logical, nn.logical_to_mesh_axes(logical), strict=True
  ):
    divides = size % _devices(mesh_axes) == 0
    parts.append(mesh_axes if divides else None)
    if not divides and size > 1:
      tracing.record_choice(
        f"{axis} of {size}: whole on every device, {_devices(mesh_axes)} "
        f"along {' and '.join(each(mesh_axes))} do not divide it"
      )
  return jax.sharding.PartitionSpec(*parts)


def over_mesh(
  function: Callable[..., jax.Array],
  arrays: Sequence[jax.Array],
  axes: Sequence[Sequence[str | None]],
) -> jax.Array:
  """Applies a function to the part of each array that a device has.

  For kernels that XLA cannot partition. Without rules or outside of a mesh it
  is the function itself.

  Args:
    function: of the arrays; what it returns is laid out as the first of them.
    arrays: where a mesh axis does not divide a size, that axis is whole on
      every device.
    axes: logical axes of each array.
  """
  if jax.sharding.get_abstract_mesh().empty:
    return function(*arrays)
  specs = [
    _spec(array.shape, names(*logical))
    for array, logical in zip(arrays, axes, strict=True)
  ]
  # check_vma: kernels do not say over which axes their results vary.
  mapped = jax.shard_map(
    function, in_specs=tuple(specs), out_specs=specs[0], check_vma=False
  )
  return mapped(*arrays)


def partitioned(init, *axes: str | None):
  """Returns initializer `init` with its result labelled by logical axes."""
  return nn.with_logical_partitioning(init, names(*axes))
