"""BERT (`bert`), RoBERTa (`roberta`, `xlm-roberta`) and DistilBERT.

SpanBERT is a `bert` whose head of span boundaries no class of theirs has.

A class of theirs is an encoder with one head or none; which, the tensors of a
file tell, and `architectures` where several classes have the same. Differences
to ours: RoBERTa adds a vector of the only token type to all tokens, which is
zero in what fairseq trained, and DistilBERT has neither token types nor a
pooler. Source: `models/bert`, `roberta` and `distilbert` of `transformers`.
"""

from collections.abc import (
  Callable,
  Collection,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
)
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.attributes import OMITTED
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import ZeroRow

# What settles a configuration; their classes have no such attributes.
_ZERO_TYPES, HAS_POOLER = "zero_token_types", "has_pooler"
_TYPES = "type_vocab_size"
POSITION_TABLE = "embeddings.position_embeddings"
_TYPE_TABLE = "embeddings.token_type_embeddings.weight"
# The output layers that are not called `classifier`.
_OUTPUTS = {"next_sentence": "cls.seq_relationship", "spans": "qa_outputs"}

# The end of a class's name -> its heads by our names.
HEADS = {
  "Model": (),
  "ForMaskedLM": ("tokens",),
  "ForPreTraining": ("tokens", "next_sentence"),
  "ForNextSentencePrediction": ("next_sentence",),
  "ForSequenceClassification": ("classes",),  # "number" where it has one label
  "ForTokenClassification": ("tags",),
  "ForQuestionAnswering": ("spans",),
  "ForMultipleChoice": ("choice",),
}
# Of the families that were trained on no pairs of sentences.
WITHOUT_PAIRS = {
  suffix: heads
  for suffix, heads in HEADS.items()
  if "next_sentence" not in heads
}
_NUMBER = ("number",)
OF_TEXTS = ("classes", "number", "choice")
READ_POOLED = ("next_sentence", "sentence_order", *OF_TEXTS)
_WITH_LABELS = ("classes", "tags")
# Heads -> their gin files, where these are not one named after each.
_GIN_FILES = {
  ("next_sentence",): (),
  ("tokens", "next_sentence"): ("heads/tokens_next_sentence.gin",),
  ("tokens", "sentence_order"): ("heads/tokens_sentence_order.gin",),
  ("replaced",): (),
}


def learned_positions(
  *, after_padding: bool = False
) -> Callable[[Mapping[str, Any]], dict[str, int]]:
  """`Attribute.bound` of the rows of a table of positions.

  Args:
    after_padding: Whether positions are counted from the id after padding's, as
      fairseq does.
  """

  def bound(found):
    rows = found["max_position_embeddings"]
    offset = found["pad_token_id"] + 1 if after_padding else 0
    if rows <= offset:
      raise UserError(
        f"config.json of a {found['model_type']} model has "
        f"max_position_embeddings={rows}, of which the first {offset} are "
        f"before pad_token_id + 1; it takes at least {offset + 1}"
      )
    return {"MAX_POSITIONS": rows - offset, "LearnedPositions.offset": offset}

  return bound


def dropout_of_heads(
  name: str, default: float | None, heads: Collection[str], **options: Any
) -> Attribute:
  """The row of the dropout before the output of some heads.

  Args:
    name: The name of the attribute.
    default: The rate of a config.json without it; None for the layers' rate.
    heads: Our names of the heads.
    **options: See `Attribute`.
  """

  def bound(found):
    first = (*found["heads"], None)[0]
    return dropout_of_head(first, found[name]) if first in heads else {}

  def of(parts):
    found = [p.dropout.rate for n, p in parts.heads.items() if n in heads]
    return found[0] if found else OMITTED

  if default is None:
    options["kind"] = float
    options["absent"] = lambda found: found["hidden_dropout_prob"]
  return Attribute(name, default, bound, of, **options)


def dropout_of_head(head: str, rate: float) -> dict[str, Any]:
  """The bindings of the dropout before the output of a head."""
  part = "ClassLogits" if head in READ_POOLED else "TokenClassLogits"
  return {
    f"{part}.dropout": Reference("@head/Dropout()"),
    "head/Dropout.rate": rate,
  }


