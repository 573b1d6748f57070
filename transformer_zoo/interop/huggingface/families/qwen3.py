"""Qwen 3 (`qwen3`): Qwen 2 with normalized queries and keys.

Projections have biases if `attention_bias` is true. Source:
`models/qwen3` of `transformers`.
"""

from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.families import llama

_ATTRIBUTES = llama.OF_QWEN_2.changed(
  Attribute("head_dim", 128, "HEAD_DIM"),
  llama.OF_LLAMA["attention_bias"],
  num_key_value_heads=32,
)
FAMILIES = (
  llama.family(
    "qwen3",
    "Qwen3ForCausalLM",
    _ATTRIBUTES,
    llama.NO_BIASES,
    architecture="qwen3",
    layer={**llama.LAYER, **llama.NORMS_OF_HEADS},
  ),
)
