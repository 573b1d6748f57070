"""Families: every parameter has its tensor, and nothing is passed over."""

import re

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_models
from tests import tiny_t5
from tests.golden import families
from tests.interop.huggingface import published
from transformer_zoo import config as zoo_config
from transformer_zoo.conversion import exported_directory
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.modules import comparison
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import parameters_of
from transformer_zoo.tensors.links import to_theirs
from transformer_zoo.training import state


@pytest.mark.parametrize("name", families.CONFIGS)
def test_links_are_the_parameters_and_the_configuration_comes_back(name):
  config = families.CONFIGS[name]
  if not {"attention_types", "layer_types"} & config.keys():  # of every layer
    config = families.with_layers(config, 1)
  family = family_of(config)
  model = families.build(config)
  links = family.links(config)
  parameters = traverse_util.flatten_dict(state.abstract_params(model), sep="/")
  read = [link for link in links if not link.only_written]
  assert parameters_of(read) == parameters.keys()
  assert len({name for link in read for name in link.ours}) == sum(
    len(link.ours) for link in read
  )
  assert len({link.theirs for link in links}) == len(links)
  again = families.build(family.config(model))
  assert not comparison.differences(model, again)
  assert again.pad_id == model.pad_id


def test_published_gpt():
  model = families.build(published.GPT)
  assert model.pad_id == 0
  assert model.token_embedder.num_embeddings == 40478
  assert model.decoder.transformer.norm is None
  layer = model.decoder.transformer.layer_stack.layer
  assert (layer.mlp.d_ff, layer.mlp.activation) == (3072, "gelu")
  assert (layer.dropout.rate, layer.mlp.dropout.rate) == (0.1, 0.0)


def test_published_gpt_2_pads_with_eos():
  model = families.build(published.GPT_2)
  assert model.pad_id == 50256
  assert model.decoder.transformer.position_embedder.num_positions == 1024


def test_published_gpt_neo():
  transformer = families.build(published.GPT_NEO).decoder.transformer
  stack = transformer.layer_stack
  assert transformer.by_layer[0].sizes == (None, 256)
  assert not stack.layer.self_attention.scale_scores
  assert not stack.layer.self_attention.key.use_bias
  assert stack.layer.self_attention.out.use_bias
  assert stack.layer.mlp.d_ff == 8192


def test_published_bloom():
  """Of bloom-560m, as it lies on the hub."""
  model = families.build(published.BLOOM)
  assert (model.pad_id, model.token_embedder.num_embeddings) == (3, 250880)
  transformer = model.decoder.transformer
  assert transformer.position_embedder is None
  assert transformer.position_bias.num_heads == 16
  assert transformer.input_norm is not None
  stack = transformer.layer_stack
  assert (stack.num_layers, stack.layer.mlp.d_ff) == (24, 4096)
  assert stack.layer.dropout.rate == transformer.dropout.rate == 0.0


@pytest.mark.parametrize(
  ("binding", "said"),
  [
    (
      "MLP_DIM=40",
      "bloom models have feed-forward networks of four times hidden_size, 96 "
      "and not 40; set MLP_DIM to it",
    ),
    (
      "HEAD_DIM=7",
      "bloom models have heads that divide hidden_size; set HEAD_DIM to "
      "EMBED_DIM / NUM_HEADS",
    ),
  ],
)
def test_a_shape_that_bloom_has_not(binding, said):
  config = families.CONFIGS["bloom"]
  architecture = family_of(config).architecture(config)
  model = zoo_config.build(
    "MODEL", architecture.gin_files, [*architecture.as_overrides(), binding]
  )
  with pytest.raises(UserError, match=f"^{re.escape(said)}$"):
    family_of(config).config(model)


@pytest.mark.parametrize(
  "change",
  [
    {"apply_residual_connection_post_layernorm": True},
    {"n_inner": 36},
    {"slow_but_exact": True},
    {"alibi": False},
  ],
)
def test_what_bloom_has_not_is_refused_by_name(change):
  (name,) = change
  with pytest.raises(UserError, match=name):
    families.build({**families.CONFIGS["bloom"], **change})


