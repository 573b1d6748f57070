"""A tiny ELMo, and what is compared of it with an implementation in PyTorch.

tests/oracles/pytorch/reference_elmo.py computes it from the definitions, live
in elmo_test.py beside it; what it computed is recorded by make_goldens.py and
compared without PyTorch by tests/architectures/elmo_test.py.
"""

import gin
import numpy as np

from tests import tiny_models
from tests.golden import families
from tests.golden import variants
from transformer_zoo import config
from transformer_zoo.objectives import terms

PATH = families.path("elmo")
WIDTH, UNITS = 6, 10
# Many cells and some states are beyond it.
CLIP = 0.2
# Two texts in a row, and one with padding behind it.
BATCH = {
  "encoder_input_tokens": np.array(
    [[5, 7, 9, 8, 11, 6, 4], [12, 13, 5, 14, 0, 0, 0]], np.int32
  ),
  "encoder_segment_ids": np.array(
    [[1, 1, 1, 2, 2, 2, 2], [1, 1, 1, 1, 0, 0, 0]], np.int32
  ),
}
# The row, the first place and the one behind the last.
TEXTS = ((0, 0, 3), (0, 3, 7), (1, 0, 4))


def load(clip: float, *files: str, **settings):
  """The model and the objective of gin files after the architecture's."""
  settings |= {
    "EMBED_DIM": WIDTH,
    "LSTM_UNITS": UNITS,
    "VOCAB_SIZE": 15,
    "NUM_ENCODER_LAYERS": 2,
    "LstmLayer.clip": clip,
    "MIXTURE_OR_TASK_NAME": "none",
    "MODEL_DIR": "none",
  }
  config.load(
    ["architectures/elmo.gin", *files],
    [f"{name}={value!r}" for name, value in settings.items()],
  )
  return config.value("MODEL"), gin.get_bindings("train")["objective"]


def setting(clip: float = CLIP):
  """Returns a language model in both directions, its objective and weights."""
  model, objective = load(clip, "runs/pretrain.gin", "objectives/elmo.gin")
  return model, objective, tiny_models.random_parameters(model)


def features():
  """Returns a frozen model with a learned mix of its layers, and weights."""
  model, _ = load(
    CLIP,
    "runs/finetune.gin",
    "heads/tags.gin",
    "peft/features.gin",
    FEATURE_LAYERS=(0, 1, 2),
    FEATURE_MIX="learned",
  )
  return model, tiny_models.random_parameters(model)


def outputs(model, objective, params, *, gradient=True):
  """The last states [tokens, 2 D], the loss, and its gradient by parameter."""
  loss, states_BLX, slopes = variants.computed(
    _total, (model, objective), params, BATCH, gradient
  )
  return {"logits": at_tokens(states_BLX), "loss": loss, **slopes}


def _total(params, model_and_objective, batch):
  model, objective = model_and_objective
  states_BLX = model.apply({"params": params}, batch, method="hidden")
  return terms.loss(objective(model, params, batch)), states_BLX


def at_tokens(states_BLX) -> np.ndarray:
  """The states of all texts, one below another."""
  return np.concatenate([states_BLX[b, i:j] for b, i, j in TEXTS])
