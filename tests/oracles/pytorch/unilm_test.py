"""UniLM beside BERT's class with a mask for each row: make test-oracles."""

import numpy as np

from tests import tiny_models
from tests.golden import encoders
from tests.oracles.pytorch import huggingface
from transformer_zoo.corruption.unified_lm import TOKEN_TYPES
from transformer_zoo.interop.huggingface import family_of

# Of each kind of attention: the tokens of both segments.
SEGMENTS = ((5, 4), (4, 7), (6, 3), (3, 5))
LENGTH = 11


def sees(kind: int, first: int, second: int) -> np.ndarray:
  """[L, L], the squares of figure 1 of Dong et al. 2019, filled one by one."""
  seen_LL = np.zeros((LENGTH, LENGTH), bool)
  real = first + second
  if kind == 0:
    seen_LL[:real, :real] = True
  elif kind == 1:
    seen_LL[:first, :first] = True
    for query in range(first, real):
      seen_LL[query, : query + 1] = True
  else:
    for query in range(real):
      keys = range(query + 1) if kind == 2 else range(query, real)
      seen_LL[query, list(keys)] = True
  return seen_LL


def test_logits_and_gradient_of_every_parameter(report):
  """A row of each kind, with the six token types and padding."""
  model, _ = tiny_models.build("unilm", HEAD_DIM=6, MAX_POSITIONS=LENGTH)
  params = tiny_models.random_parameters(model)
  tokens = np.random.RandomState(0).randint(4, 48, (4, LENGTH))
  types = np.zeros_like(tokens)
  for kind, (first, second) in enumerate(SEGMENTS):
    tokens[kind, first + second :] = 0
    types[kind, : first + second] = np.repeat(TOKEN_TYPES[kind], SEGMENTS[kind])
  batch = {
    "encoder_input_tokens": tokens.astype(np.int32),
    "encoder_token_types": types.astype(np.int32),
    "attention_kind": np.arange(4, dtype=np.int32),
  }
  found = encoders.outputs(model, params, batch)
  config = family_of({"model_type": "bert"}).config(model)
  assert config["architectures"] == ["BertForMaskedLM"]
  seen_BLL = np.stack([sees(i, *lengths) for i, lengths in enumerate(SEGMENTS)])
  theirs = huggingface.encoder_outputs(
    config, model, params, batch, seen_BLL=seen_BLL
  )
  assert set(found) == set(theirs)
  differences = {
    name: np.abs(found[name] - expected).max() / np.abs(expected).max()
    for name, expected in theirs.items()
    if not name.endswith("key/bias")  # It cancels in the softmax.
  }
  logits = differences.pop("logits")
  worst = max(differences, key=differences.get)
  report("logits", logits)
  report(worst, differences[worst])
  assert logits < 2e-5
  assert differences[worst] < 1e-4, worst