def _num_classes(found: Mapping[str, Any]) -> dict[str, int]:
  has_labels = found["heads"][:1] in [(name,) for name in _WITH_LABELS]
  return {"NUM_CLASSES": found["num_labels"]} if has_labels else {}


def _num_labels(parts: Parts) -> Any:
  for name, part in parts.heads.items():
    if name in (*_WITH_LABELS, *_NUMBER):
      return part.num_classes
  return OMITTED


def _softmax(found: Mapping[str, Any]) -> dict[str, Any]:
  if found["heads"][:1] != ("tokens",) or found["tie_word_embeddings"]:
    return {}
  return {
    "TransformedLogits.softmax": Reference("@LinearLogits()"),
    "LinearLogits.logits_dense": Reference("@logits/Linear()"),
    "logits/Linear.kernel_axes": ("embed", "vocab"),
  }


def _is_tied(parts: Parts) -> bool:
  return (
    "tokens" not in parts.heads
    or type(parts.heads["tokens"].softmax).__name__ == "TiedLogits"
  )


def _pooler(found: Mapping[str, Any]) -> dict[str, Any]:
  if found["heads"]:
    return {}
  has_pooler = found[HAS_POOLER] is not False
  return {"EncoderOnly.pooler": Reference("@Pooler()") if has_pooler else None}


def _has_pooler(parts: Parts) -> Any:
  return OMITTED if parts.heads else parts.model.pooler is not None


def _types(found: Mapping[str, Any]) -> dict[str, Any]:
  if found[_ZERO_TYPES]:
    return {"EncoderOnly.token_type_embedder": None}
  return {
    "EncoderOnly.token_type_embedder": Reference("@TokenTypeEmbed()"),
    "TokenTypeEmbed.num_types": found[_TYPES],
  }


def _num_types(parts: Parts) -> int:
  types = parts.model.token_type_embedder
  return 1 if types is None else types.num_types


