"""Continuations of prompts by GPT2LMHeadModel and LlamaForCausalLM.

Prompts are padded at their beginning, with a mask; `generate` makes positions
of the mask.
"""

import numpy as np
import torch

from tests.golden import continuations
from tests.oracles.pytorch import huggingface
from transformer_zoo.interop.huggingface import family_of

MODEL_TYPES = {"gpt_2": "gpt2", "llama": "llama"}


def build(architecture: str):
  """Theirs, with the weights of `continuations.setting`."""
  model, params = continuations.setting(architecture)
  family = family_of({"model_type": MODEL_TYPES[architecture]})
  return huggingface.load(family.config(model), params)


def generate(
  theirs, way: str, rows: int = continuations.PROMPTS
) -> tuple[np.ndarray, np.ndarray | None]:
  """Tokens as `continuations.ours` gives them, and beams' scores."""
  ids, lengths = continuations.prompts(rows)
  shifts = continuations.LONGEST - lengths
  mask = np.arange(continuations.LONGEST) >= shifts[:, None]
  left = np.full(ids.shape, continuations.PAD)
  left[mask] = ids[np.arange(continuations.LONGEST) < lengths[:, None]]
  keywords = {"num_beams": 1, "eos_token_id": continuations.EOS}
  keywords |= continuations.WAYS[way][1]
  made = theirs.generate(
    input_ids=torch.tensor(left, dtype=torch.long),
    attention_mask=torch.tensor(mask, dtype=torch.long),
    max_new_tokens=continuations.MADE,
    do_sample=False,
    pad_token_id=continuations.PAD,
    return_dict_in_generate=True,
    output_scores=True,
    **keywords,
  )
  tokens = made.sequences[:, continuations.LONGEST :].numpy()
  tokens = np.pad(tokens, ((0, 0), (0, continuations.MADE - tokens.shape[1])))
  is_end = np.isin(tokens, keywords["eos_token_id"])
  ended = np.cumsum(is_end, axis=1) - is_end > 0
  tokens = np.where(ended, continuations.PAD, tokens).astype(np.int32)
  if keywords["num_beams"] == 1:
    return tokens, None
  return tokens, made.sequences_scores.numpy()
