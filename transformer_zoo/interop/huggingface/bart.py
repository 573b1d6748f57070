"""BART (`bart`) and mBART (`mbart`), for generation and with heads.

A class of theirs writes text, or has a head on the decoder, which reads what
the encoder reads; which, the tensors of a file tell. mBART normalizes before
its sublayers and once more at the end of each stack, and begins a text that
both sides read with its last token. Source: `models/bart` and `models/mbart`
of `transformers`.
"""

from collections.abc import Collection, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import marian
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import OneRow

# What settles a configuration: a bias of logits that is not 0.
_BIAS = "final_logits_bias"
_SHARED = "model.shared.weight"
_COPIES = (
  "model.encoder.embed_tokens.weight",
  "model.decoder.embed_tokens.weight",
  "lm_head.weight",
)
_OFFSET, _PADDING, _END = 2, 1, 2
_GENERATION = "ForConditionalGeneration"
_CLASSES, _SPANS = "ForSequenceClassification", "ForQuestionAnswering"
# The end of a class's name -> a tensor that it alone has, and the names of our
# heads.
_HEADS = {
  _CLASSES: ("classification_head.out_proj.weight", ("classes", "number")),
  _SPANS: ("qa_outputs.weight", ("spans",)),
}
_DEFAULTS = {
  "vocab_size": 50265,
  "max_position_embeddings": 1024,
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
  "classifier_dropout": 0.0,
  _BIAS: False,
}


@dataclasses.dataclass(frozen=True)
class ZeroLogitsBias:
  """A bias of 0 for each row of our table, which ours need not hold.

  Its link is only written.
  """

  def split(self, theirs):
    return ()

  def join(self, ours):
    return np.zeros((1, len(ours[0])), ours[0].dtype)


