"""Terms, which an objective returns: sums, and the weights that divide them."""

from collections.abc import Mapping

from flax import struct
import jax
import jax.numpy as jnp


@struct.dataclass
class Term:
  """A loss of a batch, or of some of its rows.

  Attributes:
    total: the sum that is differentiated, a scalar.
    weight: what it is divided by, a scalar that depends on the batch alone;
      sums over rows add up to that of the batch, as those of `total` do.
    metrics: further sums by name, for means over the same weight; those of
      `loss_sum`, in nats, and `correct_sum` are shown as loss and accuracy.
    scale: the factor of the term in the loss.
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

  The names of several terms go before those of their metrics, as in
  `next_sentence/loss_sum`.
  """
  prefixes = {name: f"{name}/" if len(terms) > 1 else "" for name in terms}
  return {
    prefixes[name] + metric: value
    for name, term in terms.items()
    for metric, value in {**term.metrics, "weight_sum": term.weight}.items()
  }


def _times(value: jax.Array, scale: float) -> jax.Array:
  return value if scale == 1.0 else scale * value
