"""BLOOM (`bloom`).

Differences to ours: one matrix, kept as (out, in), makes query, key and value
of a head and then those of the next; ALiBi counts from the first key, which
the softmax does not see. Source: `models/bloom` of `transformers`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import gpt
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

_KIND = "bloom"
_ATTRIBUTES = attributes.Attributes(
  defaults={
    "vocab_size": 250880,
    "hidden_size": 64,
    "n_layer": 2,
    "n_head": 8,
    "layer_norm_epsilon": 1e-5,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "tie_word_embeddings": True,
  },
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
  renamed={
    "n_embed": "hidden_size",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
  },
)


class Bloom:
  """See `Family`."""

  model_types = (_KIND,)
  ignored = ()
  prefix = "transformer."
  settle = staticmethod(gpt.settle_tie)

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    return gpt.aliases_of_head(config, "transformer.word_embeddings.weight")

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return _ATTRIBUTES.read(config)["n_layer"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found = _ATTRIBUTES.read(config)
    width, heads = found["hidden_size"], found["n_head"]
    attributes.check_multiple(_KIND, width, heads)
    return Architecture(
      gpt.gin_files("bloom", found),
      {
        "VOCAB_SIZE": found["vocab_size"],
        "EMBED_DIM": width,
        "MLP_DIM": 4 * width,
        "NUM_HEADS": heads,
        "HEAD_DIM": width // heads,
        "NUM_DECODER_LAYERS": found["n_layer"],
        "DROPOUT_RATE": found["hidden_dropout"],
        "embedding/Dropout.rate": 0.0,
        "attention/Dropout.rate": found["attention_dropout"],
        "DecoderOnly.pad_id": attributes.padding_id(config),
        "LayerNorm.epsilon": found["layer_norm_epsilon"],
      },
    )

  @attributes.counterpart(_KIND)
  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    stack = model.decoder.stack
    layer, attention = stack.layer, stack.layer.self_attention
    width = model.token_embedder.features
    if attention.head_dim * attention.num_heads != width:
      raise UserError(
        f"{_KIND} models have heads that divide hidden_size; set HEAD_DIM to "
        "EMBED_DIM / NUM_HEADS"
      )
    if layer.mlp.d_ff != 4 * width:
      raise UserError(
        f"{_KIND} models have feed-forward networks of four times hidden_size, "
        f"{4 * width} and not {layer.mlp.d_ff}; set MLP_DIM to it"
      )
    return {
      "architectures": ["BloomForCausalLM"],
      "model_type": _KIND,
      "vocab_size": model.token_embedder.num_embeddings,
      "hidden_size": width,
      "n_layer": stack.num_layers,
      "n_head": attention.num_heads,
      "layer_norm_epsilon": layer.norm.epsilon,
      "hidden_dropout": layer.dropout.rate,
      "attention_dropout": attention.dropout.rate,
      "tie_word_embeddings": type(model.decoder.head).__name__ == "TiedLogits",
      "pad_token_id": model.pad_id,
    }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = _ATTRIBUTES.read(config)
    body = "transformer"
    links = [
      Link(f"{body}.word_embeddings.weight", ("token_embedder/embedding",)),
      *links_lib.layer_norm(
        f"{body}.word_embeddings_layernorm", "decoder/input_norm"
      ),
      *links_lib.layer_norm(f"{body}.ln_f", "decoder/decoder_norm"),
    ]
    for layer in range(found["n_layer"]):
      links += _block(layer, found["n_head"])
    return [*links, *gpt.head(found)]


def _block(layer: int, num_heads: int) -> Iterator[Link]:
  theirs, ours = f"transformer.h.{layer}", f"decoder/layers_{layer}"
  for norm, name in {
    "input_layernorm": "self_attention",
    "post_attention_layernorm": "mlp",
  }.items():
    yield from links_lib.layer_norm(
      f"{theirs}.{norm}", f"{ours}/pre_{name}_layer_norm"
    )
  parts = [f"{ours}/self_attention/{p}" for p in ("query", "key", "value")]
  for word, leaf in {"weight": "kernel", "bias": "bias"}.items():
    yield Link(
      f"{theirs}.self_attention.query_key_value.{word}",
      tuple(f"{part}/{leaf}" for part in parts),
      links_lib.HeadByHead(num_heads, len(parts)),
    )
  for name, part in {
    "self_attention.dense": "self_attention/out",
    "mlp.dense_h_to_4h": "mlp/wi",
    "mlp.dense_4h_to_h": "mlp/wo",
  }.items():
    yield from links_lib.linear(f"{theirs}.{name}", f"{ours}/{part}")
