"""XLNet (`xlnet`).

Their models read texts padded at the front; ours, at the end. A text's class
is read from its first token (`summary_type` "first"), or its last, [CLS], of
rows that `parts/cls_last.gin` lays out. Source: `models/xlnet` of
`transformers`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import OMITTED
from transformer_zoo.interop.huggingface.families import bert
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

_SUMMARY = "sequence_summary.summary"


def _summary_type(parts: Parts) -> Any:
  is_of_texts = any(name in bert.OF_TEXTS for name in parts.heads)
  return "first" if is_of_texts else OMITTED


def _of_beam(name: str) -> Callable[[Mapping[str, Any]], dict[str, int]]:
  """`Attribute.bound` of a size of the beam search for spans."""
  bound = {
    "start_n_top": "SpanBeamLogits.num_starts",
    "end_n_top": "SpanBeamScorer.num_ends",
  }[name]
  return lambda found: (
    {bound: found[name]} if found["heads"] == ("span_beam",) else {}
  )


def _num_starts(parts: Parts) -> Any:
  head = parts.heads.get("span_beam")
  return OMITTED if head is None else head.num_starts


_ATTRIBUTES = bert.COMMON.changed(
  bert.EPSILON,
  attributes.implied("d_head", attributes.size_of_heads),
  Attribute(
    "clamp_len",
    None,
    "RelativeSinusoids.clip",
    lambda parts: parts.relative.clip or -1,
    kind=int,
    negative_is_null=True,
  ),
  Attribute("summary_type", "last", of=_summary_type),
  bert.dropout_of_heads("summary_last_dropout", 0.1, bert.OF_TEXTS),
  Attribute("start_n_top", 5, _of_beam("start_n_top"), _num_starts),
  Attribute("end_n_top", 5, _of_beam("end_n_top")),
  attributes.padding("XLNet.pad_id", 5),
  without=("attention_probs_dropout_prob",),
  written={
    "hidden_size": "d_model",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "d_inner",
    "hidden_act": "ff_activation",
    "hidden_dropout_prob": "dropout",
  },
  spellings={
    "vocab_size": "n_token",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
  },
  allowed={
    "attn_type": ("bi",),
    "bi_data": (False,),
    "same_length": (False,),
    "summary_activation": ("tanh",),
    "summary_use_proj": (True,),
    "untie_r": (True,),
  },
  without_effect=(
    f"mem_len reuse_len use_mems_eval use_mems_train use_mems {bert.HAS_POOLER}"
  ).split(),
  vocab_size=32000,
  hidden_size=1024,
  num_hidden_layers=24,
  num_attention_heads=16,
  intermediate_size=4096,
)


@dataclasses.dataclass(frozen=True)
class ByHead:
  """A matrix kept as (width, head, size of a head).

  Attributes:
    heads: The number of heads.
    outwards: Whether it leads from the heads to the width.
  """

  heads: int
  outwards: bool = False

  def split(self, theirs):
    matrix = theirs.reshape(theirs.shape[0], -1)
    return (matrix.T if self.outwards else matrix,)

  def join(self, ours):
    matrix = ours[0].T if self.outwards else ours[0]
    return matrix.reshape(len(matrix), self.heads, -1)


@dataclasses.dataclass(frozen=True)
class Stacked:
  """Two tensors as one with an axis more, the first."""

  def split(self, theirs):
    first, second = theirs
    return first, second

  def join(self, ours):
    return np.stack([*ours])


@dataclasses.dataclass(frozen=True)
class OneVector:
  """A vector that is kept with two axes of one."""

  def split(self, theirs):
    return (theirs[0, 0],)

  def join(self, ours):
    return ours[0][None, None]


class Xlnet(bert.Bert):
  """See `Family`."""

  def gin_files(self, found: Mapping[str, Any]) -> Sequence[str]:
    """See `Family`."""
    files = super().gin_files(found)
    if any(name in bert.OF_TEXTS for name in found["heads"]):
      summary = found["summary_type"]
      attributes.check_allowed(
        self.kind, "summary_type", summary, ("first", "last")
      )
      if summary == "last":
        files = (*files, "parts/cls_last.gin")
    return files

  def bindings_of(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    bound = super().bindings_of(found)
    bound.pop("TransformedLogits.activation", None)
    return bound if found["heads"] else bound | {"XLNet.pooler": None}

  def layout(self, cls_place: str | None) -> dict[str, Any]:
    """See `Family`."""
    return {"summary_type": "last"} if cls_place == "last" else {}

  def links_outside(self, found: Mapping[str, Any]) -> Iterator[Link]:
    """See `Family`."""
    yield from super().links_outside(found)
    vector = ("query_embedder/embedding",)
    yield Link(f"{self.prefix}mask_emb", vector, OneVector())

  def links_inside(
    self, found: Mapping[str, Any], theirs: str, ours: str
  ) -> Iterator[Link]:
    """See `Family`."""
    heads = found["num_attention_heads"]
    for part, name in _MATRICES.items():
      layout = ByHead(heads, outwards=part == "out")
      kernel = (f"{ours}attention/{part}/kernel",)
      yield Link(f"{theirs}rel_attn.{name}", kernel, layout)
    for part, name in _VECTORS.items():
      yield Link(f"{theirs}rel_attn.{name}", (f"{ours}attention/{part}",))
    segments = [f"{ours}attention/{n}_segment" for n in ("same", "other")]
    yield Link(f"{theirs}rel_attn.seg_embed", tuple(segments), Stacked())

  def _links_of_heads(
    self, heads: Sequence[str], *, tied: bool
  ) -> Iterator[Link]:
    if any(name in bert.OF_TEXTS for name in heads):
      yield from links_lib.linear(_SUMMARY, "pooler/dense")
    if "span_beam" in heads:
      yield from _links_of_beam()
      return
    yield from super()._links_of_heads(heads, tied=tied)

  def _links_of_tokens(self, ours: str, *, tied: bool) -> Iterator[Link]:
    softmax = self.tokens["softmax"]
    if tied:
      yield Link(f"{softmax}.bias", (f"{ours}/logits_bias",))
    else:
      yield from links_lib.linear(softmax, f"{ours}/logits_dense")


def _links_of_beam() -> Iterator[Link]:
  ours = "heads/span_beam"
  yield from links_lib.linear("start_logits.dense", f"{ours}/start_out")
  yield from links_lib.linear("end_logits.dense_0", f"{ours}/end_dense")
  yield from links_lib.layer_norm("end_logits.LayerNorm", f"{ours}/end_norm")
  yield from links_lib.linear("end_logits.dense_1", f"{ours}/end_out")
  yield from links_lib.linear("answer_class.dense_0", f"{ours}/answer_dense")
  yield from links_lib.linear(
    "answer_class.dense_1", f"{ours}/answer_out", bias=False
  )


_MATRICES = {
  "query": "q",
  "key": "k",
  "value": "v",
  "out": "o",
  "position": "r",
}
_VECTORS = {
  "content_bias": "r_w_bias",
  "position_bias": "r_r_bias",
  "segment_bias": "r_s_bias",
}

FAMILIES = (
  Xlnet(
    kind="xlnet",
    classes="XLNet",
    heads={
      "Model": (),
      "LMHeadModel": ("tokens",),
      "ForSequenceClassification": ("classes",),
      "ForTokenClassification": ("tags",),
      "ForQuestionAnsweringSimple": ("spans",),
      "ForQuestionAnswering": ("span_beam",),
      "ForMultipleChoice": ("choice",),
    },
    attributes=_ATTRIBUTES,
    prefix="transformer.",
    tokens={"softmax": "lm_loss"},
    outside={"token_embedder/embedding": "word_embedding"},
    layer_list="layer",
    layer={
      "post_attention_layer_norm": "rel_attn.layer_norm",
      "mlp/wi": "ff.layer_1",
      "mlp/wo": "ff.layer_2",
      "post_mlp_layer_norm": "ff.layer_norm",
    },
    outputs=dict.fromkeys(bert.OF_TEXTS, "logits_proj"),
    architecture_file="architectures/xlnet.gin",
    has_pooler=False,
  ),
)
