"""T5's config.json: what it says of the softmax, and what is refused."""

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import family_of

HEAD = "lm_head.weight"
# As google/flan-t5-small has it, without what repeats.
FLAN = {
  "architectures": ["T5ForConditionalGeneration"],
  "d_ff": 1024,
  "d_kv": 64,
  "d_model": 512,
  "decoder_start_token_id": 0,
  "dropout_rate": 0.1,
  "eos_token_id": 1,
  "feed_forward_proj": "gated-gelu",
  "initializer_factor": 1.0,
  "is_encoder_decoder": True,
  "layer_norm_epsilon": 1e-06,
  "model_type": "t5",
  "n_positions": 512,
  "num_decoder_layers": 8,
  "num_heads": 6,
  "num_layers": 8,
  "output_past": True,
  "pad_token_id": 0,
  "relative_attention_max_distance": 128,
  "relative_attention_num_buckets": 32,
  "task_specific_params": {"summarization": {"num_beams": 4}},
  "tie_word_embeddings": False,
  "transformers_version": "4.23.1",
  "use_cache": True,
  "vocab_size": 32128,
}


def head_of(stored=(), **config):
  """(whether the softmax is tied, whether the output is scaled)."""
  config = {"model_type": "t5", **config}
  family = family_of(config)
  bindings = family.architecture(family.completed(config, stored)).bindings
  for name in ("TiedLogits", "LinearLogits"):
    if f"{name}.scale_by_depth" in bindings:
      return name == "TiedLogits", bindings[f"{name}.scale_by_depth"]
  raise AssertionError(bindings)


@pytest.mark.parametrize(
  ("stored", "config", "tied", "scaled"),
  [
    # T5 v1.0 and v1.1 as they were published.
    ([], {}, True, True),
    ([HEAD], {"tie_word_embeddings": False}, False, False),
    # As transformers 5 saves them: the file decides what is tied.
    (
      [HEAD],
      {"tie_word_embeddings": True, "scale_decoder_outputs": False},
      False,
      False,
    ),
    ([], {"tie_word_embeddings": False}, True, False),
    ([HEAD], {"tie_word_embeddings": True}, False, True),
    # mT5's class never scales; umT5's does where its configuration ties.
    ([], {"model_type": "mt5"}, True, False),
    (
      [HEAD],
      {"model_type": "umt5", "tie_word_embeddings": False},
      False,
      False,
    ),
    ([HEAD], {"model_type": "umt5"}, False, True),
  ],
)
def test_the_softmax(stored, config, tied, scaled):
  assert head_of(stored, **config) == (tied, scaled)


def test_a_published_configuration():
  found = family_of(FLAN).architecture(FLAN)
  assert found.gin_files == (
    "architectures/t5_1_1.gin",
    "parts/softmax/untied.gin",
  )
  assert found.bindings["GatedMlp.activation"] == "gelu"
  assert found.bindings["NUM_HEADS"] == 6


@pytest.mark.parametrize(
  ("config", "activation"),
  [
    ({}, {"Mlp.activation": "relu"}),
    ({"feed_forward_proj": "gelu"}, {"Mlp.activation": "gelu_exact"}),
    ({"feed_forward_proj": "gated-gelu"}, {"GatedMlp.activation": "gelu"}),
    ({"feed_forward_proj": "gated-silu"}, {"GatedMlp.activation": "silu"}),
    # The two attributes that it was taken apart into go before it.
    (
      {"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu"},
      {"GatedMlp.activation": "gelu_exact"},
    ),
    ({"is_gated_act": True}, {"GatedMlp.activation": "relu"}),
  ],
)
def test_activations(config, activation):
  config = {"model_type": "t5", **config}
  bindings = family_of(config).architecture(config).bindings
  assert activation.items() <= bindings.items()


@pytest.mark.parametrize(
  ("change", "sentence"),
  [
    ({"rope_theta": 1e4}, "has the attribute 'rope_theta'"),
    ({"feed_forward_proj": "gated-mish"}, "dense_act_fn='mish'"),
    ({"feed_forward_proj": "moe-relu"}, "feed_forward_proj's first part='moe'"),
    ({"is_encoder_decoder": False}, "is_encoder_decoder=False"),
    ({"hidden_size": 1024}, "says d_model twice"),
  ],
)
def test_what_is_not_built_is_refused_by_name(change, sentence):
  with pytest.raises(UserError) as error:
    family_of(FLAN).architecture({**FLAN, **change})
  assert sentence in str(error.value)


def test_an_unknown_kind_of_model_is_refused():
  with pytest.raises(UserError, match="'funnel', which is not known here"):
    family_of({"model_type": "funnel"})
