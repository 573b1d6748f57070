"""GPT-2 (`gpt2`).

Differences to ours: one matrix, kept as (in, out), makes queries, keys and
values. Source: `models/gpt2` of `transformers`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from flax import linen as nn

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import gpt
from transformer_zoo.interop.huggingface import pytorch_modules
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.interop.tensors.links import Link

_ATTRIBUTES = attributes.Attributes(
  defaults={
    **gpt.DEFAULTS,
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_inner": None,  # four times n_embd
    "activation_function": "gelu_new",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
  },
  allowed={"is_encoder_decoder": (False,)},
  optional={"n_inner": int},
  # The last is a choice of precision.
  without_effect=[*gpt.WITHOUT_EFFECT, "reorder_and_upcast_attn"],
  renamed=gpt.RENAMED,
)
_NORMS = ("pre_self_attention_layer_norm", "pre_mlp_layer_norm")


class Gpt2:
  """See `Family`."""

  model_types = ("gpt2",)
  ignored = (r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",)
  prefix = "transformer."
  settle = staticmethod(gpt.settle)

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    return gpt.aliases(config, "transformer.wte.weight")

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return _ATTRIBUTES.read(config)["n_layer"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found = _ATTRIBUTES.read(config)
    activation = attributes.activation(
      "gpt2", "activation_function", found["activation_function"]
    )
    return Architecture(
      gpt.gin_files("gpt_2", found),
      {
        **gpt.bindings(found, config, activation),
        "Attention.scale_scores": found["scale_attn_weights"],
        "Stack.divide_scores_by_depth": found[
          "scale_attn_by_inverse_layer_idx"
        ],
      },
    )

  @attributes.counterpart("gpt2")
  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    stack = model.decoder.stack
    layer = stack.layer
    return {
      "architectures": ["GPT2LMHeadModel"],
      "model_type": "gpt2",
      **gpt.attributes_of(model),
      "activation_function": attributes.their_activation(
        "gpt2", layer.mlp.activation
      ),
      "scale_attn_weights": layer.self_attention.scale_scores,
      "scale_attn_by_inverse_layer_idx": stack.divide_scores_by_depth,
    }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = _ATTRIBUTES.read(config)
    links = [
      Link("transformer.wte.weight", ("token_embedder/embedding",)),
      Link(
        "transformer.wpe.weight", ("decoder/position_embedder/pos_embedding",)
      ),
      *pytorch_modules.layer_norm("transformer.ln_f", "decoder/decoder_norm"),
    ]
    for layer in range(found["n_layer"]):
      links += block(layer, norms=_NORMS)
    return [*links, *gpt.head(found)]


def block(layer: int, *, norms: tuple[str, str]) -> Iterator[Link]:
  """A block of GPT-1 or GPT-2, whose norms stand at different places."""
  theirs, ours = f"transformer.h.{layer}", f"decoder/layers_{layer}"
  for index, norm in enumerate(norms, 1):
    yield from pytorch_modules.layer_norm(
      f"{theirs}.ln_{index}", f"{ours}/{norm}"
    )
  attention = f"{ours}/self_attention"
  for name, parts in {
    "attn.c_attn": [
      f"{attention}/{part}" for part in ("query", "key", "value")
    ],
    "attn.c_proj": [f"{attention}/out"],
    "mlp.c_fc": [f"{ours}/mlp/wi"],
    "mlp.c_proj": [f"{ours}/mlp/wo"],
  }.items():
    yield from pytorch_modules.conv1d(f"{theirs}.{name}", parts)
