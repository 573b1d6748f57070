"""ALBERT (`albert`) and ELECTRA (`electra`): embeddings of their own width.

Beyond what `bert.py` describes, ALBERT has a group of parameters for several
layers, and always a projection from embeddings to layers; ELECTRA has one where
the widths differ, and two classes for pre-training, of the generator
(`ElectraForMaskedLM`) and of the discriminator (`ElectraForPreTraining`).
Published files of either hold heads that the class named in config.json lacks,
or lack one that it has. Source: `models/albert` and `electra` of
`transformers`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import bert
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

_OF_BERT = bert.FAMILIES[0].attributes
_PROJECTION = "encoder/input_projection/dense"

# No file bounds the layers of a group: each would be traced by itself.
_MOST_LAYERS = 1000


@dataclasses.dataclass(frozen=True)
class Factorized(bert.Bert):
  """See `Family`.

  Attributes:
    projection: The name of the projection of embeddings after the prefix.
    projects_always: Whether there is one where it changes no width.
    text_activation: The activation of the poolers of heads, by our name; None
      for heads that have none.
  """

  projection: str = ""
  projects_always: bool = False
  text_activation: str | None = None

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found, heads = self.attributes.read(config), self._heads(config)
    made = super().architecture(config)
    bindings = {**made.bindings, **self._bindings_of_layers(found)}
    if self._projects(found):
      bindings["EMBEDDING_DIM"] = found["embedding_size"]
      bindings["INPUT_PROJECTION"] = Reference("@InputProjection()")
    if "sentence_order" in heads:
      rate = float(found["classifier_dropout"])
      bindings["sentence_order/ClassLogits.dropout"] = Reference(
        "@head/Dropout()"
      )
      bindings["head/Dropout.rate"] = rate
    if self.text_activation and heads[:1] in (
      ("classes",), ("number",), ("choice",)
    ):  # fmt: skip
      bindings["Pooler.activation"] = self.text_activation
    if heads == ("replaced",):
      bindings |= {
        "Heads.parts": {"replaced": Reference("@ReplacedLogits()")},
        "ReplacedLogits.activation": bindings["Mlp.activation"],
      }
    return Architecture(made.gin_files, bindings)

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    model = getattr(model, "discriminator", model)
    found = super().config(model)
    with attributes.counterpart(self.kind):
      stack, width = model.encoder, model.token_embedder.features
      projection = stack.input_projection
      found["embedding_size"] = width
      if projection is not None:
        found["hidden_size"] = projection.features
      elif self.projects_always:
        raise UserError(
          f"{self.kind} models have a projection from embeddings to layers, "
          "and this model has none (Stack.input_projection)"
        )
    return found | self._attributes_of_layers(stack)

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = self.attributes.read(config)
    links = super().links(config)
    if self._projects(found):
      theirs = f"{self.prefix}{self.projection}"
      links += links_lib.linear(theirs, _PROJECTION)
    return links

  def left_out(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> Collection[str]:
    """See `Family`: other heads than those of the class."""
    wanted = {link.theirs for link in self.links(config)}
    return [
      name for name in set(stored) - wanted if not name.startswith(self.prefix)
    ]

  def _stored_class(self, config, stored) -> str:
    """As `Bert._stored_class`; of more heads than one, those of one class.

    That class is the named one, or else the one with the most tensors.
    """
    heads = {name for name in stored if not name.startswith(self.prefix)}
    tied = config["tie_word_embeddings"]
    needed = {
      suffix: {
        link.theirs
        for link in self._links_of_heads(self.heads[suffix], tied=tied)
        if not (link.only_written or link.theirs.startswith(self.prefix))
      }
      for suffix in self.suffixes
    }
    if heads in needed.values():
      return super()._stored_class(config, stored)
    there = [suffix for suffix in needed if needed[suffix] <= heads]
    named = self._named_class(config)
    if named in there:
      return named
    return max(there, key=lambda suffix: len(needed[suffix]))

  def _projects(self, found) -> bool:
    return (
      self.projects_always or found["embedding_size"] != found["hidden_size"]
    )

  def _bindings_of_layers(self, found) -> dict[str, Any]:
    return {}

  def _attributes_of_layers(self, stack: nn.Module) -> dict[str, Any]:
    if stack.shared or stack.num_groups not in (None, stack.num_layers):
      raise UserError(
        f"{self.kind} models have parameters for each layer, and layers of "
        "this model share some (Stack.num_groups, Stack.shared)"
      )
    return {}


@dataclasses.dataclass(frozen=True)
class Albert(Factorized):
  """See `Family`."""

  def _layers(self, found) -> list[str]:
    return [
      f"encoder.albert_layer_groups.{group}.albert_layers.0"
      for group in range(found["num_hidden_groups"])
    ]

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`: those that have parameters."""
    return self.attributes.read(config)["num_hidden_groups"]

  def _bindings_of_layers(self, found) -> dict[str, Any]:
    layers, groups = found["num_hidden_layers"], found["num_hidden_groups"]
    if layers > _MOST_LAYERS:
      raise UserError(
        f"config.json of a {self.kind} model has num_hidden_layers={layers}; "
        f"layers that share parameters are at most {_MOST_LAYERS:,} here"
      )
    if layers % groups:
      raise UserError(
        f"config.json of a {self.kind} model has num_hidden_groups={groups}, "
        f"which does not divide num_hidden_layers={layers}; groups have "
        "equally many layers here"
      )
    return {"encoder/Stack.num_groups": groups}

  def _attributes_of_layers(self, stack: nn.Module) -> dict[str, Any]:
    if stack.shared:
      raise UserError(
        f"{self.kind} models share whole layers or none, and layers of this "
        f"model share {', '.join(stack.shared)} (Stack.shared)"
      )
    return {"num_hidden_groups": stack.num_groups or stack.num_layers}