# What all encoders have in common.
COMMON = Attributes(
  (
    Attribute("vocab_size", 30522, "VOCAB_SIZE"),
    Attribute("hidden_size", 768, "EMBED_DIM"),
    Attribute("num_hidden_layers", 12, "NUM_ENCODER_LAYERS"),
    attributes.heads("num_attention_heads", 12, "hidden_size"),
    Attribute("intermediate_size", 3072, "MLP_DIM"),
    Attribute("hidden_act", "gelu", "Mlp.activation"),
    Attribute("hidden_dropout_prob", 0.1, "DROPOUT_RATE"),
    Attribute("attention_probs_dropout_prob", 0.1, "attention/Dropout.rate"),
    Attribute("tie_word_embeddings", True, _softmax, _is_tied),
    Attribute(
      "num_labels", 2, _num_classes, _num_labels, read=attributes.num_labels
    ),
    attributes.padding("EncoderOnly.pad_id", 0),
  ),
  allowed={
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
  },
)
EPSILON = Attribute("layer_norm_eps", 1e-12, "LayerNorm.epsilon")
WITH_POSITIONS = COMMON.changed(
  Attribute(
    "max_position_embeddings",
    512,
    learned_positions(),
    lambda parts: parts.positions.num_positions + parts.positions.offset,
    counts_rows=True,
  ),
  Attribute(HAS_POOLER, None, _pooler, _has_pooler, kind=bool),
)
WITH_TYPES = WITH_POSITIONS.changed(
  EPSILON,
  Attribute(_TYPES, 2, _types, _num_types),
  Attribute(
    _ZERO_TYPES,
    False,
    of=lambda parts: parts.model.token_type_embedder is None or OMITTED,
  ),
  dropout_of_heads("classifier_dropout", None, (*OF_TEXTS, "tags")),
  allowed={"position_embedding_type": ("absolute",)},
)
_OF_BERT = WITH_TYPES.changed(
  # The poolers of the multilingual models of 2018 are as all others.
  without_effect=(
    "directionality language name pooler_fc_size pooler_num_attention_heads "
    "pooler_num_fc_layers pooler_size_per_head pooler_type "
    "sbert_ce_default_activation_function sentence_transformers"
  ).split(),
)
_OF_DISTILBERT = WITH_POSITIONS.changed(
  Attribute(HAS_POOLER, None, kind=bool),
  dropout_of_heads("seq_classif_dropout", 0.2, OF_TEXTS),
  dropout_of_heads("qa_dropout", 0.1, ("spans",)),
  written={
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
  },
  spellings={
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
  },
  allowed={"position_embedding_type": ("absolute",)},
  # Sinusoids are only what the table of positions begins with; `tie_weights_`
  # ties what is tied anyway.
  without_effect=("sinusoidal_pos_embds", "tie_weights_"),
  num_hidden_layers=6,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bert(Family):
  """See `Family`.

  Attributes:
    classes: The beginning of the names of their classes.
    heads: Our names of the heads of each class, by the end of its name.
    pooler: The name of the model's pooler after the prefix.
    tokens: The names of the parts of the head of masked tokens: `dense`,
      `norm`, `softmax`, and `bias`, a second name of the softmax's bias.
    outputs: The name of the output layer of each head, by ours.
    own_poolers: The name of the pooler of each head that has one of its own.
    has_pooler: Whether the bare class has a pooler.
    tokens_activation: The activation of the head of masked tokens; None for the
      layers'.
  """

  classes: str
  tokens: Mapping[str, str]
  heads: Mapping[str, tuple[str, ...]] = dataclasses.field(
    default_factory=lambda: HEADS
  )
  pooler: str = "pooler.dense"
  outside: Mapping[str, str] = dataclasses.field(
    default_factory=lambda: {
      "token_embedder/embedding": "embeddings.word_embeddings",
      "encoder/position_embedder/pos_embedding": POSITION_TABLE,
      "encoder/input_norm": "embeddings.LayerNorm",
    }
  )
  layer_list: str = "encoder.layer"
  layer: Mapping[str, str] = dataclasses.field(
    default_factory=lambda: {
      "attention/query": "attention.self.query",
      "attention/key": "attention.self.key",
      "attention/value": "attention.self.value",
      "attention/out": "attention.output.dense",
      "post_attention_layer_norm": "attention.output.LayerNorm",
      "mlp/wi": "intermediate.dense",
      "mlp/wo": "output.dense",
      "post_mlp_layer_norm": "output.LayerNorm",
    }
  )
  outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
  own_poolers: Mapping[str, str] = dataclasses.field(default_factory=dict)
  architecture_file: str = "architectures/bert.gin"
  side: str = "encoder"
  # Buffers of old versions.
  ignored: Sequence[str] = (r"(\w+\.)?embeddings\.(position|token_type)_ids",)
  has_pooler: bool = True
  tokens_activation: str | None = None

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str | None]:
    """See `Family`."""
    softmax = self.tokens["softmax"]
    found = {}
    if "bias" in self.tokens:
      found[self.tokens["bias"]] = f"{softmax}.bias"
    if config.get("tie_word_embeddings", True):
      found[f"{softmax}.weight"] = self.word_table
    if self._may_lack_types(config):
      found[f"{self.prefix}{_TYPE_TABLE}"] = None
    return found

  def completed(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`; the class follows from the heads that are stored."""
    tied = config.get("tie_word_embeddings", True)
    found = {
      **config,
      "tie_word_embeddings": tied
      and f"{self.tokens['softmax']}.weight" not in stored,
      HAS_POOLER: f"{self.prefix}{self.pooler}.weight" in stored,
    }
    if self._may_lack_types(config):
      found[_ZERO_TYPES] = f"{self.prefix}{_TYPE_TABLE}" not in stored
    found["architectures"] = [self.classes + self._stored_class(found, stored)]
    return found

  def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`; `heads` are our names of the heads of the class."""
    return {**super().read(config), "heads": self._heads(config)}

  def gin_files(self, found: Mapping[str, Any]) -> Sequence[str]:
    """See `Family`."""
    heads = found["heads"]
    files = _GIN_FILES.get(heads, [f"heads/{name}.gin" for name in heads])
    return (self.architecture_file, *files)

  def bindings_of(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    bound, heads = super().bindings_of(found), found["heads"]
    if not heads:
      return bound | {"Heads.parts": {}}
    if heads == ("next_sentence",):
      of_two = Reference("@next_sentence/ClassLogits()")
      bound["Heads.parts"] = {"next_sentence": of_two}
      bound["ClassLogits.num_classes"] = 2
      bound["ClassLogits.dropout"] = Reference("@none/Dropout()")
    if heads == ("spans",) and "head/Dropout.rate" not in bound:
      bound |= dropout_of_head("spans", 0.0)
    if heads[0] == "tokens":
      act = self.tokens_activation or bound.get("Mlp.activation")
      bound.setdefault("TransformedLogits.activation", act)
    return bound

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    with attributes.counterpart(self.kind):
      end = self._class_of(tuple(model.heads.parts))
    return {**super().config(model), "architectures": [self.classes + end]}

  def links_outside(self, found: Mapping[str, Any]) -> Iterator[Link]:
    """See `Family`."""
    yield from super().links_outside(found)
    words, types = "token_embedder/embedding", f"{self.prefix}{_TYPE_TABLE}"
    if found.get(_ZERO_TYPES):
      yield Link(types, (words,), ZeroRow(), only_written=True)
    elif _TYPES in found:
      yield Link(types, ("token_type_embedder/embedding",))
    pooler = f"{self.prefix}{self.pooler}"
    own = {self.own_poolers.get(name) for name in found["heads"]}
    if pooler not in own and (
      found.get(HAS_POOLER) or self._reads_pooler(found, found["heads"])
    ):
      yield from links_lib.linear(pooler, "pooler/dense")

  @property
  def head_names(self) -> Collection[str]:
    """See `Family`."""
    return {
      f"{link.theirs.partition('.')[0]}."
      for heads in self.heads.values()
      for tied in (True, False)
      for link in self._links_of_heads(heads, tied=tied)
      if not link.theirs.startswith(self.prefix)
    }

  def links_of_heads(self, found: Mapping[str, Any]) -> Iterable[Link]:
    """See `Family`."""
    tied = found["tie_word_embeddings"]
    return self._links_of_heads(found["heads"], tied=tied)

  def _may_lack_types(self, config: Mapping[str, Any]) -> bool:
    return _TYPES in self.attributes and config.get(_TYPES) == 1

  def _reads_pooler(self, found, heads) -> bool:
    """Whether the model's pooler is used, a bare model's always."""
    if not heads:
      return self.has_pooler and found.get(HAS_POOLER) is not False
    return self.has_pooler and any(
      name in READ_POOLED and name not in self.own_poolers for name in heads
    )

  def _named_class(self, config: Mapping[str, Any]) -> str | None:
    """The end of the name of the class in `architectures`; None if unknown."""
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    ends = {self.classes + suffix: suffix for suffix in self.heads}
    return ends.get(name) if isinstance(name, str) else None

  def _stored_class(self, config, stored) -> str:
    """The end of the name of the class whose heads are stored.

    Raises:
      UserError: There are several, and `architectures` names none of them.
    """
    heads = self._of_heads(stored)
    needed = self._needed(config)
    fitting = [suffix for suffix in needed if needed[suffix] == heads]
    named = self._named_class(config)
    if named in fitting or not fitting:
      return named or "Model"
    if len(fitting) > 1:
      raise UserError(
        f"config.json of a {self.kind} model has architectures="
        f"{schemas.shown(config.get('architectures'))}, and its tensors may "
        f"belong to {', '.join(self.classes + end for end in fitting)}; "
        "write the right one there, in a list"
      )
    return fitting[0]

  def _of_heads(self, stored: Collection[str]) -> set[str]:
    """The names of tensors that belong to heads."""
    return {name for name in stored if not name.startswith(self.prefix)}

  def _needed(self, config: Mapping[str, Any]) -> dict[str, set[str]]:
    """The tensors of each class's heads, by the end of its name."""
    tied = config["tie_word_embeddings"]
    return {
      suffix: self._of_heads(
        link.theirs
        for link in self._links_of_heads(heads, tied=tied)
        if not link.only_written
      )
      for suffix, heads in self.heads.items()
    }

  def _heads(self, config: Mapping[str, Any]) -> tuple[str, ...]:
    heads = self.heads[self._named_class(config) or "Model"]
    if heads == ("classes",) and attributes.num_labels(config) == 1:
      return _NUMBER
    return heads

  def _class_of(self, heads: tuple[str, ...]) -> str:
    """The end of the name of the class that has these heads.

    Raises:
      UserError: There is none.
    """
    wanted = ("classes",) if heads == _NUMBER else heads
    for suffix in self.heads:
      if {*self.heads[suffix]} == {*wanted}:
        return suffix
    raise UserError(
      f"{self.kind} models have no class with the heads {', '.join(heads)}"
    )

  def _links_of_heads(
    self, heads: Sequence[str], *, tied: bool
  ) -> Iterator[Link]:
    for name in heads:
      ours = f"heads/{name}"
      if name == "tokens":
        yield from self._links_of_tokens(ours, tied=tied)
        continue
      if name in self.own_poolers:
        pooler = self.own_poolers[name]
        yield from links_lib.linear(pooler, f"{ours}/pooler/dense")
      output = self.outputs.get(name, _OUTPUTS.get(name, "classifier"))
      yield from links_lib.linear(output, f"{ours}/out")

  def _links_of_tokens(self, ours: str, *, tied: bool) -> Iterator[Link]:
    softmax, second_bias = self.tokens["softmax"], self.tokens.get("bias")
    yield from links_lib.linear(self.tokens["dense"], f"{ours}/dense")
    yield from links_lib.layer_norm(self.tokens["norm"], f"{ours}/norm")
    if tied:
      bias = f"{ours}/logits_bias"
      yield Link(f"{softmax}.bias", (bias,))
    else:
      bias = f"{ours}/logits_dense/bias"
      yield from links_lib.linear(softmax, f"{ours}/logits_dense")
    if second_bias is not None:
      yield Link(second_bias, (bias,), only_written=True)


def _roberta(kind: str, classes: str, vocab_size: int) -> Bert:
  return Bert(
    kind=kind,
    classes=classes,
    heads=WITHOUT_PAIRS,
    attributes=_OF_BERT.changed(
      dataclasses.replace(
        _OF_BERT["max_position_embeddings"],
        bound=learned_positions(after_padding=True),
      ),
      vocab_size=vocab_size,
      pad_token_id=1,
    ),
    prefix="roberta.",
    tokens={
      "dense": "lm_head.dense",
      "norm": "lm_head.layer_norm",
      "softmax": "lm_head.decoder",
      "bias": "lm_head.bias",
    },
    outputs=dict.fromkeys(("classes", "number"), "classifier.out_proj"),
    # That of the bare class is read by the class for choices alone.
    own_poolers={
      "classes": "classifier.dense",
      "number": "classifier.dense",
      "choice": "roberta.pooler.dense",
    },
    architecture_file="architectures/roberta.gin",
    tokens_activation="gelu_exact",
  )


FAMILIES = (
  Bert(
    kind="bert",
    classes="Bert",
    attributes=_OF_BERT,
    prefix="bert.",
    tokens={
      "dense": "cls.predictions.transform.dense",
      "norm": "cls.predictions.transform.LayerNorm",
      "softmax": "cls.predictions.decoder",
      "bias": "cls.predictions.bias",
    },
  ),
  _roberta("roberta", "Roberta", 50265),
  _roberta("xlm-roberta", "XLMRoberta", 30522),
  Bert(
    kind="distilbert",
    classes="DistilBert",
    heads=WITHOUT_PAIRS,
    attributes=_OF_DISTILBERT,
    prefix="distilbert.",
    layer_list="transformer.layer",
    layer={
      "attention/query": "attention.q_lin",
      "attention/key": "attention.k_lin",
      "attention/value": "attention.v_lin",
      "attention/out": "attention.out_lin",
      "post_attention_layer_norm": "sa_layer_norm",
      "mlp/wi": "ffn.lin1",
      "mlp/wo": "ffn.lin2",
      "post_mlp_layer_norm": "output_layer_norm",
    },
    tokens={
      "dense": "vocab_transform",
      "norm": "vocab_layer_norm",
      "softmax": "vocab_projector",
    },
    own_poolers=dict.fromkeys(OF_TEXTS, "pre_classifier"),
    architecture_file="architectures/distilbert.gin",
    # Theirs is no attribute.
    bindings={"LayerNorm.epsilon": 1e-12},
    has_pooler=False,
  ),
)
