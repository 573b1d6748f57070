"""Classes of `transformers` that are our language model with other parts.

A class is its configuration, made from one of our models, and where its modules
have our parameters: their name, ours, and a layout where it is not the usual.
"""

import dataclasses

import numpy as np
import transformers

from tests import tiny_models
from transformer_zoo.tensors.links import HeadByHead
from transformer_zoo.tensors.links import SideBySide

D, V, LAYERS = (
  tiny_models.TINY[name]
  for name in ("EMBED_DIM", "VOCAB_SIZE", "NUM_DECODER_LAYERS")
)


@dataclasses.dataclass(frozen=True)
class OneBehindAnother:
  """Matrices of several sizes in one, as (out, in)."""

  sizes: tuple[int, ...]

  def join(self, ours):
    return np.concatenate([part.T for part in ours])

  def split(self, theirs):
    return [part.T for part in np.split(theirs, np.cumsum(self.sizes)[:-1])]


LAYER = "decoder/layers_{}/"
ATTENTION = LAYER + "self_attention/"
QKV = tuple(ATTENTION + name for name in ("query", "key", "value"))


def _attention(model):
  return model.decoder.transformer.layer_stack.layer.self_attention


def _bloom(model):
  heads = _attention(model).num_heads
  config = transformers.BloomConfig(
    vocab_size=V, hidden_size=D, n_layer=LAYERS, n_head=heads
  )
  block = "transformer.h.{}."
  return config, (
    ("transformer.word_embeddings", "token_embedder", None),
    ("transformer.word_embeddings_layernorm", "decoder/input_norm", None),
    ("transformer.ln_f", "decoder/decoder_norm", None),
    (block + "input_layernorm", LAYER + "pre_self_attention_layer_norm", None),
    (block + "self_attention.query_key_value", QKV, HeadByHead(heads)),
    (block + "self_attention.dense", ATTENTION + "out", None),
    (block + "post_attention_layernorm", LAYER + "pre_mlp_layer_norm", None),
    (block + "mlp.dense_h_to_4h", LAYER + "mlp/wi", None),
    (block + "mlp.dense_4h_to_h", LAYER + "mlp/wo", None),
  )


def _mpt(model):
  config = transformers.MptConfig(
    vocab_size=V,
    d_model=D,
    n_layers=LAYERS,
    n_heads=_attention(model).num_heads,
    max_seq_len=64,
  )
  block = "transformer.blocks.{}."
  return config, (
    ("transformer.wte", "token_embedder", None),
    ("transformer.norm_f", "decoder/decoder_norm", None),
    (block + "norm_1", LAYER + "pre_self_attention_layer_norm", None),
    (block + "attn.Wqkv", QKV, SideBySide(3, axis=0, transposed=True)),
    (block + "attn.out_proj", ATTENTION + "out", None),
    (block + "norm_2", LAYER + "pre_mlp_layer_norm", None),
    (block + "ffn.up_proj", LAYER + "mlp/wi", None),
    (block + "ffn.down_proj", LAYER + "mlp/wo", None),
  )


def _gpt_j(model):
  config = transformers.GPTJConfig(
    vocab_size=V,
    n_embd=D,
    n_layer=LAYERS,
    n_head=_attention(model).num_heads,
    n_inner=model.decoder.transformer.layer_stack.layer.mlp.d_ff,
    n_positions=64,
    rotary_dim=_attention(model).rotary.rotated,
  )
  block = "transformer.h.{}."
  return config, (
    ("transformer.wte", "token_embedder", None),
    ("transformer.ln_f", "decoder/decoder_norm", None),
    ("lm_head", "decoder/logits_dense", None),
    (block + "ln_1", LAYER + "pre_layer_norm", None),
    (block + "attn.q_proj", ATTENTION + "query", None),
    (block + "attn.k_proj", ATTENTION + "key", None),
    (block + "attn.v_proj", ATTENTION + "value", None),
    (block + "attn.out_proj", ATTENTION + "out", None),
    (block + "mlp.fc_in", LAYER + "mlp/wi", None),
    (block + "mlp.fc_out", LAYER + "mlp/wo", None),
  )


