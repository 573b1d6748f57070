"""Two models that compute the same are told from two that do not."""

import pytest

from tests import tiny_models
from transformer_zoo.modules import comparison


def found(architecture, other, *parts, **macros):
  return comparison.differences(
    tiny_models.build(architecture)[0],
    tiny_models.build(other, *parts, **macros)[0],
  )


@pytest.mark.parametrize("architecture", tiny_models.ARCHITECTURES)
def test_a_model_is_as_itself_built_again(architecture):
  again = tiny_models.build.__wrapped__(architecture)[0]
  model, _ = tiny_models.build(architecture)
  assert comparison.differences(model, again) == {}


def test_what_training_alone_reads_does_not_count():
  assert not found(
    "t5_1_1",
    "t5_1_1",
    DROPOUT_RATE=0.3,
    SCAN_LAYERS=True,
    REMAT="full",
    DTYPE="bfloat16",
  )


@pytest.mark.parametrize(
  "parts, expected",
  [
    (
      ("feed_forward/swiglu.gin",),
      {
        f"{side}.layer_stack.layer.mlp.activation": "'gelu' instead of 'silu'"
        for side in ("encoder", "decoder.transformer")
      },
    ),
    (
      ("softmax/tied.gin",),
      {"decoder.head": "LinearLogits instead of TiedLogits"},
    ),
    (
      ("connections/post_norm.gin",),
      {
        "encoder.layer_stack.layer.connect": "pre_norm instead of post_norm",
        "decoder.transformer.norm": "RMSNorm instead of None",
      },
    ),
  ],
)
def test_equal_shapes_and_other_mathematics(parts, expected):
  different = found("t5_1_1", "t5_1_1", *parts)
  assert expected.items() <= different.items()


def test_sizes_count():
  different = found("gpt_2", "gpt_2", NUM_HEADS=8, HEAD_DIM=4)
  assert different[
    "decoder.transformer.layer_stack.layer.self_attention.num_heads"
  ] == ("4 instead of 8")
  assert different[
    "decoder.transformer.layer_stack.layer.self_attention.head_dim"
  ] == ("8 instead of 4")


def test_as_many_key_heads_as_heads_is_the_default():
  assert not found("llama", "llama", NUM_KV_HEADS=4)


def test_other_kinds_of_models():
  assert found("t5_1_1", "gpt_2") == {
    "model": "EncoderDecoder instead of DecoderOnly"
  }


def test_heads_are_compared_by_name():
  model, _ = tiny_models.build("bert")
  assert not comparison.differences(model, tiny_models.build.__wrapped__(
    "bert", bindings=("Dropout.rate=0.3",)
  )[0])  # fmt: skip
  other, _ = tiny_models.build(
    "bert", "../heads/tokens_next_sentence.gin", "feed_forward/relu.gin"
  )
  different = comparison.differences(model, other)
  assert different["heads.parts.next_sentence"] == "None instead of ClassLogits"
  assert "heads.parts.tokens" not in different
