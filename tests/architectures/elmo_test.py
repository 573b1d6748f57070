"""ELMo against what its definition in PyTorch has computed."""

import gin
import pytest

from tests.golden import elmo
from tests.golden import variants
from transformer_zoo.errors import UserError
from transformer_zoo.modules.heads import OneWayLogits
from transformer_zoo.modules.heads import TiedLogits
from transformer_zoo.objectives.encoder import NextTokenLoss


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


@pytest.mark.parametrize(
  "gradient", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_states_and_loss_equal_the_recorded_ones(gradient):
  """Texts of one row do not meet, in either direction."""
  model, objective, params = elmo.setting()
  found = elmo.outputs(model, objective, params, gradient=gradient)
  variants.assert_recorded(elmo.PATH, params, elmo.BATCH, found)


def test_refusals():
  with pytest.raises(UserError, match="NextTokenLoss.offset is 2; allowed: 1"):
    NextTokenLoss(offset=2)
  with pytest.raises(UserError, match="unknown OneWayLogits.direction 'up'"):
    OneWayLogits(TiedLogits(), "up")
