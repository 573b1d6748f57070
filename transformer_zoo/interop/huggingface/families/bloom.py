"""BLOOM (`bloom`).

Differences to ours: one matrix, kept as (out, in), makes query, key and value
of a head, then of the next head; ALiBi counts from the first key, which the
softmax does not see. Source: `models/bloom` of `transformers`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.family import LanguageModel
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link


def _widths(found: Mapping[str, Any]) -> dict[str, int]:
  width = found["hidden_size"]
  return {"EMBED_DIM": width, "MLP_DIM": 4 * width}


def _width(parts: Parts) -> int:
  width = parts.tokens.features
  if parts.mlp.d_ff != 4 * width:
    raise UserError(
      f"{parts.kind} models have feed-forward networks of four times "
      f"hidden_size, {4 * width} and not {parts.mlp.d_ff}; set MLP_DIM to it"
    )
  return width


_ATTRIBUTES = Attributes(
  (
    Attribute("vocab_size", 250880, "VOCAB_SIZE"),
    attributes.heads(
      "n_head",
      8,
      "hidden_size",
      of=attributes.dividing("hidden_size"),
      spellings=("num_attention_heads",),
    ),
    Attribute("hidden_size", 64, _widths, _width, spellings=("n_embed",)),
    Attribute(
      "n_layer", 2, "NUM_DECODER_LAYERS", spellings=("num_hidden_layers",)
    ),
    Attribute("layer_norm_epsilon", 1e-5, "LayerNorm.epsilon"),
    Attribute("hidden_dropout", 0.0, "DROPOUT_RATE"),
    Attribute("attention_dropout", 0.0, "attention/Dropout.rate"),
    Attribute("tie_word_embeddings", True, of=attributes.tied),
    attributes.padding("DecoderOnly.pad_id"),
  ),
  allowed={
    "is_encoder_decoder": (False,),
    "apply_residual_connection_post_layernorm": (False,),
    "n_inner": (None,),  # The width is four times hidden_size.
    # It adds no biases where pretraining_tp is more than 1.
    "slow_but_exact": (False,),
  },
  # Megatron's kernels and the length of its rows.
  without_effect=(
    "attention_softmax_in_fp32 bias_dropout_fusion masked_softmax_fusion "
    "offset_alibi pretraining_tp seq_length skip_bias_add skip_bias_add_qkv "
    "unk_token_id"
  ).split(),
)


class _Bloom(LanguageModel):
  """See `LanguageModel`."""

  def links_inside(self, found, theirs, ours) -> Iterator[Link]:
    """See `Family`."""
    parts = [f"{ours}self_attention/{p}" for p in ("query", "key", "value")]
    for word, leaf in {"weight": "kernel", "bias": "bias"}.items():
      yield Link(
        f"{theirs}self_attention.query_key_value.{word}",
        tuple(f"{part}/{leaf}" for part in parts),
        links_lib.HeadByHead(found["n_head"], len(parts)),
      )


FAMILIES = (
  _Bloom(
    kind="bloom",
    attributes=_ATTRIBUTES,
    prefix="transformer.",
    architecture_file="architectures/bloom.gin",
    layer_counts=("n_layer",),
    layer_list="h",
    layer={
      "pre_self_attention_layer_norm": "input_layernorm",
      "pre_mlp_layer_norm": "post_attention_layernorm",
      "self_attention/out": "self_attention.dense",
      "mlp/wi": "mlp.dense_h_to_4h",
      "mlp/wo": "mlp.dense_4h_to_h",
    },
    bindings={"embedding/Dropout.rate": 0.0},
    written={"architectures": ["BloomForCausalLM"]},
    outside={
      "token_embedder/embedding": "word_embeddings",
      "decoder/input_norm": "word_embeddings_layernorm",
      "decoder/decoder_norm": "ln_f",
    },
  ),
)
