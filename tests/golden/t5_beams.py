"""Searches that are compared with those of `transformers`, and on what."""

import pathlib

import jax
import numpy as np

from tests import tiny_t5
from tests.golden import t5
from transformer_zoo.decoding.options import DecodingOptions

PATH = pathlib.Path(__file__).parent / "t5_beams.npz"
SIZES = {"NUM_ENCODER_LAYERS": 2, "NUM_DECODER_LAYERS": 2, "VOCAB_SIZE": 40}
# Prompts of the live comparison; the recorded one has the first of them.
PROMPTS = 200
RECORDED = 12
MADE = 16

# Name -> (our options, theirs).
WAYS = {
  "default": ({"num_beams": 4}, {}),
  "penalised": (
    {"num_beams": 4, "alpha": 2.0, "early_stopping": "never"},
    {"length_penalty": 2.0, "early_stopping": "never"},
  ),
  "long_is_bad": (
    {"num_beams": 3, "alpha": -1.0, "early_stopping": "never"},
    {"length_penalty": -1.0, "early_stopping": "never"},
  ),
  "no_penalty": (
    {"num_beams": 5, "alpha": 0.0, "early_stopping": "never"},
    {"length_penalty": 0.0, "early_stopping": "never"},
  ),
  "first_finished": (
    {"num_beams": 4, "alpha": 0.6, "early_stopping": True},
    {"length_penalty": 0.6, "early_stopping": True},
  ),
  "constrained": (
    {"num_beams": 4, "no_repeat_ngram_size": 2, "min_length": 6},
    {"no_repeat_ngram_size": 2, "min_length": 6},
  ),
  "forced": (
    {"num_beams": 2, "forced_prefix": (7,)},
    {"forced_bos_token_id": 7},
  ),
}
RETURNED = 2


def options(way: str) -> DecodingOptions:
  """Ours."""
  return DecodingOptions(
    **WAYS[way][0], num_return=RETURNED, beam_rules="transformers"
  )


def their_options(way: str) -> dict:
  """Theirs."""
  ours, theirs = WAYS[way]
  return {
    **theirs,
    "num_beams": ours["num_beams"],
    "num_return_sequences": RETURNED,
  }


def setting(rows: int):
  """Our model, its weights, with a likelier EOS, and prompts."""
  model = tiny_t5.build("t5_1_1", **SIZES)
  params = tiny_t5.random_parameters(model, seed=3)
  params["decoder"]["logits_dense"]["kernel"][:, 1] *= 1.5
  batch = tiny_t5.random_batch(5, rows=PROMPTS, vocab_size=SIZES["VOCAB_SIZE"])
  return model, params, batch["encoder_input_tokens"][:rows]


def checksum(params, inputs) -> int:
  """Tells a changed seed from a bug."""
  return t5.checksum(params, {"inputs": np.asarray(inputs)})


def by_rows(outputs) -> tuple[np.ndarray, np.ndarray]:
  """Tokens and scores as theirs: outputs of a row one below another."""
  tokens, scores = jax.device_get((outputs.tokens, outputs.scores))
  return tokens.reshape(-1, tokens.shape[-1]), scores.reshape(-1)
