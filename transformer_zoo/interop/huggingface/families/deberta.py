"""DeBERTa: v1 (`deberta`), v2 and v3 (`deberta-v2`).

Their classes have no enhanced mask decoder: models are read without one, and
the positions that only it reads are left out. The head of masked tokens has two
spellings, `legacy` and not; the tensors of a file show which. Source:
`models/deberta` and `deberta_v2` of `transformers`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn
import numpy as np

from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import OMITTED
from transformer_zoo.interop.huggingface.families import bert
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

_TERMS = ("c2p", "p2c")
_LEGACY = {
  "dense": "cls.predictions.transform.dense",
  "norm": "cls.predictions.transform.LayerNorm",
  "softmax": "cls.predictions.decoder",
  "bias": "cls.predictions.bias",
}
_NOT_LEGACY = {
  "dense": "lm_predictions.lm_head.dense",
  "norm": "lm_predictions.lm_head.LayerNorm",
  "softmax": "lm_predictions.lm_head",
}
_TYPE = "pos_att_type"
_LAYER = {
  "attention/out": "attention.output.dense",
  "post_attention_layer_norm": "attention.output.LayerNorm",
  "mlp/wi": "intermediate.dense",
  "mlp/wo": "output.dense",
  "post_mlp_layer_norm": "output.LayerNorm",
}


def _words(text: str) -> list[str]:
  """The words of a list like 'p2c|c2p'."""
  return [word.strip() for word in text.lower().split("|") if word.strip()]


def _positions(found: Mapping[str, Any]) -> dict[str, Any]:
  if not found["position_biased_input"]:
    return {}
  return {
    "MAX_POSITIONS": found["max_position_embeddings"],
    "Transformer.position_embedder": Reference("@LearnedPositions()"),
  }


def _longest(found: Mapping[str, Any]) -> int:
  return found["max_relative_positions"] or found["max_position_embeddings"]


def _distances(found: Mapping[str, Any]) -> dict[str, Any]:
  if not found["relative_attention"]:
    return {"encoder/Transformer.relative_embedder": None}
  return {"RelativeEmbeddings.num_buckets": _longest(found)}


def _has_distances(parts: Parts) -> bool:
  relative = parts.relative
  if relative is not None and (
    relative.max_distance is not None or relative.norm is not None
  ):
    raise UserError(
      "deberta models have a bucket for each distance and no norm of "
      "their table; models of deberta-v2 may have both"
    )
  return relative is not None


def _terms(found: Mapping[str, Any]) -> dict[str, bool]:
  names = {"c2p": "content_to_position", "p2c": "position_to_content"}
  return {
    f"DisentangledAttention.{name}": term in found[_TYPE]
    for term, name in names.items()
  }


def _terms_of(parts: Parts) -> list[str]:
  attention = parts.attention
  terms = {
    "c2p": attention.content_to_position,
    "p2c": attention.position_to_content,
  }
  return [name for name in _TERMS if terms[name]]


def _pooler(found: Mapping[str, Any]) -> dict[str, Any]:
  heads, name = found["heads"], "pooler_hidden_act"
  if any(head in bert.READ_POOLED for head in heads):
    return {"Pooler.activation": attributes.activation(found, name)}
  return {} if heads else {"EncoderOnly.pooler": None}


def _pooler_activation(parts: Parts) -> Any:
  pooler = parts.model.pooler
  is_read = any(head.reads_pooled for head in parts.heads.values())
  return OMITTED if pooler is None or not is_read else pooler.activation


def _buckets(found: Mapping[str, Any]) -> dict[str, Any]:
  """The table of version 2, whose buckets may grow with the distance."""
  if not found["relative_attention"]:
    return {}
  longest = _longest(found)
  buckets = found["position_buckets"]
  has_norm = "layer_norm" in _words(found["norm_rel_ebd"])
  return {
    "RelativeEmbeddings.num_buckets": buckets or longest,
    "RelativeEmbeddings.max_distance": longest if buckets else None,
    "RelativeEmbeddings.norm": _NORM if has_norm else None,
  }


def _projections(found: Mapping[str, Any]) -> dict[str, Any]:
  bound = {}
  for part in () if found["share_att_key"] else _POSITIONS.values():
    bound[f"DisentangledAttention.{part}"] = Reference(f"@{part}/Linear()")
    bound[f"{part}/Linear.use_bias"] = True
  return bound


def _shares_projections(parts: Parts) -> bool:
  shared = parts.attention.position_key is None
  if shared != (parts.attention.position_query is None):
    raise UserError(
      f"{parts.kind} models share both projections of distances with those "
      "of contents or none"
    )
  return shared


def _convolution(found: Mapping[str, Any]) -> dict[str, Any]:
  if not found["conv_kernel_size"]:
    return {}
  return {
    "encoder/deberta_transformer.convolution": Reference("@Convolution()"),
    "Convolution.kernel_size": found["conv_kernel_size"],
    "Convolution.norm": _NORM,
    "Convolution.dropout": Reference("@Dropout()"),
    "Convolution.activation": attributes.activation(found, "conv_act"),
  }


_NORM = Reference("@LayerNorm()")
_POSITIONS = {"c2p": "position_key", "p2c": "position_query"}
_OF_V1 = bert.COMMON.changed(
  dataclasses.replace(bert.EPSILON, default=1e-7),
  Attribute(
    "max_position_embeddings",
    512,
    _positions,
    "positions.num_positions",
    part="positions",
    counts_rows=True,
  ),
  Attribute("relative_attention", False, _distances, _has_distances),
  Attribute(
    "max_relative_positions",
    None,
    of=lambda parts: parts.relative.max_distance or parts.relative.num_buckets,
    part="relative",
    kind=int,
    negative_is_null=True,
  ),
  Attribute(
    "position_biased_input", True, of=lambda parts: parts.positions is not None
  ),
  Attribute(_TYPE, None, _terms, _terms_of, kind=list, absent=lambda _: []),
  Attribute(
    "pooler_hidden_act",
    "gelu",
    _pooler,
    _pooler_activation,
    values=attributes.ACTIVATIONS,
  ),
  bert.dropout_of_heads("cls_dropout", None, ("classes", "number")),
  Attribute("legacy", True),
  attributes.implied("embedding_size", lambda found: found["hidden_size"]),
  attributes.implied("pooler_hidden_size", lambda found: found["hidden_size"]),
  attributes.implied("attention_head_size", attributes.size_of_heads),
  allowed={
    "pooler_dropout": (0, None),
    "talking_head": (False,),
    "type_vocab_size": (0,),
  },
  without_effect=("padding_idx", bert.HAS_POOLER),
  vocab_size=50265,
)
_OF_V2 = _OF_V1.changed(
  dataclasses.replace(
    _OF_V1["relative_attention"], of=lambda parts: parts.relative is not None
  ),
  Attribute(
    "position_buckets",
    None,
    _buckets,
    "relative.num_buckets",
    part="relative.max_distance",
    kind=int,
    negative_is_null=True,
  ),
  Attribute(
    "norm_rel_ebd",
    "none",
    of=lambda parts: "layer_norm" if parts.relative.norm else "none",
    part="relative",
  ),
  Attribute("share_att_key", False, _projections, _shares_projections),
  Attribute(
    "conv_kernel_size",
    0,
    _convolution,
    "convolution.kernel_size",
    part="convolution",
    least=0,
  ),
  Attribute(
    "conv_act",
    "tanh",
    of="convolution.activation",
    part="convolution",
    values=attributes.ACTIVATIONS,
  ),
  bert.dropout_of_heads("cls_dropout", None, ("classes", "number", "choice")),
  allowed={"conv_groups": (1,)},
  vocab_size=128100,
  hidden_size=1536,
  num_hidden_layers=24,
  num_attention_heads=24,
  intermediate_size=6144,
)


@dataclasses.dataclass(frozen=True)
class HeadByHead:
  """Queries, keys and values of each head, one below another, (out, in).

  Attributes:
    heads: The number of heads.
  """

  heads: int

  def split(self, theirs):
    parts = theirs.reshape(self.heads, 3, -1, theirs.shape[-1])
    return [parts[:, i].reshape(-1, theirs.shape[-1]).T for i in range(3)]

  def join(self, ours):
    parts = [kernel.T for kernel in ours]
    width = parts[0].shape[-1]
    parts = [part.reshape(self.heads, 1, -1, width) for part in parts]
    return np.concatenate(parts, axis=1).reshape(-1, width)


@dataclasses.dataclass(frozen=True)
class Kernel:
  """The kernel of a convolution, (out, in, place).

  In ours, (in, out), the inputs of each place lie one after the other.

  Attributes:
    size: The number of places.
  """

  size: int

  def split(self, theirs):
    return (theirs.T.reshape(-1, theirs.shape[0]),)

  def join(self, ours):
    return ours[0].reshape(self.size, -1, ours[0].shape[-1]).T


class Deberta(bert.Bert):
  """See `Family`."""

  @property
  def _is_v1(self) -> bool:
    return self.kind == "deberta"

  def left_out(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> Collection[str]:
    """See `Family`: other heads, and the positions of the mask decoder.

    Without distances, the norm of their table too.
    """
    wanted = {link.theirs for link in self.links(config)}
    unread = {self._position_table}
    if not self.read(config)["relative_attention"]:
      norm = f"{self.prefix}encoder.LayerNorm"
      unread |= {f"{norm}.weight", f"{norm}.bias"}
    return [
      name
      for name in set(stored) - wanted
      if name in unread or not name.startswith(self.prefix)
    ]

  def completed(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`."""
    found = dict(config)
    for legacy, head in ((True, _LEGACY), (False, _NOT_LEGACY)):
      if f"{head['dense']}.weight" in stored:
        found["legacy"] = legacy
    variant = self._spelling(found.get("legacy", True))
    found = super(Deberta, variant).completed(found, stored)
    if found.get("legacy") is False:
      found["tie_word_embeddings"] = True
    return found

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    with attributes.counterpart(self.kind):
      decoder = self.parts_of(model).mask_decoder
    if decoder is not None:
      raise UserError(
        f"{self.kind} models have no enhanced mask decoder, which the head "
        "of masked tokens reads here; train with "
        "encoder/deberta_transformer.mask_decoder = None to write it"
      )
    return super().config(model)

  def links_outside(self, found: Mapping[str, Any]) -> Iterator[Link]:
    """See `Family`."""
    yield from super().links_outside(found)
    if found["relative_attention"]:
      table = "encoder/relative_embedder/embedding"
      yield Link(f"{self.prefix}encoder.rel_embeddings.weight", (table,))
      if "layer_norm" in _words(found.get("norm_rel_ebd", "none")):
        norm = "encoder/relative_embedder/norm"
        yield from links_lib.layer_norm(f"{self.prefix}encoder.LayerNorm", norm)
    if found["position_biased_input"]:
      positions = "encoder/position_embedder/pos_embedding"
      yield Link(self._position_table, (positions,))
    if size := found.get("conv_kernel_size"):
      theirs, ours = f"{self.prefix}encoder.conv", "encoder/convolution"
      yield Link(f"{theirs}.conv.weight", (f"{ours}/kernel",), Kernel(size))
      yield Link(f"{theirs}.conv.bias", (f"{ours}/bias",))
      yield from links_lib.layer_norm(f"{theirs}.LayerNorm", f"{ours}/norm")

  def links_inside(
    self, found: Mapping[str, Any], theirs: str, ours: str
  ) -> Iterator[Link]:
    """See `Family`."""
    theirs, ours = f"{theirs}attention.self", f"{ours}attention"
    names = ("query", "key", "value")
    if not self._is_v1:
      for name in names:
        yield from links_lib.linear(f"{theirs}.{name}_proj", f"{ours}/{name}")
      if found["share_att_key"]:
        return
      projections = {"c2p": "pos_key_proj", "p2c": "pos_query_proj"}
      biases = {"c2p": True, "p2c": True}
    else:
      kernels = tuple(f"{ours}/{name}/kernel" for name in names)
      layout = HeadByHead(found["num_attention_heads"])
      yield Link(f"{theirs}.in_proj.weight", kernels, layout)
      yield Link(f"{theirs}.q_bias", (f"{ours}/query/bias",))
      yield Link(f"{theirs}.v_bias", (f"{ours}/value/bias",))
      projections = {"c2p": "pos_proj", "p2c": "pos_q_proj"}
      biases = {"c2p": False, "p2c": True}
    for term in found[_TYPE]:
      yield from links_lib.linear(
        f"{theirs}.{projections[term]}",
        f"{ours}/{_POSITIONS[term]}",
        bias=biases[term],
      )

  def links_of_heads(self, found: Mapping[str, Any]) -> Iterable[Link]:
    """See `Family`; the configuration has the spelling."""
    return super(Deberta, self._spelling(found["legacy"])).links_of_heads(found)

  @property
  def _position_table(self) -> str:
    return f"{self.prefix}{bert.POSITION_TABLE}.weight"

  def _links_of_heads(
    self, heads: Sequence[str], *, tied: bool
  ) -> Iterator[Link]:
    if any(name in bert.READ_POOLED for name in heads):
      yield from links_lib.linear("pooler.dense", "pooler/dense")
    yield from super()._links_of_heads(heads, tied=tied)

  def _stored_class(self, config, stored) -> str:
    """The end of the name of the class with the most heads that are stored."""
    heads, known = self._of_heads(stored), self._needed(config)
    named = self._named_class(config)
    if named is not None and known[named] <= heads:
      return named
    most = max((names for names in known.values() if names <= heads), key=len)
    return super()._stored_class(config, most)

  def _links_of_tokens(self, ours: str, *, tied: bool) -> Iterator[Link]:
    if self.tokens == _LEGACY:
      yield from super()._links_of_tokens(ours, tied=tied)
      return
    yield from links_lib.linear(self.tokens["dense"], f"{ours}/dense")
    yield from links_lib.layer_norm(self.tokens["norm"], f"{ours}/norm")
    yield Link(f"{self.tokens['softmax']}.bias", (f"{ours}/logits_bias",))

  def _spelling(self, legacy: bool) -> "Deberta":
    """The family whose head of masked tokens is spelt in this way."""
    return dataclasses.replace(self, tokens=_LEGACY if legacy else _NOT_LEGACY)

  def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`; terms are a list, or a text of words."""
    if isinstance(terms := config.get(_TYPE), str):
      config = {**config, _TYPE: _words(terms)}
    found = super().read(config)
    for term in found[_TYPE]:
      attributes.check_allowed(self.kind, _TYPE, term, _TERMS)
    if found[_TYPE] and not found["relative_attention"]:
      raise UserError(
        f"config.json of a {self.kind} model has {_TYPE}="
        f"{schemas.shown(found[_TYPE])} and relative_attention=False; "
        "without distances there are no such terms"
      )
    if len(set(found[_TYPE])) < len(found[_TYPE]):
      raise UserError(
        f"config.json of a {self.kind} model has {_TYPE}="
        f"{schemas.shown(found[_TYPE])}, which names a term twice"
      )
    return found


_HEADS = {
  suffix: bert.HEADS[suffix]
  for suffix in (
    "Model",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
  )
}
FAMILIES = (
  Deberta(
    kind="deberta",
    classes="Deberta",
    heads=_HEADS,
    attributes=_OF_V1,
    prefix="deberta.",
    tokens=_LEGACY,
    outside={
      "token_embedder/embedding": "embeddings.word_embeddings",
      "encoder/input_norm": "embeddings.LayerNorm",
    },
    layer=_LAYER,
    has_pooler=False,
    architecture_file="architectures/deberta.gin",
    bindings={"encoder/deberta_transformer.mask_decoder": None},
    written={"type_vocab_size": 0},
  ),
  Deberta(
    kind="deberta-v2",
    classes="DebertaV2",
    heads={**_HEADS, "ForMultipleChoice": ("choice",)},
    attributes=_OF_V2,
    prefix="deberta.",
    tokens=_LEGACY,
    outside={
      "token_embedder/embedding": "embeddings.word_embeddings",
      "encoder/input_norm": "embeddings.LayerNorm",
    },
    layer=_LAYER,
    has_pooler=False,
    architecture_file="architectures/deberta_v2.gin",
    bindings={"encoder/deberta_transformer.mask_decoder": None},
    written={"type_vocab_size": 0},
  ),
)
