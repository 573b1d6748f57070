"""T5, T5.1.1, Flan-T5, T0, ByT5 (`t5`), mT5 (`mt5`) and umT5 (`umt5`).

Differences to ours: PyTorch keeps a matrix as (out, in) and the bias table as
(buckets, heads); the bias of a stack lies in its first block; the sublayers of
a block are numbered. Source: `models/t5`, `mt5`, `umt5` of `transformers`.
"""

from collections.abc import Collection, Iterator, Mapping
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import Transposed

_HEAD = "lm_head.weight"
_TABLE = "shared.weight"
_ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}
_ENCODER_ATTENTION = (("attention", "attention", "SelfAttention"),)
_DECODER_ATTENTION = (
  ("self_attention", "self_attention", "SelfAttention"),
  ("encoder_decoder_attention", "cross_attention", "EncDecAttention"),
)
_DEFAULTS = {
  "d_model": 512,
  "d_kv": 64,
  "num_decoder_layers": None,  # as many as the encoder has
  "relative_attention_num_buckets": 32,
  "relative_attention_max_distance": 128,
  "dropout_rate": 0.1,
  "layer_norm_epsilon": 1e-6,
  # These two follow from feed_forward_proj where they are absent, and overrule
  # it where they are not.
  "dense_act_fn": None,
  "is_gated_act": None,
  "tie_word_embeddings": True,
  "scale_decoder_outputs": None,
}
_OF_T5 = {
  "vocab_size": 32128,
  "d_ff": 2048,
  "num_layers": 6,
  "num_heads": 8,
  "feed_forward_proj": "relu",
}
_OF_MT5 = {
  "vocab_size": 250112,
  "d_ff": 1024,
  "num_layers": 8,
  "num_heads": 6,
  "feed_forward_proj": "gated-gelu",
}


