"""ELMo beside LSTMs with projections in PyTorch: make test-oracles."""

import numpy as np
import pytest

from tests import programs
from tests import tiny_t5
from tests.golden import elmo
from tests.golden import variants
from tests.oracles.pytorch import reference_elmo


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(
  ("run", "clip"),
  [
    # Beyond which no cell and no state is.
    (reference_elmo.torch_s_lstm, 3.0),
    (reference_elmo.lstm, elmo.CLIP),
  ],
)
def test_states_loss_and_gradient_of_every_parameter(run, clip, report):
  model, objective, params = elmo.setting(clip)
  found = elmo.outputs(model, objective, params)
  expected = reference_elmo.outputs(params, run, clip)
  assert set(found) == set(expected)
  differences = {
    name: tiny_t5.largest_difference(found[name], expected[name])
    for name in expected
  }
  logits, loss = differences.pop("logits"), differences.pop("loss")
  worst = max(differences, key=differences.get)
  report("states", logits)
  report(worst, differences[worst])
  assert logits < variants.LOGITS_TOLERANCE
  assert loss < variants.LOSS_TOLERANCE
  assert differences[worst] < variants.GRADIENT_TOLERANCE, worst


def test_what_is_recorded_is_what_is_computed():
  _, _, params = elmo.setting()
  found = reference_elmo.outputs(params)
  variants.assert_recorded(elmo.PATH, params, elmo.BATCH, found)
  unbounded = reference_elmo.outputs(params, clip=3.0)
  assert np.abs(unbounded["logits"] - found["logits"]).max() > 0.1


def test_features_are_a_learned_mix_of_all_layers(report):
  model, params = elmo.features()
  found = programs.apply(model, {"params": params}, elmo.BATCH, method="hidden")
  difference = tiny_t5.largest_difference(
    elmo.at_tokens(found), reference_elmo.features(params)
  )
  report("features", difference)
  assert difference < variants.LOGITS_TOLERANCE
