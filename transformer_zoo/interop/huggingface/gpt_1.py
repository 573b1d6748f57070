"""GPT (`openai-gpt`).

Differences to ours: those of GPT-2, whose blocks it has with the norms after
the sublayers. Source: `models/openai` of `transformers`.
"""

from collections.abc import Mapping
from typing import Any

from flax import linen as nn

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import gpt
from transformer_zoo.interop.huggingface import gpt_2
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.interop.tensors.links import Link

_KIND = "openai-gpt"
_ATTRIBUTES = attributes.Attributes(
  defaults={
    **gpt.DEFAULTS,
    "vocab_size": 40478,
    "n_positions": 512,
    "afn": "gelu",
  },
  allowed={"is_encoder_decoder": (False,)},
  without_effect=gpt.WITHOUT_EFFECT,
  renamed=gpt.RENAMED,
)
# Here, "gelu" has always been the tanh form.
_ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "silu": "silu", "swish": "silu"}
_NORMS = ("post_self_attention_layer_norm", "post_mlp_layer_norm")


class Gpt1:
  """See `Family`."""

  model_types = (_KIND,)
  ignored = (
    r"(transformer\.)?h\.\d+\.attn\.bias",
    r"(transformer\.)?position_ids",
  )
  prefix = "transformer."
  settle = staticmethod(gpt.settle)

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    return gpt.aliases(config, "transformer.tokens_embed.weight")

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return _ATTRIBUTES.read(config)["n_layer"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found = _ATTRIBUTES.read(config)
    attributes.check_allowed(_KIND, "afn", found["afn"], _ACTIVATIONS)
    return Architecture(
      gpt.gin_files("gpt_1", found),
      gpt.bindings(found, config, _ACTIVATIONS[found["afn"]]),
    )

  @attributes.counterpart(_KIND)
  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    found = gpt.attributes_of(model)
    # The width is always four times n_embd, which nothing says.
    del found["n_inner"]
    activation = model.decoder.stack.layer.mlp.activation
    attributes.check_allowed(_KIND, "afn", activation, _ACTIVATIONS)
    return {
      "architectures": ["OpenAIGPTLMHeadModel"],
      "model_type": _KIND,
      **found,
      "afn": activation,
    }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = _ATTRIBUTES.read(config)
    links = [
      Link("transformer.tokens_embed.weight", ("token_embedder/embedding",)),
      Link(
        "transformer.positions_embed.weight",
        ("decoder/position_embedder/pos_embedding",),
      ),
    ]
    for layer in range(found["n_layer"]):
      links += gpt_2.block(layer, norms=_NORMS)
    return [*links, *gpt.head(found)]
