"""LongT5 (`longt5`): T5 whose encoder sees near tokens, and sums of blocks.

The encoder's attention is local or transient global. The bias of the sums lies
in the first block, as that of the tokens does. Theirs counts blocks from the
first place of a row, ours from the first token of a text: the same where
padding comes last. Source: `models/longt5` of `transformers`.
"""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import OMITTED
from transformer_zoo.interop.huggingface.families import t5
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors.links import Link

_KIND = "longt5"
_LOCAL, _GLOBAL = "local", "transient-global"
_SUBLAYERS = {
  _LOCAL: "LocalSelfAttention",
  _GLOBAL: "TransientGlobalSelfAttention",
}


class _Parts(Parts):
  """The parts of a model whose encoder sees near tokens."""

  @property
  def radius(self) -> int:
    """The number of tokens that each token of the encoder sees on a side."""
    if (radius := self.encoder.attention.radius) is None:
      raise UserError(
        f"{_KIND} models have an encoder that sees near tokens; set "
        "encoder/Attention.radius"
      )
    if self.attention.radius is not None:
      raise UserError(
        f"{_KIND} models have a decoder that sees all tokens before; leave "
        "decoder/Attention.radius None"
      )
    return radius

  @property
  def summaries(self) -> nn.Module | None:
    """The sums of blocks, None of local attention."""
    summaries = self.encoder.attention.summaries
    if summaries is not None and type(summaries).__name__ != "BlockSums":
      raise UserError(f"{_KIND} models have sums of blocks, BlockSums")
    return summaries

  @property
  def bias(self) -> nn.Module | None:
    """The bias of tokens, which all have in common."""
    bias = super().bias
    of_encoder = self.encoder.transformer.position_bias
    if self.summaries is not None:
      if type(of_encoder).__name__ != "RelativePositionBiasWithSummaries":
        raise UserError(
          f"{_KIND} models have a relative bias of the sums of blocks; bind "
          "encoder/Transformer.position_bias = "
          "@RelativePositionBiasWithSummaries()"
        )
      biases = of_encoder.tokens, of_encoder.summaries
    else:
      biases = (of_encoder,)
    for each in biases:
      if _sizes(each) != _sizes(bias):
        raise UserError(f"{_KIND} models have biases of one size in all stacks")
    return bias


def _sizes(bias: nn.Module | None) -> tuple:
  return type(bias).__name__, *(
    getattr(bias, name, None) for name in ("num_buckets", "max_distance")
  )


def _kind_of_attention(parts: Parts) -> str:
  return _LOCAL if parts.summaries is None else _GLOBAL


def _block(parts: Parts) -> Any:
  return OMITTED if parts.summaries is None else parts.summaries.block


def _blocks_bound(found: Mapping[str, Any]) -> dict[str, int]:
  if found["encoder_attention_type"] == _LOCAL:
    return {}
  return {"GLOBAL_BLOCK": found["global_block_size"]}


_ATTRIBUTES = t5.ATTRIBUTES.changed(
  Attribute(
    "local_radius",
    127,
    "encoder/Attention.radius",
    lambda parts: parts.radius,
    least=0,
  ),
  Attribute("global_block_size", 16, _blocks_bound, _block),
  Attribute("encoder_attention_type", _LOCAL, of=_kind_of_attention),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongT5(t5.T5):
  """See `T5`."""

  def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    found = super().read(config)
    attributes.check_allowed(
      _KIND,
      "encoder_attention_type",
      found["encoder_attention_type"],
      _SUBLAYERS,
    )
    return found

  def parts_of(self, model: nn.Module) -> Parts:
    """See `Family`."""
    return _Parts(model, self.side, self.kind)

  def gin_files(self, found: Mapping[str, Any]) -> Sequence[str]:
    """See `Family`."""
    _, *files = super().gin_files(found)
    files.insert(0, "architectures/longt5.gin")
    if not found["is_gated_act"]:
      files.append("parts/feed_forward/relu.gin")
    if found["encoder_attention_type"] == _GLOBAL:
      files.append("parts/attention/transient_global.gin")
    return files

  def bindings_of(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    bound = super().bindings_of(found)
    return bound if found["is_gated_act"] else {**bound, "MLP_MATRICES": 2}

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`; the names of the encoder's attention are others."""
    found = self.read(config)
    sublayer = _SUBLAYERS[found["encoder_attention_type"]]
    links = [
      dataclasses.replace(
        link,
        theirs=link.theirs.replace("SelfAttention", sublayer)
        if link.theirs.startswith("encoder.")
        else link.theirs,
      )
      for link in super().links(config)
    ]
    if found["encoder_attention_type"] == _LOCAL:
      return links
    theirs = f"encoder.block.{{}}.layer.0.{sublayer}."
    links.append(
      t5.matrix_link(
        theirs.format(0) + "global_relative_attention_bias.weight",
        "encoder/relpos_bias/summaries/rel_embedding",
      )
    )
    for layer in range(found["num_layers"]):
      links.append(
        Link(
          theirs.format(layer) + "global_input_layer_norm.weight",
          (f"encoder/layers_{layer}/attention/summaries/norm/scale",),
        )
      )
    return links


FAMILIES = (
  LongT5(
    kind=_KIND,
    attributes=_ATTRIBUTES,
    layer_counts=("num_layers", "num_decoder_layers"),
    ignored=t5.IGNORED,
    written={
      "architectures": ["LongT5ForConditionalGeneration"],
      "is_encoder_decoder": True,
    },
  ),
)
