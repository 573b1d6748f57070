"""The interface of objectives, as a training run uses them."""

from collections.abc import Mapping
from typing import ClassVar

from flax import linen as nn
import jax

from transformer_zoo.objectives.terms import Term

Batch = Mapping[str, jax.Array]


class Objective:
  """The loss of a batch; a subclass is a frozen dataclass that gin builds.

  Attributes:
    takes_updates: Whether `__call__` takes `updated` in training, the function
      from gradients to the parameters after an update by them.
    takes_parts: Whether `__call__` is given whole batches, because terms depend
      on all rows together, and takes `in_parts` (`training.step`), by which it
      computes part by part what depends on single rows.
  """

  takes_updates: ClassVar[bool] = False
  takes_parts: ClassVar[bool] = False

  def check(self, model: nn.Module) -> None:
    """Raises UserError for a model that the objective cannot train.

    It is called before anything is prepared or compiled. By default every
    model is accepted.
    """

  def __call__(
    self,
    model: nn.Module,
    params,
    batch: Batch,
    dropout_key: jax.Array | None = None,
  ) -> dict[str, Term]:
    """Returns the terms of one batch by name.

    Args:
      model: The architecture.
      params: The parameters of the model.
      batch: The arrays that the converter of the run lays out.
      dropout_key: The key for dropout; None for no dropout.
    """
    raise NotImplementedError
