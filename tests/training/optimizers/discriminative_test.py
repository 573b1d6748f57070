"""Rates by the names of parameters, scanned or not."""

import jax
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.training.optimizers import discriminative
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.sgd import sgd

FACTORS = [(r"encoder/layers_1/.*", 0.5), (r"encoder/.*", 2.0)]


def moved(params, factors=FACTORS):
  optimizer = discriminative.discriminative(
    schedules.constant(0.1), optimizer=sgd, factors=factors
  )

  @jax.jit
  def updates_of(ones, params):
    return optimizer.update(ones, optimizer.init(params), params)[0]

  return jax.device_get(updates_of(jax.tree.map(np.ones_like, params), params))


def test_the_first_expression_that_matches_counts_in_stacks_too():
  kernel = np.ones((3, 2, 2), np.float32)
  updates = moved(
    {"encoder": {"layers": {"kernel": kernel}}, "heads": np.ones(2, np.float32)}
  )
  found = updates["encoder"]["layers"]["kernel"][:, 0, 0]
  np.testing.assert_allclose(found, [-0.2, -0.05, -0.2], rtol=1e-6)
  np.testing.assert_allclose(updates["heads"], -0.1, rtol=1e-6)


@pytest.mark.parametrize(
  ("factors", "expected"),
  [
    ([("decoder/.*", 1.0)], "'decoder/.*' matches (as a whole) no parameter"),
    ([("encoder/.*", -1.0)], "the factor of 'encoder/.*' is -1.0; it has to"),
    ([("(", 1.0)], "'(' is no regular expression"),
  ],
)
def test_refusals(factors, expected):
  with pytest.raises(UserError) as error:
    moved({"encoder": {"kernel": np.ones((2, 2), np.float32)}}, factors)
  assert expected in str(error.value)
