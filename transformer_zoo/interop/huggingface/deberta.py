"""DeBERTa: v1 (`deberta`), v2 and v3 (`deberta-v2`).

Their classes have no enhanced mask decoder: models are read without one, and
the positions that only it reads are left out. The head of masked tokens has two
spellings, `legacy` and not; which, the tensors of a file tell. Source:
`models/deberta` and `deberta_v2` of `transformers`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn
import numpy as np

from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import bert
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

_TERMS = ("c2p", "p2c")
_TABLE = "encoder/relative_embedder/embedding"
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
_DEFAULTS = {
  "vocab_size": 50265,
  "hidden_size": 768,
  "num_hidden_layers": 12,
  "num_attention_heads": 12,
  "intermediate_size": 3072,
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "attention_probs_dropout_prob": 0.1,
  "max_position_embeddings": 512,
  "layer_norm_eps": 1e-7,
  "relative_attention": False,
  "max_relative_positions": None,
  "position_biased_input": True,
  "pos_att_type": None,
  "pooler_hidden_act": "gelu",
  "cls_dropout": None,
  "legacy": True,
  "tie_word_embeddings": True,
}
_OPTIONAL = {
  "max_relative_positions": int,
  "pos_att_type": list,
  "cls_dropout": float,
}
_ALLOWED = {
  "is_decoder": (False,),
  "is_encoder_decoder": (False,),
  "pooler_dropout": (0, None),
  "talking_head": (False,),
  "type_vocab_size": (0,),
}
_OF_V1 = Attributes(
  defaults=_DEFAULTS,
  optional=_OPTIONAL,
  allowed=_ALLOWED,
  without_effect=("padding_idx", bert.HAS_POOLER),
)
_OF_V2 = Attributes(
  defaults={
    **_DEFAULTS,
    "vocab_size": 128100,
    "hidden_size": 1536,
    "num_hidden_layers": 24,
    "num_attention_heads": 24,
    "intermediate_size": 6144,
    "position_buckets": None,
    "norm_rel_ebd": "none",
    "share_att_key": False,
    "conv_kernel_size": 0,
    "conv_act": "tanh",
  },
  optional={**_OPTIONAL, "position_buckets": int},
  may_be_zero=("conv_kernel_size",),
  allowed={**_ALLOWED, "conv_groups": (1,)},
  without_effect=("padding_idx", bert.HAS_POOLER),
)
# As a config.json says that there is none.
_NONE_IF_NEGATIVE = ("max_relative_positions", "position_buckets")
# All are those of the hidden states.
_WIDTHS = ("pooler_hidden_size", "embedding_size")


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


@dataclasses.dataclass(frozen=True)
class Deberta(bert.Bert):
  """See `Family`."""

  has_types: bool = False
  has_pooler: bool = True

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
    unread = {self._table("position")}
    if not self._read(config)["relative_attention"]:
      norm = f"{self.prefix}encoder.LayerNorm"
      unread |= {f"{norm}.weight", f"{norm}.bias"}
    return [
      name
      for name in set(stored) - wanted
      if name in unread or not name.startswith(self.prefix)
    ]

  def settle(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`."""
    found = dict(config)
    for legacy, head in ((True, _LEGACY), (False, _NOT_LEGACY)):
      if f"{head['dense']}.weight" in stored:
        found["legacy"] = legacy
    variant = self._spelling(found.get("legacy", True))
    found = super(Deberta, variant).settle(found, stored)
    if found.get("legacy") is False:
      found["tie_word_embeddings"] = True
    return found

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return self._read(config)["num_hidden_layers"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found, heads = self._read(config), self._heads(config)
    width, number = found["hidden_size"], found["num_attention_heads"]
    attributes.check_multiple(self.kind, width, number)
    activation = attributes.activation(
      self.kind, "hidden_act", found["hidden_act"]
    )
    buckets, longest = self._buckets(found)
    norm = Reference("@LayerNorm()")
    bindings = {
      "VOCAB_SIZE": found["vocab_size"],
      "EMBED_DIM": width,
      "MLP_DIM": found["intermediate_size"],
      "NUM_HEADS": number,
      "HEAD_DIM": width // number,
      "NUM_ENCODER_LAYERS": found["num_hidden_layers"],
      "DROPOUT_RATE": float(found["hidden_dropout_prob"]),
      "attention/Dropout.rate": float(found["attention_probs_dropout_prob"]),
      "EncoderOnly.pad_id": attributes.padding_id(config, default=0),
      "LayerNorm.epsilon": found["layer_norm_eps"],
      "Mlp.activation": activation,
      "encoder/Stack.mask_decoder": None,
      "DisentangledAttention.content_to_position": "c2p" in found[_TYPE],
      "DisentangledAttention.position_to_content": "p2c" in found[_TYPE],
    }
    if found["relative_attention"]:
      bindings["RelativeEmbeddings.num_buckets"] = buckets
      if not self._is_v1:
        bindings["RelativeEmbeddings.max_distance"] = longest
        has_norm = "layer_norm" in _words(found["norm_rel_ebd"])
        bindings["RelativeEmbeddings.norm"] = norm if has_norm else None
    else:
      bindings["encoder/Stack.relative_embedder"] = None
    if found["position_biased_input"]:
      bindings["MAX_POSITIONS"] = found["max_position_embeddings"]
      bindings["Stack.position_embedder"] = Reference("@LearnedPositions()")
    if not self._is_v1:
      if not found["share_att_key"]:
        for part in ("position_key", "position_query"):
          name = f"DisentangledAttention.{part}"
          bindings[name] = Reference(f"@{part}/Linear()")
          bindings[f"{part}/Linear.use_bias"] = True
      if found["conv_kernel_size"]:
        bindings |= {
          "encoder/Stack.convolution": Reference("@Convolution()"),
          "Convolution.kernel_size": found["conv_kernel_size"],
          "Convolution.norm": norm,
          "Convolution.dropout": Reference("@Dropout()"),
          "Convolution.activation": attributes.activation(
            self.kind, "conv_act", found["conv_act"]
          ),
        }
    if self._reads_pooler(found, heads):
      bindings["Pooler.activation"] = attributes.activation(
        self.kind, "pooler_hidden_act", found["pooler_hidden_act"]
      )
    elif not heads:
      bindings["EncoderOnly.pooler"] = None
    return Architecture(
      (self.architecture_file, *(f"heads/{name}.gin" for name in heads)),
      bindings | self._bindings_of_heads(config, found, heads, activation),
    )

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    with attributes.counterpart(self.kind):
      stack, parts = model.encoder, model.heads.parts
      layer, heads = stack.layer, tuple(parts)
      attention, relative = layer.attention, stack.relative_embedder
      table = stack.position_embedder
      if stack.mask_decoder is not None:
        raise UserError(
          f"{self.kind} models have no enhanced mask decoder, which the head "
          "of masked tokens reads here; train with encoder/Stack.mask_decoder "
          "= None to write it"
        )
      terms = {
        "c2p": attention.content_to_position,
        "p2c": attention.position_to_content,
      }
      found = {
        "vocab_size": model.token_embedder.num_embeddings,
        "hidden_size": model.token_embedder.features,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": attention.num_heads,
        "intermediate_size": layer.mlp.d_ff,
        "hidden_act": attributes.their_activation(
          self.kind, layer.mlp.activation
        ),
        "hidden_dropout_prob": layer.dropout.rate,
        "attention_probs_dropout_prob": attention.dropout.rate,
        "layer_norm_eps": layer.norm.epsilon,
        "type_vocab_size": 0,
        "relative_attention": relative is not None,
        "position_biased_input": table is not None,
        "pos_att_type": [name for name in _TERMS if terms[name]],
        "tie_word_embeddings": "tokens" not in parts
        or type(parts["tokens"].softmax).__name__ == "TiedLogits",
      }
      if table is not None:
        found["max_position_embeddings"] = table.num_positions
      if relative is not None:
        longest = relative.max_distance or relative.num_buckets
        found["max_relative_positions"] = longest
      if not self._is_v1:
        found |= self._of_v2(stack)
      elif relative is not None and (
        relative.max_distance is not None or relative.norm is not None
      ):
        raise UserError(
          "deberta models have a bucket for each distance and no norm of "
          "their table; those of deberta-v2 may have both"
        )
      if model.pooler is not None and any(
        p.reads_pooled for p in parts.values()
      ):
        found["pooler_hidden_act"] = attributes.their_activation(
          self.kind, model.pooler.activation
        )
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
    links = [
      Link(self._table("word"), ("token_embedder/embedding",)),
      *links_lib.layer_norm(
        f"{self.prefix}embeddings.LayerNorm", "encoder/input_norm"
      ),
    ]
    if found["relative_attention"]:
      links.append(
        Link(f"{self.prefix}encoder.rel_embeddings.weight", (_TABLE,))
      )
      if "layer_norm" in _words(found.get("norm_rel_ebd", "none")):
        norm = "encoder/relative_embedder/norm"
        links += links_lib.layer_norm(f"{self.prefix}encoder.LayerNorm", norm)
    if found["position_biased_input"]:
      positions = "encoder/position_embedder/pos_embedding"
      links.append(Link(self._table("position"), (positions,)))
    if found.get("conv_kernel_size"):
      theirs, ours = f"{self.prefix}encoder.conv", "encoder/convolution"
      links.append(
        Link(
          f"{theirs}.conv.weight",
          (f"{ours}/kernel",),
          Kernel(found["conv_kernel_size"]),
        )
      )
      links.append(Link(f"{theirs}.conv.bias", (f"{ours}/bias",)))
      links += links_lib.layer_norm(f"{theirs}.LayerNorm", f"{ours}/norm")
    for index in range(found["num_hidden_layers"]):
      theirs = f"{self.prefix}encoder.layer.{index}"
      ours = f"encoder/layers_{index}"
      links += self._links_of_attention(
        found, f"{theirs}.attention.self", f"{ours}/attention"
      )
      for part, name in _REST_OF_LAYER.items():
        kind = links_lib.layer_norm if "norm" in part else links_lib.linear
        links += kind(f"{theirs}.{name}", f"{ours}/{part}")
    variant = self._spelling(found["legacy"])
    tied = found["tie_word_embeddings"]
    return [*links, *variant._links_of_heads(heads, tied=tied)]

  def _links_of_attention(self, found, theirs, ours) -> Iterator[Link]:
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
    parts = {"c2p": "position_key", "p2c": "position_query"}
    for term in found[_TYPE]:
      yield from links_lib.linear(
        f"{theirs}.{projections[term]}",
        f"{ours}/{parts[term]}",
        bias=biases[term],
      )

  def _links_of_heads(
    self, heads: Sequence[str], *, tied: bool
  ) -> Iterator[Link]:
    if any(name in bert.READ_POOLED for name in heads):
      yield from links_lib.linear("pooler.dense", "pooler/dense")
    yield from super()._links_of_heads(heads, tied=tied)

  def _stored_class(self, config, stored) -> str:
    """The end of the name of the class with the most heads that are stored."""
    heads = {name for name in stored if not name.startswith(self.prefix)}
    tied = config["tie_word_embeddings"]
    known = {
      suffix: {
        link.theirs
        for link in self._links_of_heads(self.heads[suffix], tied=tied)
        if not link.only_written
      }
      for suffix in self.suffixes
    }
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

  def _of_v2(self, stack: nn.Module) -> dict[str, Any]:
    """The attributes that version 2 has alone."""
    relative, attention = stack.relative_embedder, stack.layer.attention
    shared = attention.position_key is None
    if shared != (attention.position_query is None):
      raise UserError(
        f"{self.kind} models share both projections of distances with those "
        "of contents or none"
      )
    found = {
      "share_att_key": shared,
    }
    if relative is not None:
      has_norm = relative.norm is not None
      found["norm_rel_ebd"] = "layer_norm" if has_norm else "none"
      if relative.max_distance is not None:
        found["position_buckets"] = relative.num_buckets
    if (convolution := stack.convolution) is not None:
      found["conv_kernel_size"] = convolution.kernel_size
      found["conv_act"] = attributes.their_activation(
        self.kind, convolution.activation
      )
    return found

  def _spelling(self, legacy: bool) -> "Deberta":
    """The family whose head of masked tokens is spelt in this way."""
    return dataclasses.replace(self, tokens=_LEGACY if legacy else _NOT_LEGACY)

  def _buckets(self, found) -> tuple[int, int | None]:
    """Buckets on a side, and the distance up to which they grow."""
    longest = found["max_relative_positions"]
    longest = longest or found["max_position_embeddings"]
    if buckets := found.get("position_buckets"):
      return buckets, longest
    return longest, None

  def _read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, -1 being none and terms a list."""
    config = dict(config)
    for name in _NONE_IF_NEGATIVE:
      value = config.get(name)
      if name in self.attributes.defaults and isinstance(value, int):
        config[name] = value if value > 0 else None
    if isinstance(terms := config.get(_TYPE), str):
      config[_TYPE] = _words(terms)
    widths = {name: config.pop(name, None) for name in _WIDTHS}
    size = config.pop("attention_head_size", None)
    found = self.attributes.read(config)
    found[_TYPE] = found[_TYPE] or []
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
    for name, width in widths.items():
      if width is not None:
        attributes.check_allowed(
          self.kind, name, width, (found["hidden_size"],)
        )
    if size is not None:
      attributes.check_allowed(
        self.kind,
        "attention_head_size",
        size * found["num_attention_heads"],
        (found["hidden_size"],),
      )
    return {**found, bert.HAS_POOLER: False}


_TYPE = "pos_att_type"
_REST_OF_LAYER = {
  "attention/out": "attention.output.dense",
  "post_attention_layer_norm": "attention.output.LayerNorm",
  "mlp/wi": "intermediate.dense",
  "mlp/wo": "output.dense",
  "post_mlp_layer_norm": "output.LayerNorm",
}


def _words(text: str) -> list[str]:
  """The words of a list like 'p2c|c2p'."""
  return [word.strip() for word in text.lower().split("|") if word.strip()]


_SUFFIXES = (
  "Model",
  "ForMaskedLM",
  "ForSequenceClassification",
  "ForTokenClassification",
  "ForQuestionAnswering",
)
FAMILIES = (
  Deberta(
    kind="deberta",
    classes="Deberta",
    suffixes=_SUFFIXES,
    attributes=_OF_V1,
    prefix="deberta.",
    tokens=_LEGACY,
    dropouts=dict.fromkeys(("classes", "number"), "cls_dropout"),
    architecture_file="architectures/deberta.gin",
  ),
  Deberta(
    kind="deberta-v2",
    classes="DebertaV2",
    suffixes=(*_SUFFIXES, "ForMultipleChoice"),
    attributes=_OF_V2,
    prefix="deberta.",
    tokens=_LEGACY,
    dropouts=dict.fromkeys(("classes", "number", "choice"), "cls_dropout"),
    architecture_file="architectures/deberta_v2.gin",
  ),
)
