"""Shipped architectures and sizes are the models of published config.json's."""

import pytest

from transformer_zoo import config
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.modules import comparison

T5_SMALL = {
  "model_type": "t5",
  "architectures": ["T5ForConditionalGeneration"],
  "d_ff": 2048,
  "d_kv": 64,
  "d_model": 512,
  "decoder_start_token_id": 0,
  "dropout_rate": 0.1,
  "eos_token_id": 1,
  "initializer_factor": 1.0,
  "is_encoder_decoder": True,
  "layer_norm_epsilon": 1e-06,
  "n_positions": 512,
  "num_heads": 8,
  "num_layers": 6,
  "output_past": True,
  "pad_token_id": 0,
  "relative_attention_num_buckets": 32,
  "vocab_size": 32128,
}
T5_1_1_SMALL = {
  **T5_SMALL,
  "d_ff": 1024,
  "feed_forward_proj": "gated-gelu",
  "num_decoder_layers": 8,
  "num_heads": 6,
  "num_layers": 8,
  "tie_word_embeddings": False,
}
GPT = {
  "n_embd": 768,
  "n_head": 12,
  "n_layer": 12,
  "layer_norm_epsilon": 1e-05,
}
PUBLISHED = {
  ("t5_1_0", "t5_1_0_small"): T5_SMALL,
  ("t5_1_1", "t5_1_1_small"): T5_1_1_SMALL,
  ("mt5", "t5_1_1_small"): {
    **T5_1_1_SMALL,
    "model_type": "mt5",
    "vocab_size": 250112,
  },
  ("umt5", "t5_1_1_small"): {
    **T5_1_1_SMALL,
    "model_type": "umt5",
    "vocab_size": 256384,
  },
  ("byt5", "byt5_small"): {
    **T5_1_1_SMALL,
    "d_ff": 3584,
    "d_model": 1472,
    "num_decoder_layers": 4,
    "num_layers": 12,
    "vocab_size": 384,
  },
  ("gpt_1", "gpt_1"): {
    **GPT,
    "model_type": "openai-gpt",
    "afn": "gelu",
    "n_positions": 512,
    "vocab_size": 40478,
  },
  ("gpt_2", "gpt_2_small"): {
    **GPT,
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "n_positions": 1024,
    "vocab_size": 50257,
  },
  ("gpt_j", "gpt_j_6b"): {
    "model_type": "gptj",
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-05,
    "n_embd": 4096,
    "n_head": 16,
    "n_inner": None,
    "n_layer": 28,
    "n_positions": 2048,
    "rotary": True,
    "rotary_dim": 64,
    "tie_word_embeddings": False,
    "vocab_size": 50400,
  },
  ("bloom", "bloom_176b"): {
    "model_type": "bloom",
    "layer_norm_epsilon": 1e-05,
    "n_embed": 14336,
    "n_layer": 70,
    "num_attention_heads": 112,
    "vocab_size": 250880,
  },
  ("llama", "llama_7b"): {  # the second version
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
  },
  ("gemma2", "gemma2_2b"): {
    "model_type": "gemma2",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": 50.0,
    "cache_implementation": "hybrid",
    "final_logit_softcapping": 30.0,
    "head_dim": 256,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "max_position_embeddings": 8192,
    "num_attention_heads": 8,
    "num_hidden_layers": 26,
    "num_key_value_heads": 4,
    "pad_token_id": 0,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "vocab_size": 256000,
  },
  ("gemma3", "gemma3_1b"): {
    "model_type": "gemma3_text",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": None,
    "cache_implementation": "hybrid",
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "max_position_embeddings": 32768,
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "pad_token_id": 0,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "vocab_size": 262144,
  },
  ("olmo2", "olmo2_1b"): {
    "model_type": "olmo2",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 16,
    "num_key_value_heads": 16,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 500000,
    "tie_word_embeddings": False,
    "vocab_size": 100352,
  },
  ("qwen3", "qwen3_0_6b"): {
    "model_type": "qwen3",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "max_window_layers": 28,
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
  },
}


@pytest.mark.parametrize("names", PUBLISHED, ids="-".join)
def test_equal_models(names):
  published = PUBLISHED[names]
  family = family_of(published)
  tied = published.get("tie_word_embeddings", True)
  settled = family.completed(published, () if tied else ("lm_head.weight",))
  architecture = family.architecture(settled)
  theirs = config.build(
    "MODEL", architecture.gin_files, architecture.as_overrides()
  )
  name, size = names
  ours = config.build(
    "MODEL",
    [f"architectures/{name}.gin", f"sizes/{size}.gin"],
    [f"VOCAB_SIZE={published['vocab_size']}"],
  )
  assert comparison.differences(ours, theirs) == {}
