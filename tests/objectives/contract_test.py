"""What the objectives of models that write keep; encoders' losses are tested
with their heads (tests/architectures/encoder_only_test.py)."""

import copy
import functools

import gin
import jax
import numpy as np
import pytest

from tests import programs
from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.objectives import terms
from transformer_zoo.training import step as step_lib

KEY = jax.random.key(0)
# The file of an objective -> an architecture whose batches it reads.
OBJECTIVES = {
  "objectives/span_3.gin": "t5_1_0",
  "objectives/prefix_lm.gin": "prefix_lm",
}


def objective_of(file, model):
  """(params, batch, key) -> terms, as a run has it after this file."""
  whole = [f"architectures/{OBJECTIVES[file]}.gin", "sizes/tiny.gin"]
  config.load(
    [*whole, "runs/pretrain.gin", file],
    ["MODEL_DIR=''", "MIXTURE_OR_TASK_NAME=''"],
    allow_unused=True,
  )
  bound = gin.query_parameter("train.objective")
  objective = copy.deepcopy(bound)  # builds what gin refers to
  gin.clear_config()
  return functools.partial(objective, model)


@pytest.mark.slow
@pytest.mark.parametrize("file", OBJECTIVES)
def test_terms_have_weights_of_the_batch_and_add_up_in_parts(file):
  model, converter = tiny_models.build(OBJECTIVES[file])
  model = tiny_models.shallow(model)
  objective = objective_of(file, model)
  params = tiny_models.random_parameters(model)
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=False
  )
  batch["decoder_loss_weights"][1] = 0  # A row may have no weight.
  other = {**batch, "decoder_target_tokens": batch["decoder_target_tokens"] + 0}
  other["decoder_target_tokens"][1] += 1

  def found(params, other_params, batch, other):
    of_parts = functools.partial(step_lib.gradients_of, objective)
    return {
      "loss": terms.loss(objective(params, other, KEY)),
      "whole": of_parts(params, batch, KEY, num_microbatches=1),
      "parts": of_parts(params, batch, KEY, num_microbatches=2),
      "weights": [
        {name: term.weight for name, term in objective(p, batch, KEY).items()}
        for p in (params, other_params)
      ],
      "expected": terms.loss(objective(params, batch, KEY)),
    }

  others = jax.tree.map(lambda leaf: 2 * leaf, params)
  values = programs.run(found, params, others, batch, other)
  first, second = values["weights"]
  assert first == second and all(weight > 0 for weight in first.values())
  assert values["loss"] == values["expected"] > 0
  for mine, expected in zip(
    *map(jax.tree.leaves, (values["parts"], values["whole"])), strict=True
  ):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(mine, expected, rtol=2e-4, atol=1e-5 * scale)
