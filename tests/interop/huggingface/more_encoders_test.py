"""ModernBERT, MPNet and XLNet: released configurations and refusals."""

import numpy as np
import pytest

from tests.golden import encoders
from tests.golden import families
from tests.interop.huggingface import encoders_test
from transformer_zoo.conversion import sources
from transformer_zoo.errors import UserError
from transformer_zoo.modules import comparison

MODERNBERT_BASE = {
  "architectures": ["ModernBertForMaskedLM"],
  "attention_bias": False,
  "attention_dropout": 0.0,
  "bos_token_id": 50281,
  "classifier_activation": "gelu",
  "classifier_bias": False,
  "classifier_dropout": 0.0,
  "classifier_pooling": "mean",
  "cls_token_id": 50281,
  "decoder_bias": True,
  "deterministic_flash_attn": False,
  "embedding_dropout": 0.0,
  "eos_token_id": 50282,
  "global_attn_every_n_layers": 3,
  "global_rope_theta": 160000.0,
  "gradient_checkpointing": False,
  "hidden_activation": "gelu",
  "hidden_size": 768,
  "initializer_cutoff_factor": 2.0,
  "initializer_range": 0.02,
  "intermediate_size": 1152,
  "layer_norm_eps": 1e-05,
  "local_attention": 128,
  "local_rope_theta": 10000.0,
  "max_position_embeddings": 8192,
  "mlp_bias": False,
  "mlp_dropout": 0.0,
  "model_type": "modernbert",
  "norm_bias": False,
  "norm_eps": 1e-05,
  "num_attention_heads": 12,
  "num_hidden_layers": 22,
  "pad_token_id": 50283,
  "position_embedding_type": "absolute",
  "sep_token_id": 50282,
  "vocab_size": 50368,
}
MPNET_BASE = {
  "architectures": ["MPNetForMaskedLM"],
  "attention_probs_dropout_prob": 0.1,
  "bos_token_id": 0,
  "eos_token_id": 2,
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "hidden_size": 768,
  "initializer_range": 0.02,
  "intermediate_size": 3072,
  "layer_norm_eps": 1e-12,
  "max_position_embeddings": 514,
  "model_type": "mpnet",
  "num_attention_heads": 12,
  "num_hidden_layers": 12,
  "pad_token_id": 1,
  "relative_attention_num_buckets": 32,
  "vocab_size": 30527,
}
XLNET_LARGE = {
  "architectures": ["XLNetLMHeadModel"],
  "attn_type": "bi",
  "bi_data": False,
  "bos_token_id": 1,
  "clamp_len": -1,
  "d_head": 64,
  "d_inner": 4096,
  "d_model": 1024,
  "dropout": 0.1,
  "end_n_top": 5,
  "eos_token_id": 2,
  "ff_activation": "gelu",
  "initializer_range": 0.02,
  "layer_norm_eps": 1e-12,
  "mem_len": None,
  "model_type": "xlnet",
  "n_head": 16,
  "n_layer": 24,
  "pad_token_id": 5,
  "reuse_len": None,
  "same_length": False,
  "start_n_top": 5,
  "summary_activation": "tanh",
  "summary_last_dropout": 0.1,
  "summary_type": "last",
  "summary_use_proj": True,
  "untie_r": True,
  "vocab_size": 32000,
}


@pytest.mark.parametrize(
  ("config", "architecture", "size"),
  [
    (MODERNBERT_BASE, "modernbert", "modernbert_base"),
    (MPNET_BASE, "mpnet", "mpnet_base"),
    (XLNET_LARGE, "xlnet", "xlnet_large"),
  ],
)
def test_gin_files_are_the_released_models(config, architecture, size):
  model = families.build(config)
  shipped = families.zoo_config.build(
    "MODEL", [f"architectures/{architecture}.gin", f"sizes/{size}.gin"]
  )
  assert not comparison.differences(model, shipped)
  assert model.pad_id == shipped.pad_id


@pytest.mark.parametrize(
  ("config", "change", "sentence"),
  [
    (
      MODERNBERT_BASE,
      {
        "architectures": ["ModernBertForSequenceClassification"],
        "classifier_pooling": "last",
      },
      "config.json of a modernbert model has classifier_pooling='last', which "
      "is not built here; allowed: 'cls', 'mean'",
    ),
    (
      MODERNBERT_BASE,
      {"attention_dropout": 0.1},
      "config.json of a modernbert model has attention_dropout=0.1, which is "
      "not built here; allowed: 0",
    ),
    (
      MODERNBERT_BASE,
      {"layer_types": ["full_attention"]},
      "config.json of a modernbert model has num_hidden_layers=22, which is "
      "not built here; allowed: 1",
    ),
    (
      MODERNBERT_BASE,
      {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
      "config.json of a modernbert model has rope_type='yarn', which is not "
      "built here; allowed: 'default'",
    ),
    (
      MPNET_BASE,
      {"relative_attention_num_buckets": 64},
      "config.json of a mpnet model has relative_attention_num_buckets=64, "
      "which is not built here; allowed: 32",
    ),
    (
      MPNET_BASE,
      {"pad_token_id": 0},
      "config.json of a mpnet model has pad_token_id=0, which is not built "
      "here; allowed: 1",
    ),
    (
      XLNET_LARGE,
      {"attn_type": "uni"},
      "config.json of a xlnet model has attn_type='uni', which is not built "
      "here; allowed: 'bi'",
    ),
    (
      XLNET_LARGE,
      {
        "architectures": ["XLNetForSequenceClassification"],
        "summary_type": "mean",
      },
      "config.json of a xlnet model has summary_type='mean', which is not "
      "built here; allowed: 'first', 'last'",
    ),
    (
      XLNET_LARGE,
      {"d_head": 32},
      "config.json of a xlnet model has d_head=32, which is not built here; "
      "allowed: 64",
    ),
  ],
)
def test_refusals(config, change, sentence):
  with pytest.raises(UserError) as caught:
    families.build({**config, **change})
  assert str(caught.value) == sentence


def test_xlnet_that_reads_the_last_token_has_rows_that_end_in_it():
  config = XLNET_LARGE | {"architectures": ["XLNetForSequenceClassification"]}
  found = encoders_test.family_of(config).architecture(config)
  assert found.gin_files[-1] == "parts/cls_last.gin"
  config["summary_type"] = "first"
  found = encoders_test.family_of(config).architecture(config)
  assert "parts/cls_last.gin" not in found.gin_files


@pytest.mark.slow
def test_directories_are_opened_as_conversions_do(tmp_path):
  """Shapes are evaluated too, of ModernBERT without scanning its layers."""
  for name in ("modernbert_masked", "mpnet_choice", "xlnet_classes"):
    folder = tmp_path / name
    folder.mkdir()
    ours = encoders_test.flat_weights(name)
    encoders_test.written(folder, encoders.CONFIGS[name], ours)
    found = sources.open_source(folder)
    assert found.parameters.keys() == ours.keys()
    for parameter, array in ours.items():
      np.testing.assert_array_equal(found.parameters[parameter].read(), array)
