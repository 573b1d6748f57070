"""Models as their config.json has them, of every class that is read here.

tests/oracles/pytorch/families_test.py compares each live with its class of
`transformers`; what RECORDED computed is compared without PyTorch by
tests/architectures/families_golden_test.py. Options are turned away from their
defaults, and no two sizes of a model agree.
"""

import pathlib
from typing import Any

import jax
import numpy as np

from tests import tiny_models
from tests import tiny_t5
from transformer_zoo import config as zoo_config
from transformer_zoo.interop.huggingface import family_of

FOLDER = pathlib.Path(__file__).parent / "families"
VOCAB_SIZE = 40
PADDING = VOCAB_SIZE - 1
_IDS = {"vocab_size": VOCAB_SIZE, "pad_token_id": PADDING, "eos_token_id": 1}
_T5 = {
  "vocab_size": VOCAB_SIZE,
  "pad_token_id": 0,
  "eos_token_id": 1,
  "decoder_start_token_id": 0,
  "d_model": 24,
  "d_kv": 8,
  "d_ff": 36,
  "num_layers": 2,
  "num_decoder_layers": 3,
  "num_heads": 5,
  # The last bucket is seen.
  "relative_attention_num_buckets": 8,
  "relative_attention_max_distance": 14,
}
_UNTIED_GATED = {
  **_T5,
  "feed_forward_proj": "gated-gelu",
  "tie_word_embeddings": False,
}
_MARIAN = {
  **_IDS,
  "model_type": "marian",
  "decoder_start_token_id": PADDING,
  "d_model": 24,
  "encoder_layers": 2,
  "encoder_ffn_dim": 36,
  "encoder_attention_heads": 3,
  "decoder_layers": 3,
  "decoder_ffn_dim": 40,
  "decoder_attention_heads": 4,
  "activation_function": "swish",
  "scale_embedding": True,
  "forced_eos_token_id": None,
}
_BART = {
  **_MARIAN,
  "model_type": "bart",
  "decoder_start_token_id": 2,
  "bos_token_id": 0,
  "max_position_embeddings": 31,
  "activation_function": "gelu",
  "scale_embedding": False,
}
_GPT = {**_IDS, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 41}
_GPT_2 = {**_GPT, "model_type": "gpt2"}
_GPT_J = {
  **_IDS,
  "model_type": "gptj",
  "n_embd": 24,
  "n_layer": 3,
  "n_head": 3,
  "n_inner": 36,
  "n_positions": 41,
  "rotary_dim": 4,
}
_GPT_NEO = {
  **_IDS,
  "model_type": "gpt_neo",
  "hidden_size": 24,
  "num_layers": 3,
  "num_heads": 4,
  "max_position_embeddings": 41,
  "attention_types": [[["global", "local"], 1], [["global"], 1]],
  "window_size": 5,
}
_BLOOM = {
  **_IDS,
  "model_type": "bloom",
  "hidden_size": 24,
  "n_layer": 3,
  # No power of two: ALiBi's slopes are of two series.
  "n_head": 6,
}
_LLAMA = {
  **_IDS,
  "model_type": "llama",
  "hidden_size": 24,
  "intermediate_size": 36,
  "num_hidden_layers": 3,
  "num_attention_heads": 6,
  "num_key_value_heads": 2,
  "max_position_embeddings": 64,
}
_QWEN_2 = {
  **_LLAMA,
  "model_type": "qwen2",
}
_GEMMA_2 = {
  **_LLAMA,
  "model_type": "gemma2",
  "head_dim": 10,
  "query_pre_attn_scalar": 14,
  "sliding_window": 5,
  "attn_logit_softcapping": 2.0,
  "final_logit_softcapping": 3.0,
}
_GEMMA_3 = {
  **_LLAMA,
  "model_type": "gemma3_text",
  "head_dim": 10,
  "query_pre_attn_scalar": 14,
  "sliding_window": 5,
}
_OF_BOTH_SIDES = {
  "vocab_size": VOCAB_SIZE,
  "hidden_size": 24,
  "intermediate_size": 36,
  "num_hidden_layers": 2,
  "num_attention_heads": 6,
  "num_key_value_heads": 2,
  "head_dim": 10,
  "query_pre_attn_scalar": 14,
  "sliding_window": 5,
  "attn_logit_softcapping": 2.0,
  "final_logit_softcapping": 3.0,
}
_T5GEMMA = {
  "model_type": "t5gemma",
  "pad_token_id": PADDING,
  "eos_token_id": 1,
  "decoder_start_token_id": 2,
  "vocab_size": VOCAB_SIZE,
  "encoder": _OF_BOTH_SIDES,
  "decoder": _OF_BOTH_SIDES,
}
_OF_BOTH_OF_2 = {
  **{k: v for k, v in _OF_BOTH_SIDES.items() if "softcapping" not in k},
  "sliding_window_pattern": 2,
  "rope_theta": 500.0,
  "rope_local_base_freq": 20.0,
}
# That nothing reads.
_TOWER = {
  "model_type": "siglip_vision_model",
  "hidden_size": 8,
  "image_size": 14,
  "intermediate_size": 8,
  "num_attention_heads": 1,
  "num_hidden_layers": 1,
  "patch_size": 14,
}
_T5GEMMA_2 = {
  **_T5GEMMA,
  "model_type": "t5gemma2",
  "encoder": {"text_config": _OF_BOTH_OF_2, "vision_config": _TOWER},
  "decoder": _OF_BOTH_OF_2,
}
_OTHER_OPTIONS_OF_BOTH = {
  **_OF_BOTH_SIDES,
  "attention_bias": True,
  "final_logit_softcapping": None,
  "hidden_activation": "silu",
  "rms_norm_eps": 1e-3,
  "rope_theta": 500.0,
}
_OLMO_2 = {
  **_LLAMA,
  "model_type": "olmo2",
}
_QWEN_3 = {
  **_LLAMA,
  "model_type": "qwen3",
  "head_dim": 10,
}
_MODERNBERT_DECODER = {
  **_IDS,
  "model_type": "modernbert-decoder",
  "hidden_size": 24,
  "intermediate_size": 36,
  "num_hidden_layers": 4,
  "num_attention_heads": 3,
  "local_attention": 10,
}

