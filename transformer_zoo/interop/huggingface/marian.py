"""Marian (`marian`), the Transformer of 2017 as OPUS-MT trained it.

Differences to the architecture here: sines stand before cosines, there is a
bias for each logit, and the two sides may have vocabularies of their own.
Source: `models/marian` of `transformers`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from flax import linen as nn

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import OneRow

_KIND = "marian"
_PADDING = 58100
_BIAS = "final_logits_bias"
_SHARED = "model.shared.weight"
_INPUTS = "model.encoder.embed_tokens.weight"
_TARGETS = "model.decoder.embed_tokens.weight"
_ATTRIBUTES = attributes.Attributes(
  defaults={
    "vocab_size": 58101,
    "decoder_vocab_size": None,  # vocab_size
    "share_encoder_decoder_embeddings": True,
    "d_model": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "activation_function": "gelu",
    "scale_embedding": False,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    _BIAS: True,
  },
  allowed={
    "add_final_layer_norm": (False,),
    "encoder_layerdrop": (0.0,),
    "decoder_layerdrop": (0.0,),
    "do_blenderbot_90_layernorm": (False,),
    "is_encoder_decoder": (True,),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "static_position_embeddings": (True,),
    "tie_word_embeddings": (True,),
  },
  optional={"decoder_vocab_size": int},
  # Sinusoids have no end; the others are of BART, whose class Marian once had.
  without_effect=(
    "max_position_embeddings add_bias_logits classif_dropout "
    "classifier_dropout extra_pos_embeddings init_std"
  ).split(),
  renamed={
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
    "num_hidden_layers": "encoder_layers",
  },
)
_PROJECTIONS = {"q": "query", "k": "key", "v": "value", "out": "out"}
# Of each stack: their sublayer, ours, and what our norm after it is called for.
ATTENTIONS = {
  "encoder": (("self_attn", "attention", "attention"),),
  "decoder": (
    ("self_attn", "self_attention", "self_attention"),
    ("encoder_attn", "encoder_decoder_attention", "cross_attention"),
  ),
}


class Marian:
  """See `Family`."""

  model_types = (_KIND,)
  ignored = (r"(model\.)?(en|de)coder\.embed_positions\.weight",)
  prefix = "model."

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    if not config.get("share_encoder_decoder_embeddings", True):
      return {"lm_head.weight": _TARGETS}
    return {"lm_head.weight": _SHARED, _INPUTS: _SHARED, _TARGETS: _SHARED}

  def settle(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`; without a bias of the logits, they have none."""
    return {**config, _BIAS: _BIAS in stored}

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    found = _read(config)
    return found["encoder_layers"] + found["decoder_layers"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found = _read(config)
    d_model = found["d_model"]
    padding = attributes.padding_id(config, default=_PADDING)
    bindings = {
      "VOCAB_SIZE": found["vocab_size"],
      "EMBED_DIM": d_model,
      "MLP_DIM": found["encoder_ffn_dim"],
      "DecoderLayer.mlp": Reference("@decoder/Mlp()"),
      "decoder/Mlp.d_ff": found["decoder_ffn_dim"],
      "NUM_ENCODER_LAYERS": found["encoder_layers"],
      "NUM_DECODER_LAYERS": found["decoder_layers"],
      "DROPOUT_RATE": float(found["dropout"]),
      "attention/Dropout.rate": float(found["attention_dropout"]),
      "hidden/Dropout.rate": float(found["activation_dropout"]),
      "EncoderDecoder.pad_id": padding,
      "Embed.multiply_by_sqrt_depth": found["scale_embedding"],
      "SinusoidalPositions.interleaved": False,
      "TiedLogits.use_bias": found[_BIAS],
      "Mlp.activation": attributes.activation(
        _KIND, "activation_function", found["activation_function"]
      ),
    }
    for side in ATTENTIONS:
      heads = found[f"{side}_attention_heads"]
      attributes.check_multiple(_KIND, d_model, heads)
      bindings[f"{side}/Attention.num_heads"] = heads
      bindings[f"{side}/Attention.head_dim"] = d_model // heads
    if not found["share_encoder_decoder_embeddings"]:
      bindings["EncoderDecoder.target_embedder"] = Reference("@target/Embed()")
      bindings["target/Embed.num_embeddings"] = found["decoder_vocab_size"]
    return Architecture(("architectures/transformer_2017.gin",), bindings)

  @attributes.counterpart(_KIND)
  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    encoder, decoder = model.encoder, model.decoder.stack
    targets = model.target_embedder or model.token_embedder
    found = {
      "architectures": ["MarianMTModel"],
      "model_type": _KIND,
      "is_encoder_decoder": True,
      "vocab_size": model.token_embedder.num_embeddings,
      "decoder_vocab_size": targets.num_embeddings,
      "share_encoder_decoder_embeddings": model.target_embedder is None,
      "d_model": model.token_embedder.features,
      "activation_function": attributes.their_activation(
        _KIND, decoder.layer.mlp.activation
      ),
      "scale_embedding": model.token_embedder.multiply_by_sqrt_depth,
      "dropout": decoder.layer.dropout.rate,
      "attention_dropout": decoder.layer.self_attention.dropout.rate,
      "activation_dropout": decoder.layer.mlp.dropout.rate,
      "pad_token_id": model.pad_id,
      "decoder_start_token_id": model.pad_id,
      # These are 0 where nothing is said.
      "eos_token_id": None,
      "forced_eos_token_id": None,
      _BIAS: model.decoder.head.use_bias,
    }
    for side, stack, attention in (
      ("encoder", encoder, encoder.layer.attention),
      ("decoder", decoder, decoder.layer.self_attention),
    ):
      found[f"{side}_layers"] = stack.num_layers
      found[f"{side}_ffn_dim"] = stack.layer.mlp.d_ff
      found[f"{side}_attention_heads"] = attention.num_heads
    return found

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = _read(config)
    links = []
    if found["share_encoder_decoder_embeddings"]:
      links.append(Link(_SHARED, ("token_embedder/embedding",)))
    else:
      links.append(Link(_INPUTS, ("token_embedder/embedding",)))
      links.append(Link(_TARGETS, ("target_embedder/embedding",)))
    for side in ATTENTIONS:
      for layer in range(found[f"{side}_layers"]):
        links += links_of_layer(side, layer)
    if found[_BIAS]:
      links.append(Link(_BIAS, ("decoder/logits_bias",), OneRow()))
    return links


def _read(config: Mapping[str, Any]) -> dict[str, Any]:
  found = _ATTRIBUTES.read(config)
  found["decoder_vocab_size"] = (
    found["decoder_vocab_size"] or found["vocab_size"]
  )
  return found


def links_of_layer(
  side: str, layer: int, norms: str = "post"
) -> Iterator[Link]:
  """Links of a layer of Marian, BART or mBART.

  Args:
    side: "encoder" or "decoder".
    layer: The number of the layer.
    norms: Whether norms stand behind the sublayers, "post", or before them,
      "pre".
  """
  theirs, ours = f"model.{side}.layers.{layer}", f"{side}/layers_{layer}"
  for name, sublayer, norm in ATTENTIONS[side]:
    for letter, part in _PROJECTIONS.items():
      yield from links_lib.linear(
        f"{theirs}.{name}.{letter}_proj", f"{ours}/{sublayer}/{part}"
      )
    yield from links_lib.layer_norm(
      f"{theirs}.{name}_layer_norm", f"{ours}/{norms}_{norm}_layer_norm"
    )
  yield from links_lib.linear(f"{theirs}.fc1", f"{ours}/mlp/wi")
  yield from links_lib.linear(f"{theirs}.fc2", f"{ours}/mlp/wo")
  yield from links_lib.layer_norm(
    f"{theirs}.final_layer_norm", f"{ours}/{norms}_mlp_layer_norm"
  )
