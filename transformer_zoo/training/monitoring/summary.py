"""A summary of a model's parameters, from shapes alone."""

from flax import linen as nn
import jax

from transformer_zoo.forecast import cost
from transformer_zoo.training import state


def parameter_table(model: nn.Module) -> list[dict]:
  """One row per parameter: path, shape, logical axes, count."""
  boxed = state.abstract_variables(model)
  rows = []
  for path, leaf in jax.tree_util.tree_leaves_with_path(
    boxed, is_leaf=lambda x: isinstance(x, nn.meta.AxisMetadata)
  ):
    rows.append(
      {
        "path": jax.tree_util.keystr(path, simple=True, separator="/"),
        "shape": list(leaf.value.shape),
        "axes": list(leaf.names),
        "count": leaf.value.size,
      }
    )
  return rows


def forward_flops(model: nn.Module, inputs: int, targets: int) -> int:
  """Matmul FLOPs of one forward pass over one example, from its jaxpr.

  Two per multiply-add, dot products only: projections, attention scores and
  contexts, logits. A training step costs three times as many.

  Args:
    model: an encoder-decoder; or a decoder-only model, which reads both as one
      sequence; or an encoder, which reads inputs alone.
    inputs: tokens of the inputs.
    targets: tokens of the targets.
  """
  if not model.offers.has_encoder:
    targets += inputs
  batch = state.example_batch(model, inputs, targets)
  forward = cost.count(
    lambda p: model.apply({"params": p}, batch, method="all_logits"),
    state.abstract_params(model),
  )
  return forward.matmul_flops


def summarize(
  model: nn.Module, *, inputs: int = 512, targets: int = 114
) -> dict:
  """The printed tree, the parameters, their total and FLOPs per token.

  Args:
    model: an architecture.
    inputs: tokens of the inputs for the FLOPs.
    targets: tokens of the targets for the FLOPs.

  Returns:
    `tree`, `parameters` (rows of `parameter_table`), `total_parameters`,
    `flops_per_token` (forward pass over inputs and, where there is a decoder,
    targets).
  """
  rows = parameter_table(model)
  tokens = inputs + targets if model.offers.has_decoder else inputs
  return {
    "tree": str(model),
    "parameters": rows,
    "total_parameters": sum(row["count"] for row in rows),
    "flops_per_token": forward_flops(model, inputs, targets) // tokens,
  }


def as_text(summary: dict) -> str:
  """The summary as it stands in a run's `model.txt`."""
  rows = summary["parameters"]
  width = max(len(row["path"]) for row in rows)
  lines = [summary["tree"], ""]
  for row in rows:
    shape = " x ".join(map(str, row["shape"]))
    named = ", ".join(map(str, row["axes"]))
    lines.append(
      f"{row['path']:{width}}  {row['count']:>14,}  {shape}  ({named})"
    )
  lines += [
    "",
    f"parameters       {summary['total_parameters']:,}",
    f"FLOPs per token  {summary['flops_per_token']:,} (forward)",
  ]
  return "\n".join(lines) + "\n"