@dataclasses.dataclass(frozen=True)
class Electra(Factorized):
  """See `Family`; what is read is the generator or the discriminator."""

  def _links_of_heads(
    self, heads: Sequence[str], *, tied: bool
  ) -> Iterator[Link]:
    if tuple(heads) != ("replaced",):
      yield from super()._links_of_heads(heads, tied=tied)
      return
    theirs, ours = "discriminator_predictions", "heads/replaced"
    yield from links_lib.linear(f"{theirs}.dense", f"{ours}/dense")
    yield from links_lib.linear(f"{theirs}.dense_prediction", f"{ours}/out")


_SUFFIXES: Collection[str] = [
  suffix
  for suffix in bert.FAMILIES[0].suffixes
  if suffix != "ForNextSentencePrediction"
]
FAMILIES = (
  Albert(
    kind="albert",
    classes="Albert",
    suffixes=_SUFFIXES,
    attributes=Attributes(
      defaults={
        **_OF_BERT.defaults,
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "num_hidden_groups": 1,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "classifier_dropout": 0.1,
      },
      allowed={**_OF_BERT.allowed, "inner_group_num": (1,)},
      optional={
        name: kind
        for name, kind in _OF_BERT.optional.items()
        if name != "classifier_dropout"
      },
      # Published files have sizes of what no released class computes.
      without_effect=(
        "down_scale_factor",
        "gap_size",
        "layers_to_keep",
        "net_structure_type",
        "num_memory_blocks",
      ),
      renamed={"classifier_dropout_prob": "classifier_dropout"},
    ),  # fmt: skip
    prefix="albert.",
    pooler="pooler",
    layer={
      "attention/query": "attention.query",
      "attention/key": "attention.key",
      "attention/value": "attention.value",
      "attention/out": "attention.dense",
      "post_attention_layer_norm": "attention.LayerNorm",
      "mlp/wi": "ffn",
      "mlp/wo": "ffn_output",
      "post_mlp_layer_norm": "full_layer_layer_norm",
    },
    tokens={
      "dense": "predictions.dense",
      "norm": "predictions.LayerNorm",
      "softmax": "predictions.decoder",
      "bias": "predictions.bias",
    },
    outputs={"sentence_order": "sop_classifier.classifier"},
    architecture_file="architectures/albert.gin",
    heads={**bert.HEADS, "ForPreTraining": ("tokens", "sentence_order")},
    projection="encoder.embedding_hidden_mapping_in",
    projects_always=True,
  ),
  Electra(
    kind="electra",
    classes="Electra",
    suffixes=_SUFFIXES,
    attributes=Attributes(
      defaults={
        **_OF_BERT.defaults,
        "embedding_size": 128,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
        "summary_last_dropout": 0.1,
      },
      allowed={
        **_OF_BERT.allowed,
        "summary_type": ("first",),
        "summary_use_proj": (True,),
        "summary_activation": ("gelu",),
      },
      optional=_OF_BERT.optional,
    ),
    prefix="electra.",
    tokens={
      "dense": "generator_predictions.dense",
      "norm": "generator_predictions.LayerNorm",
      "softmax": "generator_lm_head",
    },
    outputs=dict.fromkeys(("classes", "number"), "classifier.out_proj"),
    own_poolers={
      "classes": "classifier.dense",
      "number": "classifier.dense",
      "choice": "sequence_summary.summary",
    },
    dropouts={
      **dict.fromkeys(("classes", "number", "tags"), "classifier_dropout"),
      "choice": "summary_last_dropout",
    },
    architecture_file="architectures/electra.gin",
    has_pooler=False,
    tokens_activation="gelu_exact",
    heads={**bert.HEADS, "ForPreTraining": ("replaced",)},
    projection="embeddings_project",
    text_activation="gelu_exact",
  ),
)