@dataclasses.dataclass(frozen=True)
class T5:
  """One `model_type` of the family.

  Attributes:
    model_type: The name of the type: t5, mt5 or umt5.
    defaults: The values of absent attributes in which the types differ.
    bias_per_layer: Whether each layer has a bias table of its own.
    scales: Whether a tie in the configuration means that the output is scaled
      by d_model^-0.5 before the softmax.
  """

  model_type: str
  defaults: Mapping[str, Any]
  bias_per_layer: bool = False
  scales: bool = True

  # Old files have a bias for the attention to the encoder that nothing reads.
  ignored = (
    r"decoder\.block\.0\.layer\.1\.EncDecAttention\."
    r"relative_attention_bias\.weight",
  )
  prefix = ""

  @property
  def model_types(self) -> tuple[str, ...]:
    """See `Family`."""
    return (self.model_type,)

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    del config
    return {
      "encoder.embed_tokens.weight": _TABLE,
      "decoder.embed_tokens.weight": _TABLE,
      _HEAD: _TABLE,
    }

  def settle(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`; a tie has also meant a scaled output."""
    scaled = config.get("scale_decoder_outputs")
    if scaled is None:
      scaled = config.get("tie_word_embeddings") is not False
    return {
      **config,
      "tie_word_embeddings": _HEAD not in stored,
      "scale_decoder_outputs": scaled and self.scales,
    }

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    found = self._read(config)
    return found["num_layers"] + found["num_decoder_layers"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found = self._read(config)
    gated, tied = found["is_gated_act"], found["tie_word_embeddings"]
    gin_files = [
      "architectures/t5_1_1.gin" if gated else "architectures/t5_1_0.gin",
      "parts/softmax/tied.gin" if tied else "parts/softmax/untied.gin",
    ]
    if self.bias_per_layer:
      gin_files.append("parts/positions/t5_buckets_per_layer.gin")
    padding = attributes.padding_id(config, default=0)
    mlp = "GatedMlp" if gated else "Mlp"
    head = "TiedLogits" if tied else "LinearLogits"
    bindings = {
      "VOCAB_SIZE": found["vocab_size"],
      "EMBED_DIM": found["d_model"],
      "MLP_DIM": found["d_ff"],
      "NUM_HEADS": found["num_heads"],
      "HEAD_DIM": found["d_kv"],
      "NUM_ENCODER_LAYERS": found["num_layers"],
      "NUM_DECODER_LAYERS": found["num_decoder_layers"],
      "DROPOUT_RATE": float(found["dropout_rate"]),
      "EncoderDecoder.pad_id": padding,
      "RMSNorm.epsilon": found["layer_norm_epsilon"],
      "RelativePositionBias.num_buckets": found[
        "relative_attention_num_buckets"
      ],
      "RelativePositionBias.max_distance": found[
        "relative_attention_max_distance"
      ],
      f"{mlp}.activation": found["dense_act_fn"],
      f"{head}.scale_by_depth": found["scale_decoder_outputs"],
    }
    return Architecture(tuple(gin_files), bindings)

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    if type(model).__name__ != "EncoderDecoder" or model.encoder is None:
      raise UserError(
        f"{self.model_type} models have an encoder of their own and a decoder"
      )
    stack, head = model.decoder.stack, model.decoder.head
    attention, mlp = stack.layer.self_attention, stack.layer.mlp
    holder = attention if self.bias_per_layer else stack
    bias = holder.position_bias
    if type(bias).__name__ != "RelativePositionBias":
      raise UserError(
        f"{self.model_type} models have a relative bias in "
        + ("every layer" if self.bias_per_layer else "their stacks")
      )
    act = attributes.their_activation(self.model_type, mlp.activation)
    gated = type(mlp).__name__ == "GatedMlp"
    return {
      "architectures": [f"{self.model_type.upper()}ForConditionalGeneration"],
      "model_type": self.model_type,
      "is_encoder_decoder": True,
      "vocab_size": model.token_embedder.num_embeddings,
      "d_model": model.token_embedder.features,
      "d_kv": attention.head_dim,
      "d_ff": mlp.d_ff,
      "num_layers": model.encoder.num_layers,
      "num_decoder_layers": stack.num_layers,
      "num_heads": attention.num_heads,
      "relative_attention_num_buckets": bias.num_buckets,
      "relative_attention_max_distance": bias.max_distance,
      "dropout_rate": stack.dropout.rate,
      "layer_norm_epsilon": getattr(stack.norm, "epsilon", None),
      "feed_forward_proj": f"gated-{act}".removesuffix("_new")
      if gated
      else act,
      "dense_act_fn": act,
      "is_gated_act": gated,
      "tie_word_embeddings": type(head).__name__ == "TiedLogits",
      "scale_decoder_outputs": head.scale_by_depth,
      "pad_token_id": model.pad_id,
      "decoder_start_token_id": model.pad_id,
    }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = self._read(config)
    links = [Link(_TABLE, ("token_embedder/embedding",))]
    for side, attentions, number in (
      ("encoder", _ENCODER_ATTENTION, found["num_layers"]),
      ("decoder", _DECODER_ATTENTION, found["num_decoder_layers"]),
    ):
      for layer in range(number):
        links += self._layer(side, attentions, layer, found["is_gated_act"])
      links.append(
        Link(f"{side}.final_layer_norm.weight", (f"{side}/{side}_norm/scale",))
      )
    if not found["tie_word_embeddings"]:
      links.append(_matrix(_HEAD, "decoder/logits_dense/kernel"))
    return links

  def _layer(
    self, side: str, attentions: tuple, layer: int, gated: bool
  ) -> Iterator[Link]:
    ours = f"{side}/layers_{layer}"
    theirs = f"{side}.block.{layer}.layer"
    for index, (name, norm, kind) in enumerate(attentions):
      yield Link(
        f"{theirs}.{index}.layer_norm.weight",
        (f"{ours}/pre_{norm}_layer_norm/scale",),
      )
      for matrix, letter in _ATTENTION.items():
        yield _matrix(
          f"{theirs}.{index}.{kind}.{letter}.weight",
          f"{ours}/{name}/{matrix}/kernel",
        )
    if self.bias_per_layer or layer == 0:
      holder = f"{ours}/{attentions[0][0]}" if self.bias_per_layer else side
      yield _matrix(
        f"{theirs}.0.SelfAttention.relative_attention_bias.weight",
        f"{holder}/relpos_bias/rel_embedding",
      )
    last = len(attentions)
    yield Link(
      f"{theirs}.{last}.layer_norm.weight",
      (f"{ours}/pre_mlp_layer_norm/scale",),
    )
    for matrix in ("wi_0", "wi_1", "wo") if gated else ("wi", "wo"):
      yield _matrix(
        f"{theirs}.{last}.DenseReluDense.{matrix}.weight",
        f"{ours}/mlp/{matrix}/kernel",
      )

  def _read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, with those filled in that follow from others."""
    found = attributes.Attributes(
      defaults={**_DEFAULTS, **self.defaults},
      allowed={"is_encoder_decoder": (True,)},
      without_effect=(
        # scalable_attention tells how T5X stored umT5.
        "classifier_dropout initializer_factor n_positions scalable_attention"
      ).split(),
      optional={
        "num_decoder_layers": int,
        "dense_act_fn": str,
        "is_gated_act": bool,
        "scale_decoder_outputs": bool,
      },
      renamed={
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
      },
    ).read(config)
    if found["num_decoder_layers"] is None:
      found["num_decoder_layers"] = found["num_layers"]
    kind, _, act = found["feed_forward_proj"].rpartition("-")
    attributes.check_allowed(
      self.model_type, "feed_forward_proj's first part", kind, ("gated", "")
    )
    if found["is_gated_act"] is None:
      found["is_gated_act"] = kind == "gated"
    if found["dense_act_fn"] is None:
      found["dense_act_fn"] = "gelu_new" if kind and act == "gelu" else act
    found["dense_act_fn"] = attributes.activation(
      self.model_type, "dense_act_fn", found["dense_act_fn"]
    )
    if found["scale_decoder_outputs"] is None:
      found["scale_decoder_outputs"] = found["tie_word_embeddings"]
    found["scale_decoder_outputs"] &= self.scales
    return found


def _matrix(theirs: str, ours: str) -> Link:
  return Link(theirs, (ours,), Transposed())


FAMILIES = (
  T5("t5", _OF_T5),
  T5("mt5", _OF_MT5, scales=False),
  T5("umt5", _OF_MT5, bias_per_layer=True),
)