def _gpt_neox(model):
  attention = _attention(model)
  config = transformers.GPTNeoXConfig(
    vocab_size=V,
    hidden_size=D,
    num_hidden_layers=LAYERS,
    num_attention_heads=attention.num_heads,
    intermediate_size=model.decoder.transformer.layer_stack.layer.mlp.d_ff,
    max_position_embeddings=64,
    rope_parameters={
      "rope_type": "default",
      "rope_theta": 10000.0,
      "partial_rotary_factor": attention.rotary.rotated / attention.head_dim,
    },
    hidden_act="gelu",
    tie_word_embeddings=False,
  )
  block = "gpt_neox.layers.{}."
  fused = HeadByHead(attention.num_heads)
  return config, (
    ("gpt_neox.embed_in", "token_embedder", None),
    ("gpt_neox.final_layer_norm", "decoder/decoder_norm", None),
    ("lm_head", "decoder/logits_dense", None),
    (block + "input_layernorm", LAYER + "pre_self_attention_layer_norm", None),
    (block + "attention.query_key_value", QKV, fused),
    (block + "attention.dense", ATTENTION + "out", None),
    (block + "post_attention_layernorm", LAYER + "pre_mlp_layer_norm", None),
    (block + "mlp.dense_h_to_4h", LAYER + "mlp/wi", None),
    (block + "mlp.dense_4h_to_h", LAYER + "mlp/wo", None),
  )


def _falcon(model):
  attention = _attention(model)
  config = transformers.FalconConfig(
    vocab_size=V,
    hidden_size=D,
    num_hidden_layers=LAYERS,
    num_attention_heads=attention.num_heads,
    max_position_embeddings=64,
  )
  block = "transformer.h.{}."
  size = attention.head_dim
  fused = OneBehindAnother((attention.num_heads * size, size, size))
  return config, (
    ("transformer.word_embeddings", "token_embedder", None),
    ("transformer.ln_f", "decoder/decoder_norm", None),
    (block + "input_layernorm", LAYER + "pre_layer_norm", None),
    (block + "self_attention.query_key_value", QKV, fused),
    (block + "self_attention.dense", ATTENTION + "out", None),
    (block + "mlp.dense_h_to_4h", LAYER + "mlp/wi", None),
    (block + "mlp.dense_4h_to_h", LAYER + "mlp/wo", None),
  )


def _llama_like(kind, model, norms, **settings):
  """Classes that have LLaMA's modules but for their norms."""
  attention = _attention(model)
  config = kind(
    vocab_size=V,
    hidden_size=D,
    num_hidden_layers=LAYERS,
    num_attention_heads=attention.num_heads,
    num_key_value_heads=attention.num_kv_heads,
    intermediate_size=model.decoder.transformer.layer_stack.layer.mlp.d_ff,
    max_position_embeddings=64,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    pad_token_id=None,
    **settings,
  )
  block = "model.layers.{}."
  projections = {"q": "query", "k": "key", "v": "value", "o": "out"}
  matrices = {"gate": "wi_0", "up": "wi_1", "down": "wo"}
  return config, (
    ("model.embed_tokens", "token_embedder", None),
    ("model.norm", "decoder/decoder_norm", None),
    ("lm_head", "decoder/logits_dense", None),
    *(
      (f"{block}self_attn.{theirs}_proj", ATTENTION + ours, None)
      for theirs, ours in projections.items()
    ),
    *(
      (f"{block}mlp.{theirs}_proj", f"{LAYER}mlp/{ours}", None)
      for theirs, ours in matrices.items()
    ),
    *((block + theirs, LAYER + ours, None) for theirs, ours in norms.items()),
  )


def _cohere(model):
  return _llama_like(
    transformers.CohereConfig,
    model,
    {"input_layernorm": "pre_layer_norm"},
    logit_scale=1.0,
    eos_token_id=1,
  )


CLASSES = {
  "bloom": _bloom,
  "mpt": _mpt,
  "gpt_j": _gpt_j,
  "gpt_neox": _gpt_neox,
  "falcon": _falcon,
  "cohere": _cohere,
}
