"""Families: every parameter has its tensor, and nothing is passed over."""

from flax import traverse_util
import pytest

from tests import tiny_models
from tests import tiny_t5
from tests.golden import families
from transformer_zoo import config as zoo_config
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.modules import comparison


@pytest.mark.parametrize("name", families.CONFIGS)
def test_links_are_the_parameters_and_the_configuration_comes_back(name):
  config = families.CONFIGS[name]
  family = family_of(config)
  model = families.build(config)
  links = family.links(config)
  parameters = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  assert sorted(n for link in links for n in link.ours) == sorted(parameters)
  assert len({link.theirs for link in links}) == len(links)
  again = families.build(family.config(model))
  assert not comparison.differences(model, again)
  assert again.pad_id == model.pad_id


# As they were published, without what repeats: names and values.
GPT = {
  "model_type": "openai-gpt",
  "afn": "gelu",
  "architectures": ["OpenAIGPTLMHeadModel"],
  "attn_pdrop": 0.1,
  "embd_pdrop": 0.1,
  "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05,
  "n_ctx": 512,
  "n_embd": 768,
  "n_head": 12,
  "n_layer": 12,
  "n_positions": 512,
  "n_special": 0,
  "predict_special_tokens": True,
  "resid_pdrop": 0.1,
  "summary_activation": None,
  "summary_first_dropout": 0.1,
  "summary_proj_to_labels": True,
  "summary_type": "cls_index",
  "summary_use_proj": True,
  "task_specific_params": {"text-generation": {"max_length": 50}},
  "vocab_size": 40478,
}
GPT_2 = {
  **{k: v for k, v in GPT.items() if k not in ("afn", "n_special")},
  "model_type": "gpt2",
  "activation_function": "gelu_new",
  "bos_token_id": 50256,
  "eos_token_id": 50256,
  "n_positions": 1024,
  "output_past": True,
  "vocab_size": 50257,
}
GPT_NEO = {
  "model_type": "gpt_neo",
  "activation_function": "gelu_new",
  "attention_dropout": 0,
  "attention_layers": ["global", "local"] * 12,
  "attention_types": [[["global", "local"], 12]],
  "bos_token_id": 50256,
  "embed_dropout": 0,
  "eos_token_id": 50256,
  "gradient_checkpointing": False,
  "hidden_size": 2048,
  "intermediate_size": None,
  "max_position_embeddings": 2048,
  "num_heads": 16,
  "num_layers": 24,
  "resid_dropout": 0,
  "summary_type": "cls_index",
  "tokenizer_class": "GPT2Tokenizer",
  "torch_dtype": "float32",
  "transformers_version": "4.9.0.dev0",
  "use_cache": True,
  "vocab_size": 50257,
  "window_size": 256,
}
LLAMA_3 = {
  "model_type": "llama",
  "attention_bias": False,
  "attention_dropout": 0.0,
  "bos_token_id": 128000,
  "eos_token_id": [128001, 128008, 128009],
  "head_dim": 64,
  "hidden_act": "silu",
  "hidden_size": 2048,
  "intermediate_size": 8192,
  "max_position_embeddings": 131072,
  "mlp_bias": False,
  "num_attention_heads": 32,
  "num_hidden_layers": 16,
  "num_key_value_heads": 8,
  "pretraining_tp": 1,
  "rms_norm_eps": 1e-05,
  "rope_scaling": {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
  },
  "rope_theta": 500000.0,
  "tie_word_embeddings": True,
  "torch_dtype": "bfloat16",
  "vocab_size": 128256,
}
OPUS_MT = {
  "model_type": "marian",
  "_num_labels": 3,
  "activation_dropout": 0.0,
  "activation_function": "swish",
  "add_bias_logits": False,
  "add_final_layer_norm": False,
  "architectures": ["MarianMTModel"],
  "attention_dropout": 0.0,
  "bad_words_ids": [[58100]],
  "bos_token_id": 0,
  "classif_dropout": 0.0,
  "d_model": 512,
  "decoder_attention_heads": 8,
  "decoder_ffn_dim": 2048,
  "decoder_layerdrop": 0.0,
  "decoder_layers": 6,
  "decoder_start_token_id": 58100,
  "dropout": 0.1,
  "encoder_attention_heads": 8,
  "encoder_ffn_dim": 2048,
  "encoder_layerdrop": 0.0,
  "encoder_layers": 6,
  "eos_token_id": 0,
  "extra_pos_embeddings": 58101,
  "force_bos_token_to_be_generated": False,
  "forced_eos_token_id": 0,
  "id2label": {"0": "LABEL_0"},
  "init_std": 0.02,
  "is_encoder_decoder": True,
  "label2id": {"LABEL_0": 0},
  "max_length": 512,
  "max_position_embeddings": 512,
  "normalize_before": False,
  "normalize_embedding": False,
  "num_beams": 6,
  "num_hidden_layers": 6,
  "pad_token_id": 58100,
  "scale_embedding": True,
  "static_position_embeddings": True,
  "vocab_size": 58101,
}


