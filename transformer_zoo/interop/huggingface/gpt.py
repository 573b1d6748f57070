"""What GPT-1, GPT-2 and GPT-Neo have in common, under GPT-2's names."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from flax import linen as nn

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import pytorch_modules
from transformer_zoo.interop.tensors.links import Link

HEAD = "lm_head.weight"
DEFAULTS = {
  "n_embd": 768,
  "n_layer": 12,
  "n_head": 12,
  "resid_pdrop": 0.1,
  "embd_pdrop": 0.1,
  "attn_pdrop": 0.1,
  "layer_norm_epsilon": 1e-5,
  "tie_word_embeddings": True,
}
RENAMED = {
  "hidden_size": "n_embd",
  "num_hidden_layers": "n_layer",
  "num_attention_heads": "n_head",
  "max_position_embeddings": "n_positions",
}
# Those of other heads than the language model's, and of old versions.
WITHOUT_EFFECT = (
  "classifier_dropout n_ctx n_special predict_special_tokens "
  "summary_activation summary_first_dropout summary_last_dropout "
  "summary_proj_to_labels summary_type summary_use_proj"
).split()


def aliases(config: Mapping[str, Any], table: str) -> Mapping[str, str]:
  """See `Family`.

  Args:
    config: config.json.
    table: the name of the embeddings.
  """
  return {HEAD: table} if says_tied(config) else {}


def settle(
  config: Mapping[str, Any], stored: Collection[str]
) -> dict[str, Any]:
  """See `Family`."""
  tied = says_tied(config) and HEAD not in stored
  return {**config, "tie_word_embeddings": tied}


def says_tied(config: Mapping[str, Any]) -> bool:
  """Whether a config.json asks for one table of inputs and softmax."""
  return config.get("tie_word_embeddings", DEFAULTS["tie_word_embeddings"])


def gin_files(architecture: str, found: Mapping[str, Any]) -> tuple[str, ...]:
  """Those of a tied or untied model."""
  softmax = "tied" if found["tie_word_embeddings"] else "untied"
  return (
    f"architectures/{architecture}.gin",
    f"parts/softmax/{softmax}.gin",
  )


def bindings(
  found: Mapping[str, Any], config: Mapping[str, Any], activation: str
) -> dict[str, Any]:
  """Those of all three architectures.

  Args:
    found: the attributes that were read.
    config: config.json.
    activation: our name of it.
  """
  return {
    "VOCAB_SIZE": found["vocab_size"],
    "MAX_POSITIONS": found["n_positions"],
    "EMBED_DIM": found["n_embd"],
    "MLP_DIM": found.get("n_inner") or 4 * found["n_embd"],
    "NUM_HEADS": found["n_head"],
    "HEAD_DIM": found["n_embd"] // found["n_head"],
    "NUM_DECODER_LAYERS": found["n_layer"],
    "DROPOUT_RATE": float(found["resid_pdrop"]),
    "embedding/Dropout.rate": float(found["embd_pdrop"]),
    "attention/Dropout.rate": float(found["attn_pdrop"]),
    "DecoderOnly.pad_id": attributes.padding_id(config),
    "LayerNorm.epsilon": found["layer_norm_epsilon"],
    "Mlp.activation": activation,
  }


def attributes_of(model: nn.Module) -> dict[str, Any]:
  """The attributes that a model of ours would be read from."""
  stack = model.decoder.stack
  layer = stack.layer
  return {
    "vocab_size": model.token_embedder.num_embeddings,
    "n_positions": stack.position_embedder.num_positions,
    "n_embd": model.token_embedder.features,
    "n_layer": stack.num_layers,
    "n_head": layer.self_attention.num_heads,
    "n_inner": layer.mlp.d_ff,
    "resid_pdrop": layer.dropout.rate,
    "embd_pdrop": stack.dropout.rate,
    "attn_pdrop": layer.self_attention.dropout.rate,
    "layer_norm_epsilon": layer.norm.epsilon,
    "tie_word_embeddings": type(model.decoder.head).__name__ == "TiedLogits",
    "pad_token_id": model.pad_id,
  }


def head(found: Mapping[str, Any]) -> Iterator[Link]:
  """The softmax's matrix, where it has one of its own."""
  if not found["tie_word_embeddings"]:
    yield from pytorch_modules.linear(
      "lm_head", "decoder/logits_dense", bias=False
    )
