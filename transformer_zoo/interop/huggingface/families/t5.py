"""T5, T5.1.1, Flan-T5, T0, ByT5 (`t5`), mT5 (`mt5`) and umT5 (`umt5`).

Their encoder alone, as sentence embeddings are made of, is an encoder of ours
(parts/encoder_of_t5.gin). Differences to ours: PyTorch keeps a matrix as (out,
in) and the bias table as (buckets, heads); the bias of a stack lies in its
first block; the sublayers of a block are numbered. Source: `models/t5`, `mt5`,
`umt5` of `transformers`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.interop.huggingface.family import HEAD
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import Transposed

_TABLE = "shared.weight"
# Old files have a bias for the attention to the encoder that nothing reads.
IGNORED = (
  r"decoder\.block\.0\.layer\.1\.EncDecAttention\."
  r"relative_attention_bias\.weight",
)
_ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}
_ENCODER_ATTENTION = (("attention", "attention", "SelfAttention"),)
_DECODER_ATTENTION = (
  ("self_attention", "self_attention", "SelfAttention"),
  ("encoder_decoder_attention", "cross_attention", "EncDecAttention"),
)


def _is_gated(parts: Parts) -> bool:
  return type(parts.mlp).__name__ == "GatedMlp"


def _projection(parts: Parts) -> str:
  """Their one word for activation and gate: "gated-gelu" has gelu_new."""
  act = attributes.their_value(
    parts.kind, attributes.ACTIVATIONS, parts.mlp.activation
  )
  return f"gated-{act}".removesuffix("_new") if _is_gated(parts) else act


def _named_activation(found: Mapping[str, Any]) -> str:
  kind, _, act = found["feed_forward_proj"].rpartition("-")
  return "gelu_new" if kind and act == "gelu" else act


def _activation(found: Mapping[str, Any]) -> dict[str, str]:
  part = "GatedMlp" if found["is_gated_act"] else "Mlp"
  return {f"{part}.activation": attributes.activation(found, "dense_act_fn")}


def _scale(found: Mapping[str, Any]) -> dict[str, bool]:
  head = "TiedLogits" if found["tie_word_embeddings"] else "LinearLogits"
  return {f"{head}.scale_by_depth": found["scale_decoder_outputs"]}


ATTRIBUTES = Attributes(
  (
    Attribute("vocab_size", 32128, "VOCAB_SIZE"),
    Attribute("d_model", 512, "EMBED_DIM", spellings=("hidden_size",)),
    Attribute("d_kv", 64, "HEAD_DIM", spellings=("head_dim",)),
    Attribute("d_ff", 2048, "MLP_DIM"),
    Attribute(
      "num_layers", 6, "NUM_ENCODER_LAYERS", spellings=("num_hidden_layers",)
    ),
    Attribute(
      "num_decoder_layers",
      None,
      "NUM_DECODER_LAYERS",
      kind=int,
      absent=lambda found: found["num_layers"],
    ),
    Attribute("num_heads", 8, "NUM_HEADS", spellings=("num_attention_heads",)),
    Attribute(
      "relative_attention_num_buckets",
      32,
      "RelativePositionBias.num_buckets",
      lambda parts: _bias(parts).num_buckets,
    ),
    Attribute(
      "relative_attention_max_distance",
      128,
      "RelativePositionBias.max_distance",
      lambda parts: _bias(parts).max_distance,
    ),
    Attribute("dropout_rate", 0.1, "DROPOUT_RATE", "dropout.rate"),
    Attribute(
      "layer_norm_epsilon",
      1e-6,
      "RMSNorm.epsilon",
      lambda parts: getattr(parts.norm, "epsilon", None),
    ),
    Attribute("feed_forward_proj", "relu", of=_projection),
    # These two follow from feed_forward_proj where they are absent, and
    # overrule it where they are not.
    Attribute(
      "dense_act_fn",
      None,
      _activation,
      "mlp.activation",
      kind=str,
      values=attributes.ACTIVATIONS,
      absent=_named_activation,
    ),
    Attribute(
      "is_gated_act",
      None,
      of=_is_gated,
      kind=bool,
      absent=lambda found: found["feed_forward_proj"].startswith("gated-"),
    ),
    Attribute("tie_word_embeddings", True, of=attributes.tied),
    Attribute(
      "scale_decoder_outputs",
      None,
      _scale,
      "softmax.scale_by_depth",
      kind=bool,
      absent=lambda found: found["tie_word_embeddings"],
    ),
    attributes.padding("EncoderDecoder.pad_id", 0),
    attributes.STARTS_WITH_PADDING,
  ),
  allowed={"is_encoder_decoder": (True,)},
  # scalable_attention records how T5X stored umT5.
  without_effect=(
    "classifier_dropout initializer_factor n_positions scalable_attention"
  ).split(),
)
# What an encoder alone has not, and its bindings.
_OF_DECODER = (
  *("num_decoder_layers", "decoder_start_token_id"),
  *("tie_word_embeddings", "scale_decoder_outputs"),
)
_BOUND_OF_DECODER = (
  *("NUM_DECODER_LAYERS", "EncoderDecoder.pad_id"),
  *("TiedLogits.scale_by_depth", "LinearLogits.scale_by_depth"),
)
_ALONE = "encoder_alone"
_OF_MT5 = ATTRIBUTES.changed(
  vocab_size=250112,
  d_ff=1024,
  num_layers=8,
  num_heads=6,
  feed_forward_proj="gated-gelu",
)


def _bias(parts: Parts) -> nn.Module:
  """The relative bias, umT5's in the attention of every layer."""
  per_layer = parts.kind == "umt5"
  bias = parts.attention.position_bias if per_layer else parts.bias
  if type(bias).__name__ != "RelativePositionBias":
    raise UserError(
      f"{parts.kind} models have a relative bias in "
      + ("every layer" if per_layer else "their stacks")
    )
  return bias


