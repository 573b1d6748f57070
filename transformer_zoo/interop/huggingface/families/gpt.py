"""GPT (`openai-gpt`) and GPT-2 (`gpt2`); GPT-Neo shares parts of them.

Differences to ours: one matrix, kept as (in, out), makes queries, keys and
values. GPT has GPT-2's blocks with the norms after the sublayers. Source:
`models/openai` and `gpt2` of `transformers`.
"""

from collections.abc import Iterator
import dataclasses

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.family import LanguageModel
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

OF_GPT_2 = Attributes(
  (
    Attribute("vocab_size", 50257, "VOCAB_SIZE"),
    Attribute(
      "n_positions",
      1024,
      "MAX_POSITIONS",
      spellings=("max_position_embeddings",),
    ),
    Attribute("n_embd", 768, "EMBED_DIM", spellings=("hidden_size",)),
    Attribute(
      "n_layer", 12, "NUM_DECODER_LAYERS", spellings=("num_hidden_layers",)
    ),
    attributes.heads(
      "n_head", 12, "n_embd", spellings=("num_attention_heads",)
    ),
    Attribute(
      "n_inner",
      None,
      "MLP_DIM",
      kind=int,
      absent=lambda found: 4 * found["n_embd"],
    ),
    Attribute("activation_function", "gelu_new", "Mlp.activation"),
    Attribute("resid_pdrop", 0.1, "DROPOUT_RATE"),
    Attribute("embd_pdrop", 0.1, "embedding/Dropout.rate"),
    Attribute("attn_pdrop", 0.1, "attention/Dropout.rate"),
    Attribute("layer_norm_epsilon", 1e-5, "LayerNorm.epsilon"),
    Attribute("scale_attn_weights", True, "Attention.scale_scores"),
    Attribute(
      "scale_attn_by_inverse_layer_idx", False, "ScoreScales.divide_by_depth"
    ),
    Attribute("tie_word_embeddings", True, of=attributes.tied),
    attributes.padding("DecoderOnly.pad_id"),
  ),
  allowed={"is_encoder_decoder": (False,)},
  # Those of other heads than the language model's, and of old versions; the
  # last is a choice of precision.
  without_effect=(
    "classifier_dropout n_ctx n_special predict_special_tokens "
    "summary_activation summary_first_dropout summary_last_dropout "
    "summary_proj_to_labels summary_type summary_use_proj "
    "reorder_and_upcast_attn"
  ).split(),
)
_OF_GPT_1 = OF_GPT_2.changed(
  # The feed-forward network is always four times as wide, which nothing says.
  dataclasses.replace(
    OF_GPT_2["n_embd"],
    bound=lambda found: {
      "EMBED_DIM": found["n_embd"],
      "MLP_DIM": 4 * found["n_embd"],
    },
    of="tokens.features",
  ),
  Attribute(
    "afn",
    "gelu",
    "Mlp.activation",
    "mlp.activation",
    # Here, "gelu" has always been the tanh form.
    values={"gelu": "gelu", "relu": "relu", "silu": "silu", "swish": "silu"},
  ),
  without=(
    *("n_inner", "activation_function"),
    *("scale_attn_weights", "scale_attn_by_inverse_layer_idx"),
  ),
  vocab_size=40478,
  n_positions=512,
)


class _Gpt(LanguageModel):
  """See `LanguageModel`."""

  def links_inside(self, found, theirs, ours) -> Iterator[Link]:
    """See `Family`; every map is a `Conv1D`, also a map of one part."""
    del found
    for name, parts in _MAPS.items():
      yield from links_lib.conv1d(
        f"{theirs}{name}", [f"{ours}{part}" for part in parts]
      )


_MAPS = {
  "attn.c_attn": [f"self_attention/{p}" for p in ("query", "key", "value")],
  "attn.c_proj": ["self_attention/out"],
  "mlp.c_fc": ["mlp/wi"],
  "mlp.c_proj": ["mlp/wo"],
}
FAMILIES = (
  _Gpt(
    kind="openai-gpt",
    prefix="transformer.",
    layer_counts=("n_layer",),
    attributes=_OF_GPT_1,
    ignored=(
      r"(transformer\.)?h\.\d+\.attn\.bias",
      r"(transformer\.)?position_ids",
    ),
    architecture_file="architectures/gpt_1.gin",
    written={"architectures": ["OpenAIGPTLMHeadModel"]},
    outside={
      "token_embedder/embedding": "tokens_embed",
      "decoder/position_embedder/pos_embedding": "positions_embed",
    },
    layer_list="h",
    layer={
      "post_self_attention_layer_norm": "ln_1",
      "post_mlp_layer_norm": "ln_2",
    },
  ),
  _Gpt(
    kind="gpt2",
    prefix="transformer.",
    layer_counts=("n_layer",),
    attributes=OF_GPT_2,
    ignored=(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",),
    architecture_file="architectures/gpt_2.gin",
    written={"architectures": ["GPT2LMHeadModel"]},
    outside={
      "token_embedder/embedding": "wte",
      "decoder/position_embedder/pos_embedding": "wpe",
      "decoder/decoder_norm": "ln_f",
    },
    layer_list="h",
    layer={
      "pre_self_attention_layer_norm": "ln_1",
      "pre_mlp_layer_norm": "ln_2",
    },
  ),
)