def test_published_gpt():
  model = families.build(GPT)
  assert model.pad_id == 0
  assert model.token_embedder.num_embeddings == 40478
  assert model.decoder.stack.norm is None
  layer = model.decoder.stack.layer
  assert (layer.mlp.d_ff, layer.mlp.activation) == (3072, "gelu")
  assert (layer.dropout.rate, layer.mlp.dropout.rate) == (0.1, 0.0)


def test_published_gpt_2_pads_with_eos():
  model = families.build(GPT_2)
  assert model.pad_id == 50256
  assert model.decoder.stack.position_embedder.num_positions == 1024


def test_published_gpt_neo():
  stack = families.build(GPT_NEO).decoder.stack
  assert stack.windows == (None, 256)
  assert not stack.layer.self_attention.scale_scores
  assert not stack.layer.self_attention.key.use_bias
  assert stack.layer.self_attention.out.use_bias
  assert stack.layer.mlp.d_ff == 8192


def test_published_llama_3():
  model = families.build(LLAMA_3)
  assert model.pad_id == 128001
  attention = model.decoder.stack.layer.self_attention
  assert attention.num_kv_heads == 8
  assert (attention.rotary.theta, attention.rotary.stretch) == (5e5, 32.0)
  assert attention.rotary.trained_length == 8192


def test_published_opus_mt():
  model = families.build(OPUS_MT)
  assert model.pad_id == 58100
  assert model.target_embedder is None
  assert model.token_embedder.multiply_by_sqrt_depth
  assert model.encoder.layer.mlp.activation == "silu"
  assert model.decoder.head.use_bias


@pytest.mark.parametrize(
  ("config", "change", "sentence"),
  [
    (
      GPT_2,
      {"rotary_dim": 64},
      "config.json of a gpt2 model has the attribute 'rotary_dim' (64), which "
      "is not understood here; remove it if no output of the model depends on "
      "it",
    ),
    (
      GPT_2,
      {"hidden_size": 1024},
      "config.json of a gpt2 model says n_embd twice, as 768 and as "
      "hidden_size=1024; remove one of them",
    ),
    (
      GPT_2,
      {"add_cross_attention": True},
      "config.json of a gpt2 model has add_cross_attention=True, which is not "
      "built here; allowed: False",
    ),
    (
      GPT,
      {"afn": "quick_gelu"},
      "config.json of a openai-gpt model has afn='quick_gelu', which is not "
      "built here; allowed: 'gelu', 'relu', 'silu', 'swish'",
    ),
    (
      GPT_NEO,
      {"num_layers": 12},
      "config.json of a gpt_neo model has attention_types of 24 layers and "
      "num_layers=12; they must agree",
    ),
    (
      LLAMA_3,
      {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
      "config.json of a llama model has rope_type='yarn', which is not built "
      "here; allowed: 'default', 'linear', 'llama3'",
    ),
    (
      LLAMA_3,
      {"rope_scaling": {"rope_type": "linear"}},
      "config.json of a llama model stretches rotary positions and lacks their "
      "'factor'",
    ),
    (
      OPUS_MT,
      {"normalize_before": True},
      "config.json of a marian model has normalize_before=True, which is not "
      "built here; allowed: False",
    ),
    (
      OPUS_MT,
      {"decoder_start_token_id": 0},
      "config.json of a marian model has decoder_start_token_id=0, which is "
      "not built here; allowed: 58100",
    ),
  ],
)
def test_what_is_not_understood_is_refused_by_name(config, change, sentence):
  with pytest.raises(UserError) as caught:
    family_of(config).architecture({**config, **change})
  assert str(caught.value) == sentence


def test_a_model_without_a_counterpart_is_refused():
  with pytest.raises(UserError) as caught:
    family_of(GPT_2).config(tiny_t5.build("t5_1_0"))
  assert str(caught.value) == (
    "a gpt2 model cannot compute what this model does: its NoneType has no "
    "'num_positions'"
  )


def test_two_windows_are_not_gpt_neo_s():
  model = zoo_config.build(
    "MODEL",
    ["architectures/gpt_3.gin", "sizes/gpt_3_small.gin"],
    ["Stack.windows=(3, 5)"],
  )
  with pytest.raises(
    UserError, match=r"^gpt_neo models have one window, not \(3, 5\)$"
  ):
    family_of({"model_type": "gpt_neo"}).config(model)