@dataclasses.dataclass(frozen=True, kw_only=True)
class T5(Family):
  """See `Family`.

  Attributes:
    bias_per_layer: Whether each layer has a bias table of its own.
    scales: Whether a tie in the configuration means that the output is scaled
      by d_model^-0.5 before the softmax.
  """

  bias_per_layer: bool = False
  scales: bool = True

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    del config
    return {
      "encoder.embed_tokens.weight": _TABLE,
      "decoder.embed_tokens.weight": _TABLE,
      HEAD: _TABLE,
    }

  def completed(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`; a tie has also meant a scaled output."""
    scaled = config.get("scale_decoder_outputs")
    if scaled is None:
      scaled = config.get("tie_word_embeddings") is not False
    found = {
      **config,
      "tie_word_embeddings": HEAD not in stored,
      "scale_decoder_outputs": scaled and self.scales,
    }
    if {name.partition(".")[0] for name in stored} == {"shared", "encoder"}:
      found["architectures"] = self._encoder_class
    return found

  @property
  def _encoder_class(self) -> list[str]:
    """The `architectures` of their encoder alone."""
    (whole,) = self.written["architectures"]
    return [whole.replace("ForConditionalGeneration", "EncoderModel")]

  def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    alone = config.get("architectures") == self._encoder_class
    if alone:  # Of old versions True, as of the whole model.
      config = {k: v for k, v in config.items() if k != "is_encoder_decoder"}
    found = {**super().read(config), _ALONE: alone}
    gate, _, _ = found["feed_forward_proj"].rpartition("-")
    attributes.check_allowed(
      self.kind, "feed_forward_proj's first part", gate, ("gated", "")
    )
    found["scale_decoder_outputs"] &= self.scales
    return found

  def gin_files(self, found: Mapping[str, Any]) -> Sequence[str]:
    """See `Family`."""
    version = "t5_1_1" if found["is_gated_act"] else "t5_1_0"
    files = [f"architectures/{version}.gin"]
    if not found.get(_ALONE):
      softmax = "tied" if found["tie_word_embeddings"] else "untied"
      files.append(f"parts/softmax/{softmax}.gin")
    if self.bias_per_layer:
      files.append("parts/positions/t5_buckets_per_layer.gin")
    return [*files, *(["parts/encoder_of_t5.gin"] if found.get(_ALONE) else [])]

  def bindings_of(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    bound = super().bindings_of(found)
    if not found.get(_ALONE):
      return bound
    kept = {k: v for k, v in bound.items() if k not in _BOUND_OF_DECODER}
    return kept | {
      "EncoderOnly.pad_id": bound["EncoderDecoder.pad_id"],
      "EncoderOnly.heads": Reference("@Heads()"),
      "Heads.parts": {},
    }

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    if type(model).__name__ == "EncoderOnly" and not model.heads.parts:
      rows = self.attributes.changed(without=_OF_DECODER)
      with attributes.counterpart(self.kind):
        return {
          "model_type": self.kind,
          **self.written,
          **rows.described(self.parts_of(model).encoder),
          "architectures": self._encoder_class,
          "is_encoder_decoder": False,
        }
    if type(model).__name__ != "EncoderDecoder" or model.encoder is None:
      raise UserError(
        f"{self.kind} models have an encoder of their own and a decoder"
      )
    return super().config(model)

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = self.read(config)
    links = [Link(_TABLE, ("token_embedder/embedding",))]
    sides = [("encoder", _ENCODER_ATTENTION, found["num_layers"])]
    if not found.get(_ALONE):
      number = found["num_decoder_layers"]
      sides.append(("decoder", _DECODER_ATTENTION, number))
    for side, attentions, number in sides:
      for layer in range(number):
        links += self._layer(side, attentions, layer, found)
      links.append(
        Link(f"{side}.final_layer_norm.weight", (f"{side}/{side}_norm/scale",))
      )
    if not found.get(_ALONE) and not found["tie_word_embeddings"]:
      links.append(matrix_link(HEAD, "decoder/logits_dense/kernel"))
    return links

  def _layer(
    self,
    side: str,
    attentions: tuple,
    layer: int,
    found: Mapping[str, Any],
  ) -> Iterator[Link]:
    ours = f"{side}/layers_{layer}"
    theirs = f"{side}.block.{layer}.layer"
    for index, (name, norm, kind) in enumerate(attentions):
      yield Link(
        f"{theirs}.{index}.layer_norm.weight",
        (f"{ours}/pre_{norm}_layer_norm/scale",),
      )
      for matrix, letter in _ATTENTION.items():
        yield matrix_link(
          f"{theirs}.{index}.{kind}.{letter}.weight",
          f"{ours}/{name}/{matrix}/kernel",
        )
    if self.bias_per_layer or layer == 0:
      holder = f"{ours}/{attentions[0][0]}" if self.bias_per_layer else side
      yield matrix_link(
        f"{theirs}.0.SelfAttention.relative_attention_bias.weight",
        f"{holder}/relpos_bias/rel_embedding",
      )
    last = len(attentions)
    yield Link(
      f"{theirs}.{last}.layer_norm.weight",
      (f"{ours}/pre_mlp_layer_norm/scale",),
    )
    yield from self.links_of_mlp(
      found, side, layer, f"{theirs}.{last}", f"{ours}/mlp"
    )

  def links_of_mlp(
    self,
    found: Mapping[str, Any],
    side: str,
    layer: int,
    theirs: str,
    ours: str,
  ) -> Iterator[Link]:
    """Links of the feed-forward network of a layer.

    Args:
      found: The attributes of the model.
      side: "encoder" or "decoder".
      layer: The number of the layer.
      theirs: The name of their sublayer.
      ours: The name of our network.
    """
    del side, layer
    gated = found["is_gated_act"]
    for matrix in ("wi_0", "wi_1", "wo") if gated else ("wi", "wo"):
      yield matrix_link(
        f"{theirs}.DenseReluDense.{matrix}.weight", f"{ours}/{matrix}/kernel"
      )


def matrix_link(theirs: str, ours: str) -> Link:
  """The link of a matrix that PyTorch keeps as (out, in)."""
  return Link(theirs, (ours,), Transposed())


def _family(kind: str, rows: Attributes, **options: bool) -> T5:
  return T5(
    kind=kind,
    attributes=rows,
    layer_counts=("num_layers", "num_decoder_layers"),
    ignored=IGNORED,
    written={
      "architectures": [f"{kind.upper()}ForConditionalGeneration"],
      "is_encoder_decoder": True,
    },
    **options,
  )


FAMILIES = (
  _family("t5", ATTRIBUTES),
  _family("mt5", _OF_MT5, scales=False),
  _family("umt5", _OF_MT5, bias_per_layer=True),
)
