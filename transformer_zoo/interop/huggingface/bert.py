"""BERT (`bert`), RoBERTa (`roberta`, `xlm-roberta`) and DistilBERT.

SpanBERT is a `bert` whose head of span boundaries no class of theirs has.

A class of theirs is an encoder with one head or none; which, the tensors of a
file tell, and `architectures` where several classes have the same. Differences
to ours: RoBERTa adds a vector of the only token type to all tokens, which is
zero in what fairseq trained, and DistilBERT has neither token types nor a
pooler. Source: `models/bert`, `roberta` and `distilbert` of `transformers`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
import dataclasses
import re
from typing import Any

from flax import linen as nn

from transformer_zoo import schemas
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import ZeroRow

# What settles a configuration; their classes have no such attributes.
_ZERO_TYPES, HAS_POOLER = "zero_token_types", "has_pooler"
DEFAULTS = {
  "vocab_size": 30522,
  "hidden_size": 768,
  "num_hidden_layers": 12,
  "num_attention_heads": 12,
  "intermediate_size": 3072,
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "attention_probs_dropout_prob": 0.1,
  "max_position_embeddings": 512,
  "tie_word_embeddings": True,
  HAS_POOLER: None,
}
_ALLOWED = {
  "is_decoder": (False,),
  "is_encoder_decoder": (False,),
  "position_embedding_type": ("absolute",),
}
_OF_BERT = Attributes(
  defaults={
    **DEFAULTS,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "classifier_dropout": None,  # hidden_dropout_prob
    _ZERO_TYPES: False,
  },
  allowed=_ALLOWED,
  optional={"classifier_dropout": float, HAS_POOLER: bool},
  # The poolers of the multilingual models of 2018 are as all others.
  without_effect=(
    "directionality language name pooler_fc_size pooler_num_attention_heads "
    "pooler_num_fc_layers pooler_size_per_head pooler_type "
    "sbert_ce_default_activation_function sentence_transformers"
  ).split(),
)
# DistilBERT's attribute -> BERT's.
_RENAMED = {
  "dim": "hidden_size",
  "n_layers": "num_hidden_layers",
  "n_heads": "num_attention_heads",
  "hidden_dim": "intermediate_size",
  "activation": "hidden_act",
  "dropout": "hidden_dropout_prob",
  "attention_dropout": "attention_probs_dropout_prob",
}
_OF_DISTILBERT = Attributes(
  defaults={
    **DEFAULTS,
    "num_hidden_layers": 6,
    "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2,
  },
  allowed=_ALLOWED,
  optional={HAS_POOLER: bool},
  # Sinusoids are only what the table of positions begins with; `tie_weights_`
  # ties what is tied anyway.
  without_effect=("sinusoidal_pos_embds", "tie_weights_"),
  renamed=_RENAMED,
)
# DistilBERT's, which is no attribute.
_EPSILON = 1e-12
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
_NUMBER = ("number",)
_OF_TEXTS = ("classes", "number", "choice")
READ_POOLED = ("next_sentence", "sentence_order", *_OF_TEXTS)
_WITH_LABELS = ("classes", "tags")
# Heads -> their gin files, where these are not one named after each.
_GIN_FILES = {
  ("next_sentence",): (),
  ("tokens", "next_sentence"): ("heads/tokens_next_sentence.gin",),
  ("tokens", "sentence_order"): ("heads/tokens_sentence_order.gin",),
  ("replaced",): (),
}


@dataclasses.dataclass(frozen=True)
class Bert:
  """See `Family`.

  Attributes:
    kind: The `model_type`.
    classes: The beginning of the names of their classes.
    suffixes: The ends of the names of their classes.
    heads: The heads of each of these ends, by our names.
    attributes: The attributes of a config.json.
    prefix: See `Family`.
    pooler: The name of the model's pooler after the prefix.
    layers: The name of their list of layers.
    layer: The name of each part of a layer, by ours.
    tokens: The names of the parts of the head of masked tokens: `dense`,
      `norm`, `softmax`, and `bias`, a second name of the softmax's bias.
    outputs: The name of the output layer of each head, by ours.
    own_poolers: The name of the pooler of each head that has one of its own.
    dropouts: The attribute of each head's dropout.
    architecture_file: The gin file of the architecture.
    pad_id: The `pad_token_id` of a config.json without one.
    has_types: Whether tokens have types.
    has_pooler: Whether the bare class has a pooler.
    tokens_activation: The activation of the head of masked tokens; None for
      that of the layers.
    positions_after_padding: Whether positions are counted from the id after
      padding's, as fairseq does.
  """

  kind: str
  classes: str
  attributes: Attributes
  prefix: str
  tokens: Mapping[str, str]
  suffixes: Collection[str] = tuple(HEADS)
  heads: Mapping[str, tuple[str, ...]] = dataclasses.field(
    default_factory=lambda: HEADS
  )
  pooler: str = "pooler.dense"
  layers: str = "encoder.layer"
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
  dropouts: Mapping[str, str] = dataclasses.field(
    default_factory=lambda: dict.fromkeys(
      (*_OF_TEXTS, "tags"), "classifier_dropout"
    )
  )
  architecture_file: str = "architectures/bert.gin"
  pad_id: int = 0
  has_types: bool = True
  has_pooler: bool = True
  tokens_activation: str | None = None
  positions_after_padding: bool = False

  @property
  def model_types(self) -> Sequence[str]:
    """See `Family`."""
    return (self.kind,)

  @property
  def ignored(self) -> Sequence[str]:
    """See `Family`: buffers of old versions."""
    prefix = re.escape(self.prefix)
    return (rf"({prefix})?embeddings\.(position|token_type)_ids",)

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str | None]:
    """See `Family`."""
    softmax = self.tokens["softmax"]
    found = {}
    if "bias" in self.tokens:
      found[self.tokens["bias"]] = f"{softmax}.bias"
    if config.get("tie_word_embeddings", True):
      found[f"{softmax}.weight"] = self._table("word")
    if self._may_lack_types(config):
      found[self._table("token_type")] = None
    return found

  def settle(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`; the class is that of the heads that are stored."""
    tied = config.get("tie_word_embeddings", True)
    found = {
      **config,
      "tie_word_embeddings": tied
      and f"{self.tokens['softmax']}.weight" not in stored,
      HAS_POOLER: f"{self.prefix}{self.pooler}.weight" in stored,
    }
    if self._may_lack_types(config):
      found[_ZERO_TYPES] = self._table("token_type") not in stored
    found["architectures"] = [self.classes + self._stored_class(found, stored)]
    return found

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return self.attributes.read(config)["num_hidden_layers"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found, heads = self.attributes.read(config), self._heads(config)
    width, number = found["hidden_size"], found["num_attention_heads"]
    attributes.check_multiple(self.kind, width, number)
    padding = attributes.padding_id(config, default=self.pad_id)
    activation = attributes.activation(
      self.kind, self._spelled("hidden_act"), found["hidden_act"]
    )
    bindings = {
      "VOCAB_SIZE": found["vocab_size"],
      "EMBED_DIM": width,
      "MLP_DIM": found["intermediate_size"],
      "NUM_HEADS": number,
      "HEAD_DIM": width // number,
      "NUM_ENCODER_LAYERS": found["num_hidden_layers"],
      "DROPOUT_RATE": float(found["hidden_dropout_prob"]),
      "attention/Dropout.rate": float(found["attention_probs_dropout_prob"]),
      "EncoderOnly.pad_id": padding,
      "LayerNorm.epsilon": found.get("layer_norm_eps", _EPSILON),
      "Mlp.activation": activation,
      **self._positions(found["max_position_embeddings"], padding),
    }
    if self.has_types and found[_ZERO_TYPES]:
      bindings["EncoderOnly.token_type_embedder"] = None
    elif self.has_types:
      types = Reference("@TokenTypeEmbed()")
      bindings["EncoderOnly.token_type_embedder"] = types
      bindings["TokenTypeEmbed.num_types"] = found["type_vocab_size"]
    if not heads and self.has_pooler:
      has_pooler = self._reads_pooler(found, heads)
      pooler = Reference("@Pooler()") if has_pooler else None
      bindings["EncoderOnly.pooler"] = pooler
    gin_files = _GIN_FILES.get(heads, [f"heads/{name}.gin" for name in heads])
    return Architecture(
      (self.architecture_file, *gin_files),
      bindings | self._bindings_of_heads(config, found, heads, activation),
    )

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    with attributes.counterpart(self.kind):
      parts = model.heads.parts
      heads = tuple(parts)
      stack, types = model.encoder, model.token_type_embedder
      layer, positions = stack.layer, stack.position_embedder
      found = {
        "vocab_size": model.token_embedder.num_embeddings,
        "hidden_size": model.token_embedder.features,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": layer.attention.num_heads,
        "intermediate_size": layer.mlp.d_ff,
        "hidden_act": attributes.their_activation(
          self.kind, layer.mlp.activation
        ),
        "hidden_dropout_prob": layer.dropout.rate,
        "attention_probs_dropout_prob": layer.attention.dropout.rate,
        "max_position_embeddings": positions.num_positions + positions.offset,
        "tie_word_embeddings": "tokens" not in parts
        or type(parts["tokens"].softmax).__name__ == "TiedLogits",
      }
      if self.has_types:
        found["layer_norm_eps"] = layer.norm.epsilon
        found["type_vocab_size"] = 1 if types is None else types.num_types
      if self.has_types and types is None:
        found[_ZERO_TYPES] = True
      if self.has_pooler and not heads:
        found[HAS_POOLER] = model.pooler is not None
      for name, part in parts.items():
        if name in (*_WITH_LABELS, *_NUMBER):
          found["num_labels"] = part.num_classes
        if name in self.dropouts:
          found[self.dropouts[name]] = part.dropout.rate
    return {
      "architectures": [self.classes + self._class_of(heads)],
      "model_type": self.kind,
      "pad_token_id": model.pad_id,
      **{self._spelled(name): value for name, value in found.items()},
    }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found, heads = self.attributes.read(config), self._heads(config)
    words, types = "token_embedder/embedding", self._table("token_type")
    links = [
      Link(self._table("word"), (words,)),
      Link(
        self._table("position"), ("encoder/position_embedder/pos_embedding",)
      ),
      *links_lib.layer_norm(
        f"{self.prefix}embeddings.LayerNorm", "encoder/input_norm"
      ),
    ]
    if self.has_types and found[_ZERO_TYPES]:
      links.append(Link(types, (words,), ZeroRow(), only_written=True))
    elif self.has_types:
      links.append(Link(types, ("token_type_embedder/embedding",)))
    for index, layer in enumerate(self._layers(found)):
      for part, name in self.layer.items():
        kind = links_lib.layer_norm if "norm" in part else links_lib.linear
        theirs = f"{self.prefix}{layer}.{name}"
        links += kind(theirs, f"encoder/layers_{index}/{part}")
    pooler = f"{self.prefix}{self.pooler}"
    own = {self.own_poolers.get(name) for name in heads}
    if pooler not in own and (
      found[HAS_POOLER] or self._reads_pooler(found, heads)
    ):
      links += links_lib.linear(pooler, "pooler/dense")
    tied = found["tie_word_embeddings"]
    return [*links, *self._links_of_heads(heads, tied=tied)]

  def _layers(self, found) -> list[str]:
    """Their names of the layers that have parameters, after the prefix."""
    return [f"{self.layers}.{i}" for i in range(found["num_hidden_layers"])]

  def _table(self, name: str) -> str:
    return f"{self.prefix}embeddings.{name}_embeddings.weight"

  def _spelled(self, name: str) -> str:
    """Their name of an attribute of BERT's."""
    renamed = self.attributes.renamed.items()
    return next((theirs for theirs, ours in renamed if ours == name), name)

  def _may_lack_types(self, config: Mapping[str, Any]) -> bool:
    return self.has_types and config.get("type_vocab_size") == 1

  def _positions(self, rows: int, padding: int) -> dict[str, int]:
    offset = padding + 1 if self.positions_after_padding else 0
    if rows <= offset:
      raise UserError(
        f"config.json of a {self.kind} model has max_position_embeddings="
        f"{rows}, of which the first {offset} are before pad_token_id + 1; it "
        f"takes at least {offset + 1}"
      )
    return {"MAX_POSITIONS": rows - offset, "LearnedPositions.offset": offset}

  def _reads_pooler(self, found, heads) -> bool:
    """Whether the model's pooler is used, a bare model's always."""
    if not heads:
      return self.has_pooler and found[HAS_POOLER] is not False
    return self.has_pooler and any(
      name in READ_POOLED and name not in self.own_poolers for name in heads
    )

  def _named_class(self, config: Mapping[str, Any]) -> str | None:
    """The end of the name of the class in `architectures`; None if unknown."""
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    ends = {self.classes + suffix: suffix for suffix in self.suffixes}
    return ends.get(name) if isinstance(name, str) else None

  def _stored_class(self, config, stored) -> str:
    """The end of the name of the class whose heads are stored.

    Raises:
      UserError: There are several, and `architectures` names none of them.
    """
    heads = {name for name in stored if not name.startswith(self.prefix)}
    tied = config["tie_word_embeddings"]
    fitting = [
      suffix
      for suffix in self.suffixes
      if heads
      == {
        link.theirs
        for link in self._links_of_heads(self.heads[suffix], tied=tied)
        if not (link.only_written or link.theirs.startswith(self.prefix))
      }
    ]
    named = self._named_class(config)
    if named in fitting or not fitting:
      return named or "Model"
    if len(fitting) > 1:
      raise UserError(
        f"config.json of a {self.kind} model has architectures="
        f"{schemas.shown(config.get('architectures'))}, and its tensors may "
        f"be those of {', '.join(self.classes + end for end in fitting)}; "
        "write the right one there, in a list"
      )
    return fitting[0]

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
    for suffix in self.suffixes:
      if {*self.heads[suffix]} == {*wanted}:
        return suffix
    raise UserError(
      f"{self.kind} models have no class with the heads {', '.join(heads)}"
    )

  def _bindings_of_heads(
    self, config, found, heads, activation
  ) -> dict[str, Any]:
    if not heads:
      return {"Heads.parts": {}}
    first, bindings = heads[0], {}
    if heads == ("next_sentence",):
      of_two = Reference("@next_sentence/ClassLogits()")
      bindings["Heads.parts"] = {first: of_two}
      bindings["ClassLogits.num_classes"] = 2
      bindings["ClassLogits.dropout"] = Reference("@none/Dropout()")
    if first in _WITH_LABELS:
      bindings["NUM_CLASSES"] = attributes.num_labels(config)
    if first in self.dropouts or heads == ("spans",):
      name = self.dropouts.get(first)
      rate = 0.0 if name is None else found[name]
      if rate is None:
        rate = found["hidden_dropout_prob"]
      part = "ClassLogits" if first in READ_POOLED else "TokenClassLogits"
      bindings[f"{part}.dropout"] = Reference("@head/Dropout()")
      bindings["head/Dropout.rate"] = float(rate)
    if first == "tokens":
      if not found["tie_word_embeddings"]:
        bindings["TransformedLogits.softmax"] = Reference("@LinearLogits()")
        bindings["LinearLogits.logits_dense"] = Reference("@logits/Linear()")
        bindings["logits/Linear.kernel_axes"] = ("embed", "vocab")
      bindings["TransformedLogits.activation"] = (
        self.tokens_activation or activation
      )
    return bindings

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
  without = ("ForPreTraining", "ForNextSentencePrediction")
  return Bert(
    kind=kind,
    classes=classes,
    suffixes=[suffix for suffix in HEADS if suffix not in without],
    attributes=dataclasses.replace(
      _OF_BERT, defaults={**_OF_BERT.defaults, "vocab_size": vocab_size}
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
    pad_id=1,
    tokens_activation="gelu_exact",
    positions_after_padding=True,
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
    suffixes=[
      suffix
      for suffix in HEADS
      if suffix not in ("ForPreTraining", "ForNextSentencePrediction")
    ],
    attributes=_OF_DISTILBERT,
    prefix="distilbert.",
    layers="transformer.layer",
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
    own_poolers=dict.fromkeys(_OF_TEXTS, "pre_classifier"),
    dropouts={
      **dict.fromkeys(_OF_TEXTS, "seq_classif_dropout"),
      "spans": "qa_dropout",
    },
    architecture_file="architectures/distilbert.gin",
    has_types=False,
    has_pooler=False,
  ),
)
