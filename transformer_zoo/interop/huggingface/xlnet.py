"""XLNet (`xlnet`).

Their models read texts padded at the front; ours, at the end. A text's class
is read from its first token (`summary_type` "first"), or its last, [CLS], of
rows that `parts/cls_last.gin` lays out. Source: `models/xlnet` of
`transformers`.
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn
import numpy as np

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import bert
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

_ATTRIBUTES = Attributes(
  defaults={
    "vocab_size": 32000,
    "d_model": 1024,
    "n_layer": 24,
    "n_head": 16,
    "d_inner": 4096,
    "d_head": None,
    "ff_activation": "gelu",
    "layer_norm_eps": 1e-12,
    "dropout": 0.1,
    "clamp_len": None,
    "summary_type": "last",
    "summary_last_dropout": 0.1,
    "start_n_top": 5,
    "end_n_top": 5,
    "tie_word_embeddings": True,
  },
  optional={"d_head": int, "clamp_len": int},
  allowed={
    "attn_type": ("bi",),
    "bi_data": (False,),
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
    "same_length": (False,),
    "summary_activation": ("tanh",),
    "summary_use_proj": (True,),
    "untie_r": (True,),
  },
  without_effect=(
    f"mem_len reuse_len use_mems_eval use_mems_train use_mems {bert.HAS_POOLER}"
  ).split(),
  renamed={
    "n_token": "vocab_size",
    "hidden_size": "d_model",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
  },
)
_SUMMARY = "sequence_summary.summary"
_OF_TEXTS = ("classes", "number", "choice")


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


@dataclasses.dataclass(frozen=True)
class Xlnet(bert.Bert):
  """See `Family`."""

  has_types: bool = False
  has_pooler: bool = False

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return self._read(config)["n_layer"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found, heads = self._read(config), self._heads(config)
    bindings = {
      "VOCAB_SIZE": found["vocab_size"],
      "EMBED_DIM": found["d_model"],
      "MLP_DIM": found["d_inner"],
      "NUM_HEADS": found["n_head"],
      "HEAD_DIM": found["d_model"] // found["n_head"],
      "NUM_ENCODER_LAYERS": found["n_layer"],
      "DROPOUT_RATE": float(found["dropout"]),
      "PermutedEncoder.pad_id": attributes.padding_id(config, default=5),
      "LayerNorm.epsilon": found["layer_norm_eps"],
      "RelativeSinusoids.clip": found["clamp_len"],
      "Mlp.activation": attributes.activation(
        self.kind, "ff_activation", found["ff_activation"]
      ),
    }
    gin_files = [f"heads/{name}.gin" for name in heads]
    if any(name in _OF_TEXTS for name in heads):
      summary = found["summary_type"]
      attributes.check_allowed(
        self.kind, "summary_type", summary, ("first", "last")
      )
      if summary == "last":
        gin_files.append("parts/cls_last.gin")
    elif not heads:
      bindings["PermutedEncoder.pooler"] = None
    bindings |= self._bindings_of_heads(config, found, heads, "linear")
    if heads == ("span_beam",):
      bindings |= {
        "SpanBeamLogits.num_starts": found["start_n_top"],
        "SpanBeamScorer.num_ends": found["end_n_top"],
      }
    if heads == ("tokens",):
      del bindings["TransformedLogits.activation"]
    return Architecture((self.architecture_file, *gin_files), bindings)

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    with attributes.counterpart(self.kind):
      parts, stack = model.heads.parts, model.encoder
      layer, heads = stack.layer, tuple(parts)
      found = {
        "vocab_size": model.token_embedder.num_embeddings,
        "d_model": model.token_embedder.features,
        "n_layer": stack.num_layers,
        "n_head": layer.attention.num_heads,
        "d_inner": layer.mlp.d_ff,
        "ff_activation": attributes.their_activation(
          self.kind, layer.mlp.activation
        ),
        "layer_norm_eps": layer.norm.epsilon,
        "dropout": layer.dropout.rate,
        "clamp_len": stack.relative_embedder.clip or -1,
        "tie_word_embeddings": "tokens" not in parts
        or type(parts["tokens"].softmax).__name__ == "TiedLogits",
      }
      if any(name in _OF_TEXTS for name in heads):
        found["summary_type"] = "first"
      if "span_beam" in parts:
        found["start_n_top"] = parts["span_beam"].num_starts
      for name, part in parts.items():
        if name in ("classes", "tags", "number"):
          found["num_labels"] = part.num_classes
        if name in self.dropouts:
          found[self.dropouts[name]] = part.dropout.rate
    return {
      "architectures": [self.classes + self._class_of(heads)],
      "model_type": self.kind,
      "pad_token_id": model.pad_id,
      **found,
    }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found, heads = self._read(config), self._heads(config)
    vector = ("query_embedder/embedding",)
    links = [
      Link(self._table("word"), ("token_embedder/embedding",)),
      Link(f"{self.prefix}mask_emb", vector, OneVector()),
    ]
    inwards = ByHead(found["n_head"])
    outwards = ByHead(found["n_head"], outwards=True)
    for index in range(found["n_layer"]):
      theirs = f"{self.prefix}layer.{index}"
      ours = f"encoder/layers_{index}"
      links += [
        Link(
          f"{theirs}.rel_attn.{name}",
          (f"{ours}/attention/{part}/kernel",),
          outwards if part == "out" else inwards,
        )
        for part, name in _MATRICES.items()
      ]
      links += [
        Link(f"{theirs}.rel_attn.{name}", (f"{ours}/attention/{part}",))
        for part, name in _VECTORS.items()
      ]
      segments = [f"{ours}/attention/{n}_segment" for n in ("same", "other")]
      links.append(
        Link(f"{theirs}.rel_attn.seg_embed", tuple(segments), Stacked())
      )
      for part, name in self.layer.items():
        kind = links_lib.layer_norm if "norm" in part else links_lib.linear
        links += kind(f"{theirs}.{name}", f"{ours}/{part}")
    tied = found["tie_word_embeddings"]
    return [*links, *self._links_of_heads(heads, tied=tied)]

  def _table(self, name: str) -> str:
    return f"{self.prefix}{name}_embedding.weight"

  def _read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    config = dict(config)
    clip = config.get("clamp_len")
    if isinstance(clip, int) and clip < 1:
      config["clamp_len"] = None
    found = self.attributes.read(config)
    attributes.check_multiple(self.kind, found["d_model"], found["n_head"])
    if found["d_head"] is not None:
      size = found["d_model"] // found["n_head"]
      attributes.check_allowed(self.kind, "d_head", found["d_head"], (size,))
    return {**found, "hidden_dropout_prob": found["dropout"]}

  def _links_of_heads(
    self, heads: Sequence[str], *, tied: bool
  ) -> Iterator[Link]:
    if any(name in _OF_TEXTS for name in heads):
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
    suffixes=(
      *("Model", "LMHeadModel", "ForSequenceClassification"),
      *("ForTokenClassification", "ForQuestionAnsweringSimple"),
      *("ForQuestionAnswering", "ForMultipleChoice"),
    ),
    attributes=_ATTRIBUTES,
    prefix="transformer.",
    tokens={"softmax": "lm_loss"},
    layer={
      "post_attention_layer_norm": "rel_attn.layer_norm",
      "mlp/wi": "ff.layer_1",
      "mlp/wo": "ff.layer_2",
      "post_mlp_layer_norm": "ff.layer_norm",
    },
    outputs=dict.fromkeys(_OF_TEXTS, "logits_proj"),
    dropouts=dict.fromkeys(_OF_TEXTS, "summary_last_dropout"),
    architecture_file="architectures/xlnet.gin",
    pad_id=5,
  ),
)