def test_published_llama_3():
  model = families.build(published.LLAMA_3)
  assert model.pad_id == 128001
  attention = model.decoder.transformer.layer_stack.layer.self_attention
  assert attention.num_kv_heads == 8
  assert (attention.rotary.theta, attention.rotary.stretch) == (5e5, 32.0)
  assert attention.rotary.trained_length == 8192


def test_published_bart():
  """Of bart-large-cnn and mbart-large-cc25, as they lie on the hub."""
  model = families.build(published.BART_CNN)
  assert (model.pad_id, model.token_embedder.num_embeddings) == (1, 50264)
  transformer = model.decoder.transformer
  assert transformer.position_embedder.num_positions == 1024
  assert transformer.position_embedder.offset == 2
  assert transformer.norm is None and transformer.input_norm is not None
  assert not model.token_embedder.multiply_by_sqrt_depth
  model = families.build(published.MBART)
  assert model.token_embedder.multiply_by_sqrt_depth
  assert model.encoder.norm is not None


@pytest.mark.parametrize(
  ("kind", "change"),
  [
    ("bart", {"normalize_before": True}),
    ("mbart", {"normalize_before": False}),
    ("bart", {"encoder_layerdrop": 0.1}),
    ("bart", {"static_position_embeddings": True}),
    ("mbart", {"tie_word_embeddings": False}),
    ("bart", {"some_attribute": 1}),
  ],
)
def test_what_bart_has_not_is_refused_by_name(kind, change):
  (name,) = change
  with pytest.raises(UserError, match=name):
    families.build({**families.CONFIGS[kind], **change})


def test_published_opus_mt():
  model = families.build(published.OPUS_MT)
  assert model.pad_id == 58100
  assert model.target_embedder is None
  assert model.token_embedder.multiply_by_sqrt_depth
  assert model.encoder.layer_stack.layer.mlp.activation == "silu"
  assert model.decoder.head.use_bias


