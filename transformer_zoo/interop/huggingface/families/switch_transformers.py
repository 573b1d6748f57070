"""Switch Transformers (`switch_transformers`): T5 with experts in some layers.

Of theirs, an expert has a tensor for each matrix, and `expert_capacity` places
in every row, whatever the length. Padding takes places there, behind the
tokens of a row. Source: `models/switch_transformers` of `transformers`.
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import OMITTED
from transformer_zoo.interop.huggingface.families import t5
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors.links import Link

_KIND = "switch_transformers"


class _Parts(Parts):
  """The parts of a model some of whose layers have experts."""

  @property
  def experts(self) -> nn.Module:
    """The experts of the layers that have them."""
    layer = getattr(self.stack, "other_layer", None) or self.layer
    if type(layer.mlp).__name__ != "Experts":
      raise UserError(
        f"{_KIND} models have experts; name parts/feed_forward/switch.gin"
      )
    return layer.mlp

  @property
  def router(self) -> nn.Module:
    """The router of these layers."""
    router = self.experts.router
    if type(router).__name__ != "SwitchRouter":
      raise UserError(f"{_KIND} models send a token to one expert")
    if router.capacity_factor or router.evaluation_capacity_factor:
      raise UserError(
        f"{_KIND} models have a fixed number of places in each expert; set "
        "CAPACITY_FACTOR and EVALUATION_CAPACITY_FACTOR to 0 and "
        "SwitchRouter.min_capacity to it"
      )
    return router

  @property
  def mlp(self) -> nn.Module:
    """The network of the other layers, and of each expert."""
    expert = self.experts.expert
    if self.layer.mlp not in (expert, self.experts):
      raise UserError(
        f"{_KIND} models have experts like the networks of other layers"
      )
    return expert

  @property
  def num_sparse(self) -> int:
    """The number that gives their class experts in the same layers."""
    number = self.stack.num_layers
    places = getattr(self.stack, "places", tuple(range(number)))
    for count in (len(places), *range(1, number + 1)):
      if _places(number, number // count) == places:
        return count
    raise UserError(
      f"{_KIND} models have experts in every so many layers, from the second "
      f"on, and not in {places}"
    )


def _places(number: int, step: int) -> tuple[int, ...]:
  """The numbers of the layers that have experts."""
  return tuple(range(1, number, step)) if step > 1 else tuple(range(number))


def _places_of(found: Mapping[str, Any], side: str) -> tuple[int, ...]:
  number = found["num_layers" if side == "encoder" else "num_decoder_layers"]
  return _places(number, found[f"{side}_sparse_step"])


def _scale(parts: Parts) -> object:
  if parts.softmax.scale_by_depth != (
    type(parts.softmax).__name__ == "TiedLogits"
  ):
    raise UserError(
      f"{_KIND} models scale the output before a tied softmax and no other"
    )
  return OMITTED


def _step(side: str, layers: str) -> Attribute:
  """The row of the distance of layers with experts, which is not written."""
  return Attribute(
    f"{side}_sparse_step",
    None,
    lambda found: {f"{side}/with_other_mlp.places": _places_of(found, side)},
    kind=int,
    absent=lambda found: found[layers] // found[f"num_sparse_{side}_layers"],
  )


_ATTRIBUTES = t5.ATTRIBUTES.changed(
  Attribute("dense_act_fn", "relu", "Mlp.activation"),
  dataclasses.replace(t5.ATTRIBUTES["scale_decoder_outputs"], of=_scale),
  Attribute(
    "num_experts", 8, "NUM_EXPERTS", lambda parts: parts.router.num_experts
  ),
  Attribute(
    "expert_capacity",
    64,
    "SwitchRouter.min_capacity",
    lambda parts: parts.router.min_capacity,
  ),
  Attribute(
    "router_jitter_noise",
    0.01,
    "SwitchRouter.jitter",
    lambda parts: parts.router.jitter,
  ),
  Attribute(
    "router_z_loss_coef",
    0.001,
    "ROUTER_Z_LOSS",
    lambda parts: parts.router.z_loss,
  ),
  Attribute(
    "router_aux_loss_coef",
    0.001,
    "SwitchRouter.load_balancing",
    lambda parts: parts.router.load_balancing,
  ),
  Attribute(
    "num_sparse_encoder_layers", 3, of=lambda parts: parts.encoder.num_sparse
  ),
  Attribute("num_sparse_decoder_layers", 3, of=lambda parts: parts.num_sparse),
  _step("encoder", "num_layers"),
  _step("decoder", "num_decoder_layers"),
  without=("feed_forward_proj", "is_gated_act"),
  allowed={
    "batch_prioritized_routing": (False,),
    "feed_forward_proj": ("relu",),
    "is_gated_act": (False,),
    "num_selected_experts": (1,),
    "router_bias": (False,),
    "router_dtype": ("float32",),
    "router_ignore_padding_tokens": (False,),
    "router_type": ("tokens_masked",),
  },
  without_effect=("add_router_probs", "capacity_factor"),
  d_model=768,
  num_layers=12,
  num_heads=12,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SwitchTransformers(t5.T5):
  """See `T5`."""

  def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    return self.attributes.read(config)

  def parts_of(self, model: nn.Module) -> Parts:
    """See `Family`."""
    return _Parts(model, self.side, self.kind)

  def gin_files(self, found: Mapping[str, Any]) -> Sequence[str]:
    """See `Family`."""
    softmax = "tied" if found["tie_word_embeddings"] else "untied"
    return (
      "architectures/t5_1_0.gin",
      "parts/feed_forward/switch.gin",
      f"parts/softmax/{softmax}.gin",
    )

  def links_of_mlp(
    self,
    found: Mapping[str, Any],
    side: str,
    layer: int,
    theirs: str,
    ours: str,
  ) -> Iterator[Link]:
    """See `T5`."""
    theirs = f"{theirs}.mlp"
    if layer not in _places_of(found, side):
      for matrix in ("wi", "wo"):
        yield t5.matrix_link(
          f"{theirs}.{matrix}.weight", f"{ours}/{matrix}/kernel"
        )
      return
    yield t5.matrix_link(
      f"{theirs}.router.classifier.weight", f"{ours}/router/logits/kernel"
    )
    for matrix in ("wi", "wo"):
      for expert in range(found["num_experts"]):
        yield t5.matrix_link(
          f"{theirs}.experts.expert_{expert}.{matrix}.weight",
          f"{ours}/expert/{matrix}/kernel[{expert}]",
        )


FAMILIES = (
  SwitchTransformers(
    kind=_KIND,
    attributes=_ATTRIBUTES,
    layer_counts=("num_layers", "num_decoder_layers"),
    ignored=t5.IGNORED,
    bindings={
      "CAPACITY_FACTOR": 0.0,
      "EVALUATION_CAPACITY_FACTOR": 0.0,
      "EXPERTS_EVERY": None,
    },
    written={
      "architectures": ["SwitchTransformersForConditionalGeneration"],
      "is_encoder_decoder": True,
    },
  ),
)
