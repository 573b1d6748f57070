"""Terms, which an objective returns: sums, and the weights that divide them."""

from collections.abc import Callable, Mapping
from typing import Any

from flax import struct
import jax
import jax.numpy as jnp

from transformer_zoo.modules import costs


@struct.dataclass
class Term:
  """A loss of a batch, or of some of its rows.

  Attributes:
    total: The sum that is differentiated, a scalar.
    weight: The divisor of `total`, a scalar that depends on the batch alone.
      Like `total` it is a sum over rows.
    metrics: Further sums by name, which are divided by the same weight;
      `loss_sum`, in nats, is shown as the loss and `correct_sum` as the
      accuracy.
    scale: The factor of the term in the loss.
  """

  total: jax.Array
  weight: jax.Array
  metrics: dict[str, jax.Array]
  scale: float = struct.field(pytree_node=False, default=1.0)

  @property
  def divisor(self) -> jax.Array:
    """The weight, or 1 of what weighs less."""
    return jnp.maximum(self.weight, 1.0)


# By name; the name of a single term stands nowhere.
Terms = Mapping[str, Term]


def loss(terms: Terms) -> jax.Array:
  """The sum over terms of scale * total / max(weight, 1)."""
  return sum(_times(t.total, t.scale) / t.divisor for t in terms.values())


def sums(terms: Terms) -> dict[str, jax.Array]:
  """The metrics of all terms, and the weight of each as `weight_sum`.

  If there are several terms, the name of a metric begins with the name of its
  term, as in `next_sentence/loss_sum`.
  """
  prefixes = {name: f"{name}/" if len(terms) > 1 else "" for name in terms}
  return {
    prefixes[name] + metric: value
    for name, term in terms.items()
    for metric, value in {**term.metrics, "weight_sum": term.weight}.items()
  }


def with_costs(
  apply: Callable[..., Any], *arguments: Any, **keywords: Any
) -> tuple[Any, dict[str, Term]]:
  """Applies a model and makes terms of the costs that its parts add.

  Args:
    apply: The method of a model, which takes `mutable`.
    *arguments: The arguments of the method.
    **keywords: Its keyword arguments.

  Returns:
    What the method returns, and a term for each name of a cost: its sum over
    parts and rows, which the number of rows divides.
  """
  made, found = apply(*arguments, mutable=[costs.COLLECTION], **keywords)
  by_name = {}
  for path, cost in jax.tree_util.tree_leaves_with_path(
    found, is_leaf=lambda x: isinstance(x, costs.Cost)
  ):
    by_name.setdefault(path[-2].key, []).append(cost)
  return made, {name: _term(each) for name, each in by_name.items()}


def _term(parts: list[costs.Cost]) -> Term:
  """The term of costs of one name."""
  rows = parts[0].cost_B.shape[-1]
  number = sum(each.cost_B.size for each in parts) // rows
  total = sum(jnp.sum(each.cost_B) for each in parts)
  metrics = {
    f"{name}_sum": sum(jnp.sum(each.shares_B[name]) for each in parts) / number
    for name in parts[0].shares_B
  }
  weight = jnp.asarray(rows, jnp.float32)
  return Term(total, weight, {"loss_sum": total, **metrics})


def _times(value: jax.Array, scale: float) -> jax.Array:
  return value if scale == 1.0 else scale * value