CONFIGS: dict[str, dict[str, Any]] = {
  "t5_1_0": {**_T5, "model_type": "t5", "feed_forward_proj": "relu"},
  "t5_1_1": {**_UNTIED_GATED, "model_type": "t5"},
  "byt5": {
    **_UNTIED_GATED,
    "model_type": "t5",
    "num_layers": 3,
    "num_decoder_layers": 1,
  },
  "mt5": {**_UNTIED_GATED, "model_type": "mt5"},
  "umt5": {**_UNTIED_GATED, "model_type": "umt5"},
  "t5_gated_and_tied": {
    **_T5,
    "model_type": "t5",
    "feed_forward_proj": "gated-silu",
    "layer_norm_epsilon": 1e-3,
  },
  # Experts are in the second layer of each stack, and have few places.
  "switch_transformers": {
    **_T5,
    "model_type": "switch_transformers",
    "num_experts": 4,
    "expert_capacity": 3,
    "num_sparse_encoder_layers": 1,
    "num_sparse_decoder_layers": 1,
  },
  # Inputs are 21 tokens, which 4 does not divide.
  "longt5_local": {
    **_T5,
    "model_type": "longt5",
    "local_radius": 3,
    "scale_decoder_outputs": True,
  },
  "longt5_transient_global": {
    **_UNTIED_GATED,
    "model_type": "longt5",
    "encoder_attention_type": "transient-global",
    "local_radius": 2,
    "global_block_size": 4,
  },
  "marian": _MARIAN,
  "marian_two_vocabularies": {
    **_MARIAN,
    "decoder_vocab_size": VOCAB_SIZE + 5,
    "share_encoder_decoder_embeddings": False,
    "activation_function": "relu",
    "scale_embedding": False,
  },
  "bart": _BART,
  "bart_other_options": {
    **_BART,
    "activation_function": "relu",
    "scale_embedding": True,
    "final_logits_bias": True,
  },
  "mbart": {**_BART, "model_type": "mbart"},
  "gpt_1": {
    **_GPT,
    "model_type": "openai-gpt",
  },
  "gpt_1_relu": {
    **_GPT,
    "model_type": "openai-gpt",
    "afn": "relu",
    "layer_norm_epsilon": 1e-3,
  },
  "gpt_2": {**_GPT_2, "n_inner": 40},
  "gpt_2_other_options": {
    **_GPT_2,
    "activation_function": "gelu",
    "scale_attn_weights": False,
    "scale_attn_by_inverse_layer_idx": True,
    "tie_word_embeddings": False,
    "layer_norm_epsilon": 1e-3,
  },
  "gpt_j": _GPT_J,
  "gpt_neo": _GPT_NEO,
  "gpt_neo_other_options": {
    **_GPT_NEO,
    "intermediate_size": 40,
    "activation_function": "relu",
    "attention_types": [[["local"], 3]],
    "window_size": 2,
    "tie_word_embeddings": False,
  },
  "bloom": _BLOOM,
  "bloom_untied": {
    **_BLOOM,
    "n_head": 3,
    "layer_norm_epsilon": 1e-3,
    "tie_word_embeddings": False,
  },
  "llama": _LLAMA,
  "llama_3": {
    **_LLAMA,
    "head_dim": 8,
    "rms_norm_eps": 1e-3,
    "rope_theta": 500.0,
    "rope_scaling": {
      "rope_type": "llama3",
      "factor": 4.0,
      "low_freq_factor": 1.0,
      "high_freq_factor": 4.0,
      "original_max_position_embeddings": 32,
    },
    "tie_word_embeddings": True,
  },
  "llama_with_biases": {
    **_LLAMA,
    "num_key_value_heads": None,
    "hidden_act": "gelu",
    "attention_bias": True,
    "mlp_bias": True,
    "rope_scaling": {"type": "linear", "factor": 2.0},
  },
  "mistral": {
    **_LLAMA,
    "model_type": "mistral",
    "sliding_window": 5,
  },
  "qwen_2": _QWEN_2,
  "qwen_2_windows": {
    **_QWEN_2,
    "use_sliding_window": True,
    "sliding_window": 4,
    "max_window_layers": 1,
    "rope_parameters": {"rope_theta": 100.0, "rope_type": "default"},
    "tie_word_embeddings": True,
  },
  "gemma2": _GEMMA_2,
  "gemma2_other_options": {
    **_GEMMA_2,
    "attention_bias": True,
    "hidden_activation": "silu",
    "layer_types": ["full_attention", *["sliding_attention"] * 2],
    "attn_logit_softcapping": None,
    "rms_norm_eps": 1e-3,
    "rope_theta": 500.0,
    "tie_word_embeddings": False,
  },
  "gemma3": {
    **_GEMMA_3,
    "sliding_window_pattern": 2,
    "rope_theta": 500.0,
    "rope_local_base_freq": 20.0,
    "rope_scaling": {"rope_type": "linear", "factor": 4.0},
  },
  "gemma3_other_options": {
    **_GEMMA_3,
    "attention_bias": True,
    "final_logit_softcapping": 3.0,
    "layer_types": ["full_attention", *["sliding_attention"] * 2],
    "rms_norm_eps": 1e-3,
    "rope_parameters": {
      "full_attention": {"rope_type": "default", "rope_theta": 500.0},
      "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
    },
    "tie_word_embeddings": False,
  },
  "t5gemma": _T5GEMMA,
  "t5gemma_other_options": {
    **_T5GEMMA,
    "tie_word_embeddings": False,
    "decoder": _OTHER_OPTIONS_OF_BOTH,
    "encoder": {
      **_OTHER_OPTIONS_OF_BOTH,
      "vocab_size": VOCAB_SIZE + 3,
      "hidden_size": 42,
      "intermediate_size": 28,
      "num_hidden_layers": 3,
      "num_attention_heads": 3,
      "num_key_value_heads": 1,
      "head_dim": 8,
      "query_pre_attn_scalar": 9,
      "layer_types": ["full_attention", *["sliding_attention"] * 2],
      "sliding_window": 3,
    },
  },
  "t5gemma2": _T5GEMMA_2,
  "t5gemma2_other_options": {
    **_T5GEMMA_2,
    "decoder": {
      **_OF_BOTH_OF_2, "rms_norm_eps": 1e-3, "final_logit_softcapping": 3.0
    },
    "encoder": {
      "text_config": {
        **_OF_BOTH_OF_2,
        "rms_norm_eps": 1e-3,
        "intermediate_size": 28,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "query_pre_attn_scalar": 9,
        "layer_types": ["full_attention", *["sliding_attention"] * 2],
        # An even number sees more ahead.
        "sliding_window": 6,
      },
      "vision_config": _TOWER,
    },
  },
  "olmo2": _OLMO_2,
  "olmo2_other_options": {
    **_OLMO_2,
    "head_dim": 10,
    "num_attention_heads": 10,
    "attention_bias": True,
    "rms_norm_eps": 1e-3,
    "rope_theta": 500.0,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    "tie_word_embeddings": True,
  },
  "qwen3": _QWEN_3,
  "qwen3_other_options": {
    **_QWEN_3,
    "attention_bias": True,
    "rms_norm_eps": 1e-3,
    "use_sliding_window": True,
    "sliding_window": 4,
    "layer_types": ["sliding_attention", *["full_attention"] * 2],
    "tie_word_embeddings": True,
  },
  "modernbert_decoder": _MODERNBERT_DECODER,
  "modernbert_decoder_other_options": {
    **_MODERNBERT_DECODER,
    "hidden_activation": "silu",
    "norm_eps": 1e-3,
    "norm_bias": True,
    "attention_bias": True,
    "mlp_bias": True,
    "classifier_bias": True,
    "classifier_activation": "relu",
    "layer_types": ["sliding_attention", *["full_attention"] * 3],
    "rope_parameters": {
      "full_attention": {"rope_type": "default", "rope_theta": 500.0},
      "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
    },
    "tie_word_embeddings": False,
  },
}  # fmt: skip
# One of each class; mT5 and ByT5 are T5.1.1 of other sizes.
RECORDED = (
  "t5_1_0", "t5_1_1", "umt5", "switch_transformers",
  "longt5_transient_global", "marian", "gpt_1", "gpt_2",
  "gpt_neo", "llama_3", "qwen_2_windows", "gemma2", "gemma3",
  "t5gemma_other_options", "t5gemma2_other_options",
  "olmo2_other_options", "qwen3_other_options",
  "modernbert_decoder",
)  # fmt: skip


