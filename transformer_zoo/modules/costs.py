"""Costs that parts add to the loss of a batch, as a router that balances.

A part calls `add`; an objective applies the model with the collection
`COLLECTION` mutable and makes terms of what it finds (`objectives/terms.py`).
"""

from flax import linen as nn
from flax import struct
import jax

from transformer_zoo.errors import UserError

COLLECTION = "costs"


@struct.dataclass
class Cost:
  """What one part adds for each row of a batch.

  Attributes:
    cost_B: The cost in nats, times its factor in the loss, float32; layers that
      are scanned have a leading axis.
    shares_B: Further numbers of each row that are reported, by name; the mean
      over parts and rows is shown.
  """

  cost_B: jax.Array
  shares_B: dict[str, jax.Array]


def add(
  module: nn.Module,
  name: str,
  cost_B: jax.Array,
  *,
  deterministic: bool,
  **shares_B: jax.Array,
) -> None:
  """Adds a cost; called inside of the `__call__` of a part.

  Args:
    module: The part.
    name: The name of the term of the loss; parts that name the same one are
      added up.
    cost_B: As in `Cost`.
    deterministic: Whether nothing is trained, so that a cost may be left out.
    **shares_B: As in `Cost`.

  Raises:
    UserError: In training nothing collects the cost.
  """
  if module.is_initializing():
    return
  if not deterministic and not module.is_mutable_collection(COLLECTION):
    raise UserError(
      f"the cost {name!r} of {'/'.join(module.path)} would be lost: "
      "@SequenceToSequence() and the objectives of encoders add costs of "
      "parts, for layers that are neither in Stack.shared nor on the stages of "
      "a pipeline; use one of these, with such layers"
    )
  module.sow(COLLECTION, name, Cost(cost_B, shares_B))
