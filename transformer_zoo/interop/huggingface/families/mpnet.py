"""MPNet (`mpnet`): RoBERTa with a bias by bucketed distance.

Its class has 32 buckets and counts positions from 2 whatever config.json says.
Source: `models/mpnet` of `transformers`.
"""

from collections.abc import Iterator, Mapping
import dataclasses
from typing import Any

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.families import bert
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import Transposed

_BUCKETS, _DISTANCE, _PADDING = 32, 128, 1


def _positions(found: Mapping[str, Any]) -> dict[str, int]:
  padding = found["pad_token_id"]
  attributes.check_allowed("mpnet", "pad_token_id", padding, (_PADDING,))
  return bert.learned_positions(after_padding=True)(found)


def _epsilon(parts: Parts) -> float:
  """The epsilon of the norms, of a model that has buckets like theirs."""
  bias, padding = parts.bias, parts.model.pad_id
  found = bias.num_buckets, bias.max_distance
  if found != (_BUCKETS, _DISTANCE) or padding != _PADDING:
    raise UserError(
      f"{parts.kind} models have {_BUCKETS} buckets up to distance "
      f"{_DISTANCE} and padding {_PADDING}, not {found[0]} up to {found[1]} "
      f"and {padding}"
    )
  return parts.layer.norm.epsilon


class Mpnet(bert.Bert):
  """See `Family`."""

  def links_outside(self, found: Mapping[str, Any]) -> Iterator[Link]:
    """See `Family`."""
    yield from super().links_outside(found)
    theirs = f"{self.prefix}encoder.relative_attention_bias.weight"
    ours = ("encoder/relpos_bias/rel_embedding",)
    yield Link(theirs, ours, Transposed())


FAMILIES = (
  Mpnet(
    kind="mpnet",
    classes="MPNet",
    heads=bert.WITHOUT_PAIRS,
    attributes=bert.WITH_POSITIONS.changed(
      dataclasses.replace(
        bert.WITH_POSITIONS["max_position_embeddings"], bound=_positions
      ),
      dataclasses.replace(bert.EPSILON, of=_epsilon),
      allowed={"relative_attention_num_buckets": (_BUCKETS,)},
      vocab_size=30527,
      pad_token_id=_PADDING,
    ),
    prefix="mpnet.",
    layer={
      "attention/query": "attention.attn.q",
      "attention/key": "attention.attn.k",
      "attention/value": "attention.attn.v",
      "attention/out": "attention.attn.o",
      "post_attention_layer_norm": "attention.LayerNorm",
      "mlp/wi": "intermediate.dense",
      "mlp/wo": "output.dense",
      "post_mlp_layer_norm": "output.LayerNorm",
    },
    tokens={
      "dense": "lm_head.dense",
      "norm": "lm_head.layer_norm",
      "softmax": "lm_head.decoder",
      "bias": "lm_head.bias",
    },
    outputs=dict.fromkeys(("classes", "number"), "classifier.out_proj"),
    own_poolers={
      "classes": "classifier.dense",
      "number": "classifier.dense",
      "choice": "mpnet.pooler.dense",
    },
    architecture_file="architectures/mpnet.gin",
    tokens_activation="gelu_exact",
  ),
)
