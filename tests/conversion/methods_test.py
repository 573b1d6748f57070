"""What of a fine-tuned run a conversion can use."""

import dataclasses

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.conversion import methods
from transformer_zoo.conversion import sources
from transformer_zoo.errors import UserError
from transformer_zoo.peft import exchange
from transformer_zoo.peft import lora
from transformer_zoo.peft import prefixes
from transformer_zoo.runs.loading import loaded_checkpoint
from transformer_zoo.tensors.lazy_tensors import Tensor


def source_of(name, **macros):
  model, _ = tiny_models.build("t5_1_1", f"../peft/{name}.gin", **macros)
  flat = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  parameters = {n: Tensor.of(np.asarray(leaf)) for n, leaf in flat.items()}
  return sources.Source(sources.ZOO, "runs/x", parameters, model=model)


def test_a_merged_method_leaves_the_model_of_its_base():
  found = methods.merged(source_of("lora", LORA_RANK=2))
  assert not any("lora" in name for name in found.parameters)


def test_biases_that_bitfit_adds_cannot_be_merged():
  sentence = (
    "--merge: merged, the model of 'runs/x' differs from its base .*use_bias"
    ": True instead of False.*; use the run as it is"
  )
  with pytest.raises(UserError, match=sentence):
    methods.merged(source_of("bitfit"))


def trained(source, record, modules=()):
  return exchange.Trained(
    "'runs/x'", source.model, source.parameters, record.adds, modules, (), None
  )


def test_networks_of_prefixes_are_written_as_what_they_give():
  found = source_of(
    "prefix",
    PREFIX_LENGTH=3,
    PREFIX_HIDDEN=5,
    PREFIX_ATTENTIONS="decoder/.*self_attention",
    **{"positions_after_prefix.biased": True},
  )
  (with_networks,) = prefixes.PREFIX.exchanges
  settings, tensors = with_networks.write(trained(found, prefixes.PREFIX))
  assert settings["num_virtual_tokens"] == 3
  arrays = {name: tensor.read() for name, tensor in found.parameters.items()}
  expected = []
  for layer in range(2):
    place = f"decoder/layers_{layer}/self_attention/prefix"
    kernel, bias = ([arrays[f"{place}/w{side}/{leaf}"] for side in "io"]
                    for leaf in ("kernel", "bias"))  # fmt: skip
    hidden = np.tanh(arrays[f"{place}/embedding"] @ kernel[0] + bias[0])
    key, value = np.split(hidden @ kernel[1] + bias[1], 2, axis=-1)
    # Those of the attention to the encoder, which are dropped.
    expected += [key, value, 0 * key, 0 * value]
  np.testing.assert_allclose(
    tensors["prompt_embeddings"], np.concatenate(expected, axis=1), 1e-4, 1e-5
  )


def test_a_directory_holds_all_of_one_method():
  """Places that the class has no module for were left out in silence."""
  found = source_of("lora", LORA_RANK=2)
  place = "decoder/layers_0/self_attention/query"
  own = {n: t for n, t in found.parameters.items() if n.startswith(place)}
  key = {n.replace("query", "key"): t for n, t in own.items()}
  found = dataclasses.replace(found, parameters=own | key)
  modules = [exchange.Module("block.q", (place,))]
  written = trained(found, lora.LORA, modules)
  (with_peft,) = lora.LORA.exchanges
  with_peft.write(written)
  sentence = f"has {place.replace('query', 'key')}/lora_a, and the class of its"
  with pytest.raises(UserError, match=sentence):
    written.check_written("peft")
  found = source_of("lora_adapters", LORA_RANK=2, ADAPTER_DIM=4)
  sentence = (
    "a directory of `peft` has one of the methods .*lora, .*; this model has "
    "Adapted.*, LoraLinear"
  )
  with pytest.raises(UserError, match=sentence):
    methods.write_directory(None, found, "peft")


def test_a_prompt_is_not_left_out_in_silence(monkeypatch):
  found = source_of("prompt", PROMPT_LENGTH=5)
  monkeypatch.setattr(sources, "open_source", lambda path: found)
  with pytest.raises(UserError, match="'x' reads a prompt of 5 vectors before"):
    loaded_checkpoint.open_checkpoint("x")
