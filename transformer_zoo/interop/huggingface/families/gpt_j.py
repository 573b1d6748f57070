"""GPT-J (`gptj`).

Differences to ours: PyTorch keeps a matrix as (out, in); a block's attention
and feed-forward network read one norm, as `connections.parallel` has it.
Source: `models/gptj` of `transformers`.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.families import gpt
from transformer_zoo.interop.huggingface.family import LanguageModel


def _untied(found: Mapping[str, Any]) -> dict[str, Any]:
  """No binding: the softmax has a bias, and never the table of embeddings."""
  name = "tie_word_embeddings"
  attributes.check_allowed("gptj", name, found[name], (False,))
  return {}


_ATTRIBUTES = gpt.OF_GPT_2.changed(
  Attribute("n_positions", 2048, spellings=("max_position_embeddings",)),
  dataclasses.replace(gpt.OF_GPT_2["n_head"], of=attributes.dividing("n_embd")),
  Attribute(
    "rotary_dim",
    64,
    "Rotary.rotated",
    lambda parts: parts.attention.rotary.rotated or parts.attention.head_dim,
  ),
  Attribute("tie_word_embeddings", False, _untied, lambda parts: False),
  without=("scale_attn_weights", "scale_attn_by_inverse_layer_idx"),
  without_effect=("rotary",),
  vocab_size=50400,
  n_embd=4096,
  n_layer=28,
  n_head=16,
  resid_pdrop=0.0,
  embd_pdrop=0.0,
  attn_pdrop=0.0,
)


FAMILIES = (
  LanguageModel(
    kind="gptj",
    attributes=_ATTRIBUTES,
    prefix="transformer.",
    ignored=(
      r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias|embed_positions)",
    ),
    architecture_file="architectures/gpt_j.gin",
    layer_counts=("n_layer",),
    written={"architectures": ["GPTJForCausalLM"]},
    outside={
      "token_embedder/embedding": "wte",
      "decoder/decoder_norm": "ln_f",
    },
    layer_list="h",
    layer={
      "pre_layer_norm": "ln_1",
      "self_attention/query": "attn.q_proj",
      "self_attention/key": "attn.k_proj",
      "self_attention/value": "attn.v_proj",
      "self_attention/out": "attn.out_proj",
      "mlp/wi": "mlp.fc_in",
      "mlp/wo": "mlp.fc_out",
    },
    bindings=dict.fromkeys(
      [f"{name}/Linear.use_bias" for name in ("query", "key", "value", "out")],
      False,
    ),
    has_own_softmax=True,
  ),
)
