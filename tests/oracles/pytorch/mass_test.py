"""MASS beside BART's class, whose layers it has: make test-oracles."""

import numpy as np

from tests import tiny_models
from tests.golden import variants
from tests.oracles.pytorch import huggingface
from transformer_zoo.interop.huggingface import family_of

POSITIONS = 28


def moved(positions_PD: np.ndarray) -> np.ndarray:
  """Rows behind one row for padding, as rows behind two."""
  return np.pad(positions_PD, ((1, 0), (0, 0)))


def test_logits_loss_and_gradient_of_every_parameter(report):
  model, converter = tiny_models.build(
    "mass", NUM_HEADS=3, MAX_POSITIONS=POSITIONS
  )
  params = tiny_models.random_parameters(model)
  batch = tiny_models.lay_out(
    converter, variants.examples(), packing=False, width=POSITIONS
  )
  assert (batch["decoder_input_tokens"][:, 0] == 102).all()
  # No id of so small a vocabulary; the first tokens are those of another.
  batch["decoder_input_tokens"][:, 0] = 2
  found = variants.outputs(model, params, batch)
  sides = ("encoder", "decoder")
  for side in sides:
    table = params[side]["position_embedder"]
    params[side]["position_embedder"] = {
      "pos_embedding": moved(table["pos_embedding"])
    }
  described = family_of({"model_type": "bart"}).config(model)
  theirs = huggingface.outputs(described, model, params, batch)
  for side in sides:
    name = f"gradient/{side}/position_embedder/pos_embedding"
    found[name] = moved(found[name])
  assert set(found) == set(theirs)
  differences = {
    name: np.abs(found[name] - expected).max() / np.abs(expected).max()
    for name, expected in theirs.items()
    if not name.endswith("key/bias")  # It cancels in the softmax.
  }
  logits, loss = differences.pop("logits"), differences.pop("loss")
  worst = max(differences, key=differences.get)
  report("logits", logits)
  report(worst, differences[worst])
  assert logits < variants.LOGITS_TOLERANCE
  assert loss < variants.LOSS_TOLERANCE
  assert differences[worst] < variants.GRADIENT_TOLERANCE, worst
