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


def partitioned(init, *axes: str | None):
  """Returns initializer `init` with its result labelled by logical axes."""
  return nn.with_logical_partitioning(init, names(*axes))
