"""BART (`bart`) and mBART (`mbart`), for generation and with heads.

A class of theirs writes text, or has a head on the decoder, which reads what
the encoder reads; the tensors of a file show which. mBART normalizes before its
sublayers and once more at the end of each stack, and begins a text that both
sides read with its last token. Source: `models/bart` and `models/mbart` of
`transformers`.
"""

from collections.abc import Collection, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import OMITTED
from transformer_zoo.interop.huggingface.families import marian
from transformer_zoo.interop.huggingface.families.marian import BIAS
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import OneRow

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


def _rate_of_head(found: Mapping[str, Any]) -> dict[str, Any]:
  if found["head"] not in ("classes", "number"):
    return {}
  return {"head/Dropout.rate": found["classifier_dropout"]}


def _logits_bias(found: Mapping[str, Any]) -> dict[str, Any]:
  return {} if found["head"] else {"TiedLogits.use_bias": found[BIAS]}


def _has_logits_bias(parts: Parts) -> Any:
  return parts.softmax.use_bias if parts.side == "decoder" else OMITTED


def _attributes(norms: str) -> attributes.Attributes:
  return marian.COMMON.changed(
    Attribute("max_position_embeddings", 1024, "MAX_POSITIONS"),
    Attribute("classifier_dropout", 0.0, _rate_of_head),
    Attribute("num_labels", 3, read=attributes.num_labels),
    # Added by `completed`: a bias of logits that is not 0.
    Attribute(BIAS, False, _logits_bias, _has_logits_bias),
    attributes.padding("PAD_ID", _PADDING),
    allowed={
      "add_final_layer_norm": (norms == "pre",),
      "extra_pos_embeddings": (_OFFSET,),
      "normalize_before": (norms == "pre",),
      "normalize_embedding": (True,),
      "static_position_embeddings": (False,),
    },
    vocab_size=50265,
  )


@dataclasses.dataclass(frozen=True)
class ZeroLogitsBias:
  """A bias of 0 for each row of our table, which ours need not hold.

  Its link is only written.
  """

  def split(self, theirs):
    return ()

  def join(self, ours):
    return np.zeros((1, len(ours[0])), ours[0].dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bart(Family):
  """See `Family`.

  Attributes:
    classes: The beginning of the names of their classes.
    norms: Whether norms stand behind the sublayers, "post", or before them,
      "pre", with one more at the end of each stack.
    start_id: The `decoder_start_token_id` of a config.json without one, with
      which a text that both sides read begins on the decoder's; None for a
      class that takes the last token of the text.
  """

  classes: str
  norms: str
  start_id: int | None

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str | None]:
    """See `Family`."""
    del config
    return {**dict.fromkeys(_COPIES, _SHARED), BIAS: None}

  def completed(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`; the class follows from the head that is stored."""
    fitting = [end for end, (name, _) in _HEADS.items() if name in stored]
    end = fitting[0] if fitting else _GENERATION
    return {
      **config,
      "architectures": [self.classes + end],
      BIAS: BIAS in stored,
    }

  def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`; `head` is our name of the head, None of a class without."""
    head = self._head(config)
    start_id = None if head is None else self._start_id(config)
    return {**super().read(config), "head": head, "start_id": start_id}

  def gin_files(self, found: Mapping[str, Any]) -> Sequence[str]:
    """See `Family`."""
    files = [self.architecture_file]
    if found["head"] is not None:
      files += ["parts/reading_decoder.gin", f"heads/{found['head']}.gin"]
    return files

  def bindings_of(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    bound = super().bindings_of(found)
    if found["head"] is not None:
      bound["EncoderDecoderWithHeads.start_id"] = found["start_id"]
    if found["head"] == "classes":
      bound["NUM_CLASSES"] = found["num_labels"]
    return bound

  def parts_of(self, model: nn.Module) -> Parts:
    """See `Family`."""
    side = "decoder" if model.offers.has_decoder else "reader"
    return Parts(model, side, self.kind)

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    found = super().config(model)
    if not model.offers.has_decoder:
      return {**found, **self._described_head(model)}
    return {**found, "architectures": [self.classes + _GENERATION]}

  @property
  def head_names(self) -> Collection[str]:
    """See `Family`."""
    return ("lm_head.", "classification_head.", "qa_outputs.", BIAS)

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = self.read(config)
    head = found["head"]
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
    elif found[BIAS]:
      links.append(Link(BIAS, ("decoder/logits_bias",), OneRow()))
    else:
      links.append(Link(BIAS, table, ZeroLogitsBias(), only_written=True))
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


def _family(kind: str, classes: str, norms: str, start_id: int | None) -> Bart:
  return Bart(
    kind=kind,
    attributes=_attributes(norms),
    prefix="model.",
    ignored=(r"(model\.)?(en|de)coder\.version",),
    architecture_file=f"architectures/{kind}.gin",
    layer_counts=("encoder_layers", "decoder_layers"),
    written={
      "is_encoder_decoder": True,
      # Theirs is 2 where nothing is said; this forces no end.
      "forced_eos_token_id": None,
    },
    classes=classes,
    norms=norms,
    start_id=start_id,
  )


FAMILIES = (
  _family("bart", "Bart", "post", _END),
  _family("mbart", "MBart", "pre", None),
)
