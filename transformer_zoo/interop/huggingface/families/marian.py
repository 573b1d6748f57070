"""Marian (`marian`), the Transformer of 2017 as OPUS-MT trained it.

Differences to the architecture here: sines stand before cosines, there is a
bias for each logit, and the two sides may have vocabularies of their own.
Source: `models/marian` of `transformers`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import OneRow

BIAS = "final_logits_bias"
_SHARES = "share_encoder_decoder_embeddings"
_SHARED = "model.shared.weight"
_INPUTS = "model.encoder.embed_tokens.weight"
_TARGETS = "model.decoder.embed_tokens.weight"
_PROJECTIONS = {"q": "query", "k": "key", "v": "value", "out": "out"}
# Of each stack: their sublayer, ours, and what our norm after it is called for.
ATTENTIONS = {
  "encoder": (("self_attn", "attention", "attention"),),
  "decoder": (
    ("self_attn", "self_attention", "self_attention"),
    ("encoder_attn", "encoder_decoder_attention", "cross_attention"),
  ),
}


def _target_size(parts: Parts) -> int:
  return (parts.model.target_embedder or parts.tokens).num_embeddings


def _target_embedder(found: Mapping[str, Any]) -> dict[str, Any]:
  if found[_SHARES]:
    return {}
  return {
    "EncoderDecoder.target_embedder": Reference("@target/Embed()"),
    "target/Embed.num_embeddings": found["decoder_vocab_size"],
  }


def _mlp_of_decoder(found: Mapping[str, Any]) -> dict[str, Any]:
  return {
    "DecoderLayer.mlp": Reference("@decoder/Mlp()"),
    "decoder/Mlp.d_ff": found["decoder_ffn_dim"],
  }


def _heads(side: str, of: str, *spellings: str) -> Attribute:
  name = f"{side}_attention_heads"
  return attributes.heads(
    name,
    16,
    "d_model",
    number=f"{side}/Attention.num_heads",
    size=f"{side}/Attention.head_dim",
    of=of,
    spellings=spellings,
  )


# What Marian, BART and mBART have in common.
COMMON = Attributes(
  (
    Attribute("vocab_size", 58101, "VOCAB_SIZE"),
    Attribute("d_model", 1024, "EMBED_DIM", spellings=("hidden_size",)),
    Attribute(
      "encoder_layers",
      12,
      "NUM_ENCODER_LAYERS",
      spellings=("num_hidden_layers",),
    ),
    Attribute("encoder_ffn_dim", 4096, "MLP_DIM", "encoder.mlp.d_ff"),
    _heads("encoder", "encoder.attention.num_heads", "num_attention_heads"),
    Attribute("decoder_layers", 12, "NUM_DECODER_LAYERS"),
    Attribute("decoder_ffn_dim", 4096, _mlp_of_decoder, "mlp.d_ff"),
    _heads("decoder", "attention.num_heads"),
    Attribute("activation_function", "gelu", "Mlp.activation"),
    Attribute("scale_embedding", False, "Embed.multiply_by_sqrt_depth"),
    Attribute("dropout", 0.1, "DROPOUT_RATE"),
    Attribute("attention_dropout", 0.0, "attention/Dropout.rate"),
    Attribute("activation_dropout", 0.0, "hidden/Dropout.rate"),
  ),
  allowed={
    "encoder_layerdrop": (0.0,),
    "decoder_layerdrop": (0.0,),
    "do_blenderbot_90_layernorm": (False,),
    "is_encoder_decoder": (True,),
    "tie_word_embeddings": (True,),
  },
  without_effect="add_bias_logits classif_dropout init_std".split(),
)
_ATTRIBUTES = COMMON.changed(
  Attribute(
    "decoder_vocab_size",
    None,
    _target_embedder,
    _target_size,
    kind=int,
    absent=lambda found: found["vocab_size"],
    counts_rows=True,
  ),
  Attribute(
    _SHARES, True, of=lambda parts: parts.model.target_embedder is None
  ),
  # Added by `completed`; its class has no such attribute.
  Attribute(BIAS, True, "TiedLogits.use_bias", "softmax.use_bias"),
  attributes.padding("EncoderDecoder.pad_id", 58100),
  attributes.STARTS_WITH_PADDING,
  allowed={
    "add_final_layer_norm": (False,),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "static_position_embeddings": (True,),
  },
  # Sinusoids have no end; the others are of BART, whose class Marian once had.
  without_effect=(
    "max_position_embeddings classifier_dropout extra_pos_embeddings"
  ).split(),
)


class _Marian(Family):
  """See `Family`."""

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    if not config.get(_SHARES, True):
      return {"lm_head.weight": _TARGETS}
    return {"lm_head.weight": _SHARED, _INPUTS: _SHARED, _TARGETS: _SHARED}

  def completed(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`; without a bias of the logits, they have none."""
    return {**config, BIAS: BIAS in stored}

  @property
  def head_names(self) -> Collection[str]:
    """See `Family`."""
    return ("lm_head.", BIAS)

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = self.read(config)
    links = []
    if found[_SHARES]:
      links.append(Link(_SHARED, ("token_embedder/embedding",)))
    else:
      links.append(Link(_INPUTS, ("token_embedder/embedding",)))
      links.append(Link(_TARGETS, ("target_embedder/embedding",)))
    for side in ATTENTIONS:
      for layer in range(found[f"{side}_layers"]):
        links += links_of_layer(side, layer)
    if found[BIAS]:
      links.append(Link(BIAS, ("decoder/logits_bias",), OneRow()))
    return links


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
  theirs, ours = f"model.{side}.layers.{layer}.", f"{side}/layers_{layer}/"
  table = {
    "mlp/wi": "fc1",
    "mlp/wo": "fc2",
    f"{norms}_mlp_layer_norm": "final_layer_norm",
  }
  for name, sublayer, norm in ATTENTIONS[side]:
    table[f"{norms}_{norm}_layer_norm"] = f"{name}_layer_norm"
    for letter, part in _PROJECTIONS.items():
      table[f"{sublayer}/{part}"] = f"{name}.{letter}_proj"
  yield from links_lib.of_table(table, theirs, ours)


FAMILIES = (
  _Marian(
    kind="marian",
    attributes=_ATTRIBUTES,
    prefix="model.",
    ignored=(r"(model\.)?(en|de)coder\.embed_positions\.weight",),
    architecture_file="architectures/transformer_2017.gin",
    layer_counts=("encoder_layers", "decoder_layers"),
    bindings={"SinusoidalPositions.interleaved": False},
    written={
      "architectures": ["MarianMTModel"],
      "is_encoder_decoder": True,
      # These are 0 where nothing is said.
      "eos_token_id": None,
      "forced_eos_token_id": None,
    },
  ),
)
