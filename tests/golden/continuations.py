"""Prompts that decoder-only models continue, compared with `transformers`."""

import functools
import pathlib

import jax
import numpy as np

from tests import tiny_models
from tests.golden import t5
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions

ARCHITECTURES = ("gpt_2", "llama")
# Prompts of the live comparison; the recorded one has the first of them.
PROMPTS = 200
RECORDED = 12
LONGEST = 9
MADE = 14
EOS = 1
ENDS = (EOS, 12, 5)  # where a model has several
# What theirs are padded with, at their beginning: no n-gram has it.
PAD = 0

# Name -> (our options, theirs).
WAYS = {
  "greedy": ({}, {}),
  "constrained_greedy": (
    {"no_repeat_ngram_size": 2, "min_length": 6},
    {"no_repeat_ngram_size": 2, "min_new_tokens": 5},
  ),
  "beams": (
    {"num_beams": 4, "num_return": 2},
    {"num_beams": 4, "num_return_sequences": 2},
  ),
  "first_finished": (
    {"num_beams": 3, "alpha": 0.6, "early_stopping": True, "num_return": 2},
    {
      "num_beams": 3,
      "length_penalty": 0.6,
      "early_stopping": True,
      "num_return_sequences": 2,
    },
  ),
  "constrained_beams": (
    {
      "num_beams": 4,
      "alpha": 0.0,
      "early_stopping": "never",
      "no_repeat_ngram_size": 3,
      "min_length": 4,
    },
    {
      "num_beams": 4,
      "length_penalty": 0.0,
      "early_stopping": "never",
      "no_repeat_ngram_size": 3,
      "min_new_tokens": 3,
    },
  ),
  "penalised_greedy": (
    {"repetition_penalty": 1.1},
    {"repetition_penalty": 1.1},
  ),
  "penalised_beams": (
    {"num_beams": 4, "num_return": 2, "repetition_penalty": 1.1},
    {"num_beams": 4, "num_return_sequences": 2, "repetition_penalty": 1.1},
  ),
  "beams_of_three_ends": (
    {"num_beams": 4, "num_return": 2, "end_ids": ENDS, "min_length": 3},
    {
      "num_beams": 4,
      "num_return_sequences": 2,
      "eos_token_id": list(ENDS),
      "min_new_tokens": 2,
    },
  ),
}


def path(architecture: str) -> pathlib.Path:
  """Where their outputs are recorded."""
  return pathlib.Path(__file__).parent / f"continuations_{architecture}.npz"


def prompts(rows: int = PROMPTS) -> tuple[np.ndarray, np.ndarray]:
  """Ids padded at their end, and their lengths, 1 to `LONGEST`."""
  random = np.random.RandomState(1)
  ids = random.randint(3, tiny_models.TINY["VOCAB_SIZE"], (PROMPTS, LONGEST))
  lengths = random.randint(1, LONGEST + 1, PROMPTS).astype(np.int32)
  ids = np.where(np.arange(LONGEST) < lengths[:, None], ids, PAD)
  return ids[:rows].astype(np.int32), lengths[:rows]


@functools.cache
def setting(architecture: str):
  """Our model and its weights, of which EOS comes more often."""
  # GPT-2's heads are as wide as the model together.
  model, _ = tiny_models.build(architecture, HEAD_DIM=6)
  params = tiny_models.random_parameters(model)
  if architecture == "llama":
    params["decoder"]["logits_dense"]["kernel"][:, EOS] *= 1.3
  else:
    # Along what the last norm adds to everything.
    constant = params["decoder"]["decoder_norm"]["bias"]
    params["token_embedder"]["embedding"][EOS] = 0.75 * constant
  return model, params


def checksum(architecture: str) -> int:
  """Tells a changed seed from a bug."""
  _, params = setting(architecture)
  ids, lengths = prompts(RECORDED)
  return t5.checksum(params, {"ids": ids, "lengths": lengths})


def ours(architecture: str, way: str, rows: int = PROMPTS):
  """Our tokens [rows * returned, MADE] and their scores."""
  model, params = setting(architecture)
  options = DecodingOptions(
    **WAYS[way][0], beam_rules="transformers", start_before_prompt=False
  )
  ids, lengths = prompts(rows)
  outputs = jax.jit(
    functools.partial(
      generate, model, max_length=MADE, options=options, eos_id=EOS
    )
  )(params, ids, lengths_B=lengths)
  tokens, scores = jax.device_get((outputs.tokens, outputs.scores))
  return tokens.reshape(-1, MADE), scores.reshape(-1)
