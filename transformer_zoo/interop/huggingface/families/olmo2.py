"""OLMo 2 (`olmo2`): Llama with norms behind its sublayers.

Queries and keys are normalized too, over all heads together. Source:
`models/olmo2` of `transformers`.
"""

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.families import llama

_ATTRIBUTES = llama.OF_LLAMA.changed(
  Attribute("num_attention_heads", 32, "NUM_HEADS"),
  Attribute(
    "rms_norm_eps",
    1e-5,
    ("RMSNorm.epsilon", "RMSNormOfAllHeads.epsilon"),
    "layer.norm.epsilon",
  ),
  attributes.padding("DecoderOnly.pad_id", 1),
  without=("mlp_bias",),
  allowed={"mlp_bias": (False,), "clip_qkv": (None,)},
  vocab_size=50304,
)
FAMILIES = (
  llama.family(
    "olmo2",
    "Olmo2ForCausalLM",
    _ATTRIBUTES,
    llama.NO_BIASES,
    ("PreTrainedTokenizerFast",),
    architecture="olmo2",
    layer={
      **llama.PROJECTIONS,
      **llama.NORMS_OF_HEADS,
      "post_self_attention_layer_norm/scale": "post_attention_layernorm",
      "post_mlp_layer_norm/scale": "post_feedforward_layernorm",
    },
  ),
)
