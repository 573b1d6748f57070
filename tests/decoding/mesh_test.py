"""Decoding on every mesh of 8 devices gives what one device gives."""

import functools

import jax
import numpy as np
import pytest

from tests import rule_sets
from tests import tiny_models
from tests import tiny_t5
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.sharding import partitioning as partitioning_lib

SWITCH = "feed_forward/switch.gin"
WAYS = {
  "beams": DecodingOptions(num_beams=3, num_return=2, min_length=3),
  "samples": DecodingOptions(temperature=1.0, top_p=0.9, num_return=2),
}


@functools.cache
def setting(kind):
  inputs = tiny_t5.random_batch(rows=8, vocab_size=48)["encoder_input_tokens"]
  if kind == "decoder_only":
    model, _ = tiny_models.build("prefix_lm", NUM_DECODER_LAYERS=1)
    return model, tiny_models.random_parameters(model), inputs
  if kind == "experts":
    model, _ = tiny_models.build(
      "prefix_lm", SWITCH, NUM_DECODER_LAYERS=1, NUM_EXPERTS=4
    )
    return model, tiny_models.random_parameters(model), inputs
  model = tiny_t5.build(
    NUM_HEADS=8, VOCAB_SIZE=64, NUM_ENCODER_LAYERS=1, NUM_DECODER_LAYERS=1
  )
  return model, tiny_t5.random_parameters(model), inputs


def decode(kind, way):
  return jax.jit(
    functools.partial(
      generate, setting(kind)[0], max_length=8, options=WAYS[way]
    )
  )


@functools.cache
def on_one_device(kind, way):
  _, params, inputs = setting(kind)
  return decode(kind, way)(params, inputs, example_ids_B=np.arange(8))


# Two axes and a cache of prompts are in the first one.
@pytest.mark.slow
@pytest.mark.parametrize(
  ("kind", "way", "name"),
  [
    ("decoder_only", "beams", "two_dimensional"),
    ("experts", "beams", "expert_parallel"),
    ("encoder_decoder", "beams", "sequence"),
    ("encoder_decoder", "beams", "sequence_parallel"),
    ("encoder_decoder", "samples", "two_dimensional"),
    ("encoder_decoder", "samples", "fully_sharded"),
  ],
)
def test_equals_one_device(kind, way, name):
  model, params, inputs = setting(kind)
  if kind == "experts":
    partitioning = rule_sets.load(name, EXPERT=4)
  elif name == "sequence_parallel":
    partitioning = rule_sets.load(name, SEQUENCE=4)
  else:
    partitioning = rule_sets.build(name)
  mesh = partitioning.mesh()
  boxed = state_lib.abstract_variables(model)
  partitioning.check(mesh, boxed, len(inputs))
  with partitioning.activate(mesh):
    laid_out = jax.device_put(
      params, partitioning.shardings(mesh, boxed, params)
    )
    batch = partitioning_lib.put_whole_batch(
      {"inputs": inputs, "ids": np.arange(8)}, mesh
    )
    lowered = decode(kind, way).lower(
      laid_out, batch["inputs"], example_ids_B=batch["ids"]
    )
    found = lowered.compile()(
      laid_out, batch["inputs"], example_ids_B=batch["ids"]
    )
  expected = on_one_device(kind, way)
  np.testing.assert_array_equal(found.tokens, expected.tokens)
  np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
  # Caches [B, H, K, slots] are laid out like the model: heads over `model`.
  heads, slots = 8, 8 * (3 if way == "beams" else 2)
  if kind != "encoder_decoder":
    heads, slots = 4, slots + inputs.shape[1]
  caches = [
    line
    for line in lowered.as_text().splitlines()
    if "sharding_constraint" in line
    and f"tensor<8x{heads}x8x{slots}xf32>" in line
  ]
  rows = '"data", "fsdp"' + ', "expert"' * (kind == "experts")
  of_slots = '"sequence"' * (name == "sequence_parallel")
  assert caches and all(
    f'{{{rows}}}, {{"model"}}, {{}}, {{{of_slots}}}' in c for c in caches
  )
