"""XLNet's classes, read from the last token, live."""

import jax.numpy as jnp
import numpy as np
import torch

from tests.golden import families
from tests.oracles.pytorch import huggingface
from tests.oracles.pytorch.span_beam_test import CONFIG as BEAM

CONFIG = BEAM | {
  "architectures": ["XLNetForSequenceClassification"],
  "summary_type": "last",
  "num_labels": 4,
}


def test_classes_of_the_last_token():
  model = families.build(CONFIG)
  params = families.weights(model)
  theirs = huggingface.load(CONFIG, params)
  tokens = np.random.RandomState(0).randint(4, 45, (3, 9))
  types = np.tile([0, 0, 0, 0, 1, 1, 1, 1, 2], (3, 1))
  expected = theirs(
    torch.tensor(tokens), token_type_ids=torch.tensor(types)
  ).logits
  batch = {"encoder_input_tokens": tokens, "encoder_token_types": types}
  hidden = model.apply({"params": params}, batch, method="hidden")
  found = model.apply(
    {"params": params},
    hidden,
    "classes",
    places_BP=jnp.full((3, 1), 8),
    method="logits",
  )
  np.testing.assert_allclose(
    found[:, 0], expected.detach().numpy(), rtol=1e-4, atol=1e-5
  )
