"""The logical axis names of parameters and activations, and dimension letters.

Logical axes are T5X's words. A misspelt name would be replicated over the mesh
silently, so every name passes through `names`, which rejects an unknown one.

Dimension letters, as suffixes of tensor names and (lower case) in einsum:

  B batch             L query or target length   M key or memory length
  D d_model           F d_ff                     H heads
  G key-value heads   K head_dim                 V vocabulary
  N layers            R rank                     P prompt length
  1 broadcast
"""

from collections.abc import Callable, Sequence
import math

from flax import linen as nn
import jax

from transformer_zoo.errors import UserError

LOGICAL_AXES = (
  "batch",
  "length",
  "embed",
  "vocab",
  "mlp",
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

  Without rules or outside of a mesh it does nothing. An axis that no rule
  names is an error: `training.partitioning` gives a rule to every axis.
  """
  return nn.with_logical_constraint(
    x, names(*axes), fallback=nn.spmd.RulesFallback.RAISE_ERROR
  )


def partitions(axis: str | None) -> int:
  """Returns over how many devices the rules in force split a logical axis."""
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty or axis is None:
    return 1
  (mesh_axes,) = nn.logical_to_mesh_axes(names(axis))
  return _size(mesh, mesh_axes)


def _size(mesh, mesh_axes: str | tuple[str, ...] | None) -> int:
  """Returns how many devices lie along mesh axes."""
  if mesh_axes is None:
    return 1
  if isinstance(mesh_axes, str):
    return mesh.shape[mesh_axes]
  return math.prod(mesh.shape[axis] for axis in mesh_axes)


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
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty:
    return function(*arrays)
  specs = []
  for array, logical in zip(arrays, axes, strict=True):
    mesh_axes = nn.logical_to_mesh_axes(names(*logical))
    divided = (
      None if size % _size(mesh, each) else each
      for size, each in zip(array.shape, mesh_axes, strict=True)
    )
    specs.append(jax.sharding.PartitionSpec(*divided))
  # check_vma: kernels do not say over which axes their results vary.
  mapped = jax.shard_map(
    function, in_specs=tuple(specs), out_specs=specs[0], check_vma=False
  )
  return mapped(*arrays)


def partitioned(init, *axes: str | None):
  """Returns initializer `init` with its result labelled by logical axes."""
  return nn.with_logical_partitioning(init, names(*axes))
