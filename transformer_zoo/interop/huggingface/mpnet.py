"""MPNet (`mpnet`): RoBERTa with a bias by bucketed distance.

Its class has 32 buckets and counts positions from 2 whatever config.json says.
Source: `models/mpnet` of `transformers`.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import bert
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import Transposed

_BUCKETS, _DISTANCE, _PADDING = 32, 128, 1


@dataclasses.dataclass(frozen=True)
class Mpnet(bert.Bert):
  """See `Family`."""

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    padding = attributes.padding_id(config, default=self.pad_id)
    attributes.check_allowed(self.kind, "pad_token_id", padding, (_PADDING,))
    return super().architecture(config)

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    with attributes.counterpart(self.kind):
      bias = model.encoder.position_bias
      found = bias.num_buckets, bias.max_distance
      epsilon = model.encoder.layer.norm.epsilon
    if found != (_BUCKETS, _DISTANCE) or model.pad_id != _PADDING:
      raise UserError(
        f"{self.kind} models have {_BUCKETS} buckets up to distance "
        f"{_DISTANCE} and padding {_PADDING}, not {found[0]} up to {found[1]} "
        f"and {model.pad_id}"
      )
    return {**super().config(model), "layer_norm_eps": epsilon}

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    theirs = f"{self.prefix}encoder.relative_attention_bias.weight"
    ours = ("encoder/relpos_bias/rel_embedding",)
    return [*super().links(config), Link(theirs, ours, Transposed())]


FAMILIES = (
  Mpnet(
    kind="mpnet",
    classes="MPNet",
    suffixes=[
      suffix
      for suffix in bert.HEADS
      if suffix not in ("ForPreTraining", "ForNextSentencePrediction")
    ],
    attributes=Attributes(
      defaults={
        **bert.DEFAULTS,
        "vocab_size": 30527,
        "layer_norm_eps": 1e-12,
      },
      optional={bert.HAS_POOLER: bool},
      allowed={
        "is_decoder": (False,),
        "is_encoder_decoder": (False,),
        "relative_attention_num_buckets": (_BUCKETS,),
      },
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
    dropouts={},
    architecture_file="architectures/mpnet.gin",
    pad_id=_PADDING,
    has_types=False,
    tokens_activation="gelu_exact",
    positions_after_padding=True,
  ),
)
