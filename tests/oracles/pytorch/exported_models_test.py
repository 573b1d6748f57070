"""Models of ours that no config.json describes as they stand, live.

Their directory is written as `zoo convert` writes it, and their class computes
and makes what ours does (make test-oracles).
"""

import dataclasses
import functools

from flax import traverse_util
import jax
import numpy as np
import pytest
import torch

from tests import tiny_models
from tests import tiny_t5
from tests.golden import families
from tests.oracles.pytorch import huggingface
from transformer_zoo.conversion import exported_directory
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.tensors.lazy_tensors import Tensor

LOGITS_TOLERANCE = 2e-5
MADE = 14
# Heads as wide as the model.
SIZES = {"NUM_HEADS": 4, "HEAD_DIM": 6, "VOCAB_SIZE": families.VOCAB_SIZE}
TWO_TABLES = (
  "EncoderDecoder.target_embedder=@target/Embed()",
  "target/Embed.num_embeddings=45",
)
WITHOUT_BIASES = tuple(
  f"{name}/Linear.use_bias=False" for name in ("query", "key", "value")
)
# Name -> their class, gin files and bindings (docs/reference/conversion.md).
MODELS = {
  "transformer_2017": ("MarianMTModel", ("transformer_2017",), ()),
  "two_tables": ("MarianMTModel", ("transformer_2017",), TWO_TABLES),
  "gpt_3": (
    "GPTNeoForCausalLM",
    ("gpt_3", "attention/scale_in_initialization.gin"),
    ("Windows.sizes=(None, 5)", *WITHOUT_BIASES),
  ),
}
WAYS = {
  "greedy": (DecodingOptions(), {"num_beams": 1}),
  "beams": (
    DecodingOptions(num_beams=4, num_return=2, beam_rules="transformers"),
    {"num_beams": 4, "num_return_sequences": 2},
  ),
}


@pytest.fixture(scope="module", params=MODELS)
def pair(request, tmp_path_factory):
  """Our model, its weights, and their model of the directory."""
  name, files, bindings = MODELS[request.param]
  model, _ = tiny_models.build(*files, bindings=bindings, **SIZES)
  params = families.weights(model)
  flat = traverse_util.flatten_dict(params, sep="/")
  folder = tmp_path_factory.mktemp(request.param)
  exported_directory.write(
    folder,
    model,
    {name: Tensor.of(array) for name, array in flat.items()},
    said={"eos_token_id": 1},
  )
  theirs = huggingface.open_directory(folder)
  assert type(theirs).__name__ == name
  return model, params, theirs


def test_logits(pair, report):
  model, params, theirs = pair
  batch = families.batch_for(model)
  logits = model.apply({"params": params}, batch, method="all_logits")["tokens"]
  expected, _ = huggingface.logits_and_loss(theirs, batch, model.pad_id)
  real = batch["decoder_target_tokens"] != model.pad_id
  difference = tiny_t5.largest_difference(
    np.asarray(logits)[real], expected.detach().numpy()[real]
  )
  report("logits", difference)
  assert difference < LOGITS_TOLERANCE


@pytest.mark.parametrize("way", WAYS)
def test_outputs(pair, way):
  model, params, theirs = pair
  options, keywords = WAYS[way]
  has_encoder = model.offers.has_encoder
  batch = families.batch_for(model)
  inputs = batch["encoder_input_tokens" if has_encoder else
                 "decoder_target_tokens"]  # fmt: skip
  found = jax.jit(
    functools.partial(
      generate,
      model,
      max_length=MADE,
      options=dataclasses.replace(options, start_before_prompt=has_encoder),
      pad_id=model.pad_id,
    )
  )(params, inputs).tokens
  for row, rows in zip(inputs, np.asarray(found), strict=True):
    prompt = torch.tensor(row[None, row != model.pad_id].astype(np.int64))
    made = theirs.generate(
      prompt,
      max_new_tokens=MADE,
      do_sample=False,
      pad_token_id=model.pad_id,
      **keywords,
    )
    made = made[:, 1 if has_encoder else prompt.shape[1] :].numpy()
    missing = MADE - made.shape[1]
    made = np.pad(made, ((0, 0), (0, missing)), constant_values=model.pad_id)
    np.testing.assert_array_equal(rows, made)