def path(name: str) -> pathlib.Path:
  """tests/golden/families/<name>.npz."""
  return FOLDER / f"{name}.npz"


def build(config: dict[str, Any]):
  """Our model of a config.json."""
  architecture = family_of(config).architecture(config)
  return zoo_config.build(
    "MODEL", architecture.gin_files, architecture.as_overrides()
  )


def with_layers(config: dict[str, Any], number: int) -> dict[str, Any]:
  """Returns the config.json with so many layers in each stack."""
  names = (
    *("decoder_layers", "encoder_layers", "n_layer", "n_layers"),
    *("num_decoder_layers", "num_hidden_layers", "num_layers"),
  )
  return config | {name: number for name in names if name in config}


def setting(name: str, **changes):
  """Returns config, model, weights and batch; nothing of them is recorded."""
  config = {**CONFIGS[name], **changes}
  model = build(config)
  return config, model, weights(model), batch_for(model)


def weights(model) -> dict:
  """Random ones, small where large ones would make every softmax certain.

  Gradients through such a softmax are nothing but rounding, on either side.
  """
  return jax.tree_util.tree_map_with_path(
    lambda path, leaf: (
      leaf * np.float32(0.3)
      if path[-1].key in ("bias", "embedding", "pos_embedding")
      else leaf
    ),
    tiny_models.random_parameters(model),
  )


def batch_for(model) -> dict[str, np.ndarray]:
  """Rows of random lengths, shorter ones padded with the model's padding."""
  batch = tiny_t5.random_batch(
    rows=3, inputs=21, targets=17, vocab_size=PADDING
  )
  return {
    feature: tokens
    if feature.endswith("weights")
    else np.where(tokens == 0, model.pad_id, tokens).astype(np.int32)
    for feature, tokens in batch.items()
    if model.offers.has_encoder or feature.startswith("decoder")
  }