@dataclasses.dataclass(frozen=True)
class Bart:
  """See `Family`.

  Attributes:
    kind: The `model_type`.
    classes: The beginning of the names of their classes.
    norms: Whether norms stand behind the sublayers, "post", or before them,
      "pre", with one more at the end of each stack.
    start_id: The `decoder_start_token_id` of a config.json without one, with
      which a text that both sides read begins on the decoder's; None for a
      class that takes the last token of the text.
  """

  kind: str
  classes: str
  norms: str
  start_id: int | None

  ignored = (r"(model\.)?(en|de)coder\.version",)
  prefix = "model."

  @property
  def model_types(self) -> Sequence[str]:
    """See `Family`."""
    return (self.kind,)

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str | None]:
    """See `Family`."""
    del config
    return {**dict.fromkeys(_COPIES, _SHARED), _BIAS: None}

  def settle(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`; the class is that of the head that is stored."""
    fitting = [end for end, (name, _) in _HEADS.items() if name in stored]
    end = fitting[0] if fitting else _GENERATION
    return {
      **config,
      "architectures": [self.classes + end],
      _BIAS: _BIAS in stored,
    }

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    found = self._read(config)
    return found["encoder_layers"] + found["decoder_layers"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found, head = self._read(config), self._head(config)
    d_model = found["d_model"]
    bindings = {
      "VOCAB_SIZE": found["vocab_size"],
      "EMBED_DIM": d_model,
      "MAX_POSITIONS": found["max_position_embeddings"],
      "MLP_DIM": found["encoder_ffn_dim"],
      "DecoderLayer.mlp": Reference("@decoder/Mlp()"),
      "decoder/Mlp.d_ff": found["decoder_ffn_dim"],
      "NUM_ENCODER_LAYERS": found["encoder_layers"],
      "NUM_DECODER_LAYERS": found["decoder_layers"],
      "DROPOUT_RATE": float(found["dropout"]),
      "attention/Dropout.rate": float(found["attention_dropout"]),
      "hidden/Dropout.rate": float(found["activation_dropout"]),
      "PAD_ID": attributes.padding_id(config, default=_PADDING),
      "Embed.multiply_by_sqrt_depth": found["scale_embedding"],
      "Mlp.activation": attributes.activation(
        self.kind, "activation_function", found["activation_function"]
      ),
    }
    for side in marian.ATTENTIONS:
      heads = found[f"{side}_attention_heads"]
      attributes.check_multiple(self.kind, d_model, heads)
      bindings[f"{side}/Attention.num_heads"] = heads
      bindings[f"{side}/Attention.head_dim"] = d_model // heads
    gin_files = [f"architectures/{self.kind}.gin"]
    if head is None:
      bindings["TiedLogits.use_bias"] = found[_BIAS]
    else:
      gin_files += ["parts/reading_decoder.gin", f"heads/{head}.gin"]
      bindings["ReadingDecoder.start_id"] = self._start_id(config)
    if head == "classes":
      bindings["NUM_CLASSES"] = attributes.num_labels(config, default=3)
    if head in ("classes", "number"):
      bindings["head/Dropout.rate"] = float(found["classifier_dropout"])
    return Architecture(tuple(gin_files), bindings)

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    with attributes.counterpart(self.kind):
      has_heads = not model.offers.has_decoder
      encoder = model.encoder
      decoder = model.reader if has_heads else model.decoder.stack
      layer = decoder.layer
      found = {
        "model_type": self.kind,
        "is_encoder_decoder": True,
        "vocab_size": model.token_embedder.num_embeddings,
        "max_position_embeddings": decoder.position_embedder.num_positions,
        "d_model": model.token_embedder.features,
        "activation_function": attributes.their_activation(
          self.kind, layer.mlp.activation
        ),
        "scale_embedding": model.token_embedder.multiply_by_sqrt_depth,
        "dropout": layer.dropout.rate,
        "attention_dropout": layer.self_attention.dropout.rate,
        "activation_dropout": layer.mlp.dropout.rate,
        "pad_token_id": model.pad_id,
        # Theirs is 2 where nothing is said; this forces no end.
        "forced_eos_token_id": None,
      }
      for side, stack, attention in (
        ("encoder", encoder, encoder.layer.attention),
        ("decoder", decoder, layer.self_attention),
      ):
        found[f"{side}_layers"] = stack.num_layers
        found[f"{side}_ffn_dim"] = stack.layer.mlp.d_ff
        found[f"{side}_attention_heads"] = attention.num_heads
      if not has_heads:
        found["architectures"] = [self.classes + _GENERATION]
        found[_BIAS] = model.decoder.head.use_bias
        return found
      return {**found, **self._described_head(model)}

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found, head = self._read(config), self._head(config)
    table = ("token_embedder/embedding",)
    links = [Link(_SHARED, table)]
    for side in marian.ATTENTIONS:
      theirs = f"model.{side}"
      links.append(
        Link(
          f"{theirs}.embed_positions.weight",
          (f"{side}/position_embedder/pos_embedding",),
        )
      )
      links += links_lib.layer_norm(
        f"{theirs}.layernorm_embedding", f"{side}/input_norm"
      )
      for layer in range(found[f"{side}_layers"]):
        links += marian.links_of_layer(side, layer, self.norms)
      if self.norms == "pre":
        links += links_lib.layer_norm(
          f"{theirs}.layer_norm", f"{side}/{side}_norm"
        )
    if head == "spans":
      links += links_lib.linear("qa_outputs", "heads/spans/out")
    elif head is not None:
      theirs, ours = "classification_head", f"heads/{head}"
      links += links_lib.linear(f"{theirs}.dense", f"{ours}/pooler/dense")
      links += links_lib.linear(f"{theirs}.out_proj", f"{ours}/out")
    elif found[_BIAS]:
      links.append(Link(_BIAS, ("decoder/logits_bias",), OneRow()))
    else:
      links.append(Link(_BIAS, table, ZeroLogitsBias(), only_written=True))
    return links

  def _head(self, config: Mapping[str, Any]) -> str | None:
    """Our name of the head; None for a class that writes text."""
    named = config.get("architectures")
    name = named[0] if isinstance(named, list) and named else None
    if name == self.classes + _SPANS:
      return "spans"
    if name == self.classes + _CLASSES:
      number = attributes.num_labels(config, default=3)
      return "number" if number == 1 else "classes"
    return None

  def _start_id(self, config: Mapping[str, Any]) -> int | None:
    if self.start_id is None:
      return None
    start = config.get("decoder_start_token_id", self.start_id)
    attributes.check_type(self.kind, "decoder_start_token_id", start, int)
    attributes.check_range(self.kind, "decoder_start_token_id", start, 0)
    return start

  def _described_head(self, model: nn.Module) -> dict[str, Any]:
    """The attributes of a model with a head.

    Raises:
      UserError: No class of theirs has its heads.
    """
    parts = model.heads.parts
    ends = [
      end for end, (_, heads) in _HEADS.items() if parts.keys() <= {*heads}
    ]
    if len(parts) != 1 or not ends:
      raise UserError(
        f"{self.kind} models have no class with the heads {', '.join(parts)}"
      )
    (end,) = ends
    (part,) = parts.values()
    found = {"architectures": [self.classes + end]}
    if end == _CLASSES:
      found["num_labels"] = part.num_classes
      found["classifier_dropout"] = part.dropout.rate
    if self.start_id is not None:
      start = model.start_id
      found["decoder_start_token_id"] = _END if start is None else start
    return found

  def _read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    return attributes.Attributes(
      defaults=_DEFAULTS,
      allowed={
        "add_final_layer_norm": (self.norms == "pre",),
        "do_blenderbot_90_layernorm": (False,),
        "encoder_layerdrop": (0.0,),
        "decoder_layerdrop": (0.0,),
        "extra_pos_embeddings": (_OFFSET,),
        "is_encoder_decoder": (True,),
        "normalize_before": (self.norms == "pre",),
        "normalize_embedding": (True,),
        "static_position_embeddings": (False,),
        "tie_word_embeddings": (True,),
      },
      without_effect="add_bias_logits classif_dropout init_std".split(),
      renamed={
        "hidden_size": "d_model",
        "num_attention_heads": "encoder_attention_heads",
        "num_hidden_layers": "encoder_layers",
      },
    ).read(config)


FAMILIES = (
  Bart(kind="bart", classes="Bart", norms="post", start_id=_END),
  Bart(kind="mbart", classes="MBart", norms="pre", start_id=None),
)