@pytest.mark.parametrize(
  ("config", "change", "sentence"),
  [
    (
      published.GPT_2,
      {"rotary_dim": 64},
      "config.json of a gpt2 model has the attribute 'rotary_dim' (64), which "
      "is not understood here; remove it if no output of the model depends on "
      "it",
    ),
    (
      published.GPT_2,
      {"hidden_size": 1024},
      "config.json of a gpt2 model says n_embd twice, as 768 and as "
      "hidden_size=1024; remove one of them",
    ),
    (
      published.GPT_2,
      {"add_cross_attention": True},
      "config.json of a gpt2 model has add_cross_attention=True, which is not "
      "built here; allowed: False",
    ),
    (
      published.GPT,
      {"afn": "quick_gelu"},
      "config.json of a openai-gpt model has afn='quick_gelu', which is not "
      "built here; allowed: 'gelu', 'relu', 'silu', 'swish'",
    ),
    (  # GPT-2's name, which its class does not read
      published.GPT_NEO,
      {"n_embd": 24},
      "config.json of a gpt_neo model has the attribute 'n_embd' (24), which "
      "is not understood here; remove it if no output of the model depends on "
      "it",
    ),
    (
      published.GPT_NEO,
      {"num_layers": 12},
      "config.json of a gpt_neo model has attention_layers of 24 layers and "
      "num_layers=12; they must agree",
    ),
    (
      published.LLAMA_3,
      {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
      "config.json of a llama model has rope_type='yarn', which is not built "
      "here; allowed: 'default', 'linear', 'llama3'",
    ),
    (
      published.LLAMA_3,
      {"rope_scaling": {"rope_type": "linear"}},
      "config.json of a llama model stretches rotary positions and lacks their "
      "'factor'",
    ),
    (
      published.OPUS_MT,
      {"normalize_before": True},
      "config.json of a marian model has normalize_before=True, which is not "
      "built here; allowed: False",
    ),
  ],
)
def test_what_is_not_understood_is_refused_by_name(config, change, sentence):
  with pytest.raises(UserError) as caught:
    family_of(config).architecture({**config, **change})
  assert str(caught.value) == sentence


def test_a_model_without_a_counterpart_is_refused():
  with pytest.raises(UserError) as caught:
    family_of(published.GPT_2).config(tiny_t5.build("t5_1_0"))
  assert str(caught.value) == (
    "a gpt2 model cannot compute what this model does: its NoneType has no "
    "'num_positions'"
  )


def test_a_width_that_is_no_multiple_of_the_heads_is_mistrals(tmp_path):
  """LlamaConfig refuses it whatever head_dim is, MistralConfig does not."""
  model = families.build({**families.CONFIGS["llama"], "head_dim": 4,
                          "num_attention_heads": 10})  # fmt: skip
  with pytest.raises(UserError) as caught:
    family_of({"model_type": "llama"}).config(model)
  assert str(caught.value) == (
    "llama models have a hidden_size that is a multiple of "
    "num_attention_heads; 24 is no multiple of 10"
  )
  parameters = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  exported_directory.write(
    tmp_path, model, {n: Tensor.of(a) for n, a in parameters.items()}
  )
  found = directory.open_directory(tmp_path).config
  assert found["model_type"] == "mistral"
  assert not comparison.differences(model, families.build(found))


def test_two_windows_are_not_gpt_neo_s():
  model = zoo_config.build(
    "MODEL",
    ["architectures/gpt_3.gin", "sizes/gpt_3_small.gin"],
    ["Windows.sizes=(3, 5)"],
  )
  with pytest.raises(
    UserError, match=r"^gpt_neo models have one window, not \(3, 5\)$"
  ):
    family_of({"model_type": "gpt_neo"}).config(model)


def of_bare_gpt(tensors):
  """As published: without the prefix, with the buffers of old versions."""
  bare = {n.removeprefix("transformer."): t for n, t in tensors.items()}
  mask = Tensor.of(np.ones((1, 1, 41, 41), np.float32))
  return {**bare, "h.0.attn.bias": mask}


def of_neo_with_buffers(tensors):
  mask = Tensor.of(np.ones((1, 1, 41, 41), np.uint8))
  lowest = Tensor.of(np.float32(-1e9))
  return {
    **tensors,
    "transformer.h.1.attn.attention.bias": mask,
    "transformer.h.1.attn.attention.masked_bias": lowest,
    "lm_head.weight": tensors["transformer.wte.weight"],
  }


def of_bare_bloom(tensors):
  """As published: without the prefix, and without a head."""
  return {n.removeprefix("transformer."): t for n, t in tensors.items()}


def of_llama_with_frequencies(tensors):
  waves = Tensor.of(np.ones(2, np.float32))
  return {**tensors, "model.layers.0.self_attn.rotary_emb.inv_freq": waves}


def of_marian_four_times(tensors):
  """Its .bin files name the table four times and hold the sinusoids."""
  table = tensors["model.shared.weight"]
  names = ("model.encoder.embed_tokens", "model.decoder.embed_tokens")
  positions = Tensor.of(np.ones((41, 24), np.float32))
  return {
    **tensors,
    **{f"{name}.weight": table for name in (*names, "lm_head")},
    "model.encoder.embed_positions.weight": positions,
    "model.decoder.embed_positions.weight": positions,
  }


def of_marian_with_two_tables(tensors):
  table = tensors["model.decoder.embed_tokens.weight"]
  return {**tensors, "lm_head.weight": table}


@pytest.mark.parametrize(
  ("name", "as_published"),
  [
    ("gpt_1", of_bare_gpt),
    ("gpt_2", of_bare_gpt),
    ("gpt_neo", of_neo_with_buffers),
    ("bloom", of_bare_bloom),
    ("llama", of_llama_with_frequencies),
    ("marian", of_marian_four_times),
    ("marian_two_vocabularies", of_marian_with_two_tables),
  ],
)
def test_files_as_they_were_published(name, as_published, tmp_path):
  config, _, params, _ = families.setting(name)
  flat = traverse_util.flatten_dict(params, sep="/")
  ours = {name: Tensor.of(array) for name, array in flat.items()}
  theirs = to_theirs(family_of(config).links(config), ours)
  safetensors.write(tmp_path / "model.safetensors", as_published(theirs))
  writing.write_json(tmp_path / "config.json", config)
  found = directory.open_directory(tmp_path).parameters()
  assert found.keys() == flat.keys()
  for parameter, array in flat.items():
    np.testing.assert_array_equal(found[parameter].read(), array)
