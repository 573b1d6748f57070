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
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.families import bert
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

_PROJECTION = "encoder/input_projection/dense"
_DROPOUT_OF_ALL = (*bert.OF_TEXTS, "tags", "sentence_order")
# No file bounds the layers of a group: each would be traced by itself.
_MOST_LAYERS = 1000


def _width(parts: Parts) -> int:
  projection = parts.input_projection
  return parts.tokens.features if projection is None else projection.features


def _projected_width(parts: Parts) -> int:
  if parts.input_projection is None:
    raise UserError(
      f"{parts.kind} models have a projection from embeddings to layers, "
      "and this model has none (Transformer.input_projection)"
    )
  return _width(parts)


def _projection(found: Mapping[str, Any]) -> dict[str, Any]:
  return {
    "EMBEDDING_DIM": found["embedding_size"],
    "INPUT_PROJECTION": Reference("@InputProjection()"),
  }


def _projection_if_needed(found: Mapping[str, Any]) -> dict[str, Any]:
  needed = found["embedding_size"] != found["hidden_size"]
  return _projection(found) if needed else {}


def _num_layers(parts: Parts) -> int:
  stack = parts.stack
  if stack.shared or stack.num_groups not in (None, stack.num_layers):
    raise UserError(
      f"{parts.kind} models have parameters for each layer, and layers of "
      "this model share some (Stack.num_groups, Stack.shared)"
    )
  return stack.num_layers


def _groups(found: Mapping[str, Any]) -> dict[str, int]:
  kind = found["model_type"]
  layers, groups = found["num_hidden_layers"], found["num_hidden_groups"]
  if layers > _MOST_LAYERS:
    raise UserError(
      f"config.json of a {kind} model has num_hidden_layers={layers}; "
      f"layers that share parameters are at most {_MOST_LAYERS:,} here"
    )
  if layers % groups:
    raise UserError(
      f"config.json of a {kind} model has num_hidden_groups={groups}, "
      f"which does not divide num_hidden_layers={layers}; groups have "
      "equally many layers here"
    )
  return {"encoder/Stack.num_groups": groups}


def _num_groups(parts: Parts) -> int:
  stack = parts.stack
  if stack.shared:
    raise UserError(
      f"{parts.kind} models share whole layers or none, and layers of this "
      f"model share {', '.join(stack.shared)} (Stack.shared)"
    )
  return stack.num_groups or stack.num_layers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Factorized(bert.Bert):
  """See `Family`.

  Attributes:
    projection: The name of the projection of embeddings after the prefix.
  """

  projection: str

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    return super().config(model.offers.fine_tuned or model)

  def links_outside(self, found: Mapping[str, Any]) -> Iterator[Link]:
    """See `Family`."""
    yield from super().links_outside(found)
    if self.attributes["embedding_size"].bindings(found):
      theirs = f"{self.prefix}{self.projection}"
      yield from links_lib.linear(theirs, _PROJECTION)

  def left_out(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> Collection[str]:
    """See `Family`: heads that the class lacks."""
    wanted = {link.theirs for link in self.links(config)}
    return self._of_heads(stored) - wanted

  def _stored_class(self, config, stored) -> str:
    """As `Bert._stored_class`; of more heads than one, the heads of one class.

    That class is the named one, or else the one with the most tensors.
    """
    heads, needed = self._of_heads(stored), self._needed(config)
    if heads in needed.values():
      return super()._stored_class(config, stored)
    there = [suffix for suffix in needed if needed[suffix] <= heads]
    named = self._named_class(config)
    if named in there:
      return named
    return max(there, key=lambda suffix: len(needed[suffix]))


class Albert(Factorized):
  """See `Family`."""

  def bindings_of(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    bound = super().bindings_of(found)
    if "sentence_order" in found["heads"]:
      part = "sentence_order/ClassLogits.dropout"
      bound[part] = Reference("@head/Dropout()")
      bound["head/Dropout.rate"] = found["classifier_dropout"]
    return bound

  def layer_names(self, found: Mapping[str, Any]) -> Sequence[str]:
    """See `Family`."""
    return [
      f"encoder.albert_layer_groups.{group}.albert_layers.0"
      for group in range(found["num_hidden_groups"])
    ]


class Electra(Factorized):
  """See `Family`; what is read is the generator or the discriminator."""

  def bindings_of(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    bound, heads = super().bindings_of(found), found["heads"]
    if heads[:1] in [(name,) for name in bert.OF_TEXTS]:
      bound["Pooler.activation"] = "gelu_exact"
    if heads == ("replaced",):
      bound["Heads.parts"] = {"replaced": Reference("@ReplacedLogits()")}
      bound["ReplacedLogits.activation"] = bound["Mlp.activation"]
    return bound

  def _links_of_heads(
    self, heads: Sequence[str], *, tied: bool
  ) -> Iterator[Link]:
    if tuple(heads) != ("replaced",):
      yield from super()._links_of_heads(heads, tied=tied)
      return
    theirs, ours = "discriminator_predictions", "heads/replaced"
    yield from links_lib.linear(f"{theirs}.dense", f"{ours}/dense")
    yield from links_lib.linear(f"{theirs}.dense_prediction", f"{ours}/out")


_HEADS = {
  suffix: heads
  for suffix, heads in bert.HEADS.items()
  if heads != ("next_sentence",)
}
FAMILIES = (
  Albert(
    kind="albert",
    classes="Albert",
    attributes=bert.WITH_TYPES.changed(
      Attribute("embedding_size", 128, _projection, "tokens.features"),
      dataclasses.replace(bert.WITH_TYPES["hidden_size"], of=_projected_width),
      Attribute("num_hidden_groups", 1, _groups, _num_groups),
      bert.dropout_of_heads(
        "classifier_dropout",
        0.1,
        _DROPOUT_OF_ALL,
        written="classifier_dropout_prob",
      ),
      allowed={"inner_group_num": (1,)},
      # Published files have sizes of what no released class computes.
      without_effect=(
        "down_scale_factor",
        "gap_size",
        "layers_to_keep",
        "net_structure_type",
        "num_memory_blocks",
      ),
      vocab_size=30000,
      hidden_size=4096,
      num_attention_heads=64,
      intermediate_size=16384,
      hidden_act="gelu_new",
      hidden_dropout_prob=0.0,
      attention_probs_dropout_prob=0.0,
    ),
    layer_counts=("num_hidden_groups",),
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
    heads={**_HEADS, "ForPreTraining": ("tokens", "sentence_order")},
    projection="encoder.embedding_hidden_mapping_in",
  ),
  Electra(
    kind="electra",
    classes="Electra",
    attributes=bert.WITH_TYPES.changed(
      Attribute(
        "embedding_size", 128, _projection_if_needed, "tokens.features"
      ),
      dataclasses.replace(bert.WITH_TYPES["hidden_size"], of=_width),
      dataclasses.replace(bert.WITH_TYPES["num_hidden_layers"], of=_num_layers),
      bert.dropout_of_heads(
        "classifier_dropout", None, ("classes", "number", "tags")
      ),
      bert.dropout_of_heads("summary_last_dropout", 0.1, ("choice",)),
      Attribute(bert.HAS_POOLER, None, kind=bool),
      allowed={
        "summary_type": ("first",),
        "summary_use_proj": (True,),
        "summary_activation": ("gelu",),
      },
      hidden_size=256,
      num_attention_heads=4,
      intermediate_size=1024,
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
    architecture_file="architectures/electra.gin",
    has_pooler=False,
    tokens_activation="gelu_exact",
    heads={**_HEADS, "ForPreTraining": ("replaced",)},
    projection="embeddings_project",
  ),
)
