"""Gemma 2 (`gemma2`) and the decoder of texts of Gemma 3 (`gemma3_text`).

Layers see the last tokens alone or all of them. In Gemma 3 the former have
frequencies of their own, which old files name `rope_local_base_freq`, new ones
in `rope_parameters`. Source: `models/gemma2` and `gemma3` of `transformers`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.families import llama
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.interop.huggingface.parts import Parts

_GLOBAL, _LOCAL = "full_attention", "sliding_attention"
_THETAS = {_GLOBAL: 1e6, _LOCAL: 1e4}
_PATTERN = "sliding_window_pattern"
_EPSILON = "ZeroCentredRMSNorm.epsilon"


def windows(found: Mapping[str, Any]) -> dict[str, attributes.Windows]:
  """The bindings of `Windows`, of layers that see the last tokens or all."""
  kind, number = found["model_type"], found["num_hidden_layers"]
  width, every = found["sliding_window"], found.get(_PATTERN, 2)
  kinds = found["layer_types"] or [
    _LOCAL if (index + 1) % every else _GLOBAL for index in range(number)
  ]
  llama.check_layer_types(found, kinds, (_LOCAL, _GLOBAL))
  if _LOCAL in kinds:
    attributes.check_type(kind, "sliding_window", width, int)
  banded = [name == _LOCAL for name in kinds]
  return {"Windows.sizes": attributes.windows_of_layers(banded, width)}


def _cap_of_scores(found: Mapping[str, Any]) -> dict[str, Any]:
  if (cap := found["attn_logit_softcapping"]) is None:
    return {"Attention.context": None}
  return {"SoftCappedScores.cap": cap}


def _cap_of_logits(found: Mapping[str, Any]) -> dict[str, Any]:
  if (cap := found["final_logit_softcapping"]) is None:
    return {}
  softmax = "TiedLogits" if found["tie_word_embeddings"] else "LinearLogits"
  return {
    "Decoder.head": Reference("@SoftCappedLogits()"),
    "SoftCappedLogits.softmax": Reference(f"@{softmax}()"),
    "SoftCappedLogits.cap": cap,
  }


def _rotary_by_layer(found: Mapping[str, Any]) -> dict[str, Any]:
  """The bindings of `Rotary`, of layers that see all and of the others."""
  kind, tables = found["model_type"], found["rope_parameters"] or {}
  for name, table in tables.items():
    attributes.check_allowed(kind, "rope_parameters", name, _THETAS)
    attributes.check_type(kind, name, table, dict)
  bound = llama.rotary_bindings(
    {**found, "rope_parameters": tables.get(_GLOBAL)}, _THETAS[_GLOBAL]
  )
  return {**bound, "Rotary.local_theta": _near(found, tables.get(_LOCAL) or {})}


def _near(found: Mapping[str, Any], table: Mapping[str, Any]) -> float:
  """The base of the frequencies of layers that see the last tokens alone."""
  kind, theta = found["model_type"], found["rope_local_base_freq"]
  for name in table:
    attributes.check_allowed(
      kind, f"attribute of {_LOCAL}", name, ("rope_theta", "rope_type")
    )
  turns = table.get("rope_type", "default")
  attributes.check_allowed(kind, f"{_LOCAL} rope_type", turns, ("default",))
  if "rope_theta" in table:
    given = table["rope_theta"]
    attributes.check_type(kind, "rope_theta", given, float)
    if theta not in (None, given):
      attributes.check_allowed(kind, "rope_local_base_freq", theta, (given,))
    theta = float(given)
  return _THETAS[_LOCAL] if theta is None else theta


def _local_theta(parts: Parts) -> float:
  rotary = parts.attention.rotary
  return rotary.theta if rotary.local_theta is None else rotary.local_theta


def _rope_parameters(parts: Parts) -> dict[str, Any]:
  return {
    _GLOBAL: llama.rope_parameters(parts),
    _LOCAL: {"rope_type": "default", "rope_theta": _local_theta(parts)},
  }


def _cap_of(part: str) -> Callable[[Parts], float | None]:
  """`Attribute.of` the bound of a part, None without one."""

  def of(parts):
    whole = parts.softmax if part == "softmax" else parts.attention.context
    return getattr(whole, "cap", None)

  return of


OF_GEMMA_2 = llama.OF_LLAMA.changed(
  Attribute("head_dim", 256, "HEAD_DIM"),
  Attribute("hidden_activation", "gelu_pytorch_tanh", "GatedMlp.activation"),
  Attribute("rms_norm_eps", 1e-6, _EPSILON, "layer.norm.epsilon"),
  Attribute(
    "query_pre_attn_scalar",
    256,
    "Attention.scale_size",
    lambda parts: parts.attention.scale_size or parts.attention.head_dim,
  ),
  Attribute(
    "attn_logit_softcapping",
    50.0,
    _cap_of_scores,
    _cap_of("scores"),
    kind=float,
  ),
  Attribute(
    "final_logit_softcapping",
    30.0,
    _cap_of_logits,
    _cap_of("softmax"),
    kind=float,
  ),
  Attribute("layer_types", None, windows, llama.layer_types, kind=list),
  Attribute("sliding_window", 4096, of=llama.window, kind=int),
  attributes.padding("DecoderOnly.pad_id", 0),
  without=("hidden_act", "mlp_bias"),
  allowed={"use_bidirectional_attention": (None, False), _PATTERN: (2,)},
  # Published beside `hidden_activation`, which is read.
  without_effect=("hidden_act",),
  vocab_size=256000,
  hidden_size=2304,
  intermediate_size=9216,
  num_hidden_layers=26,
  num_attention_heads=8,
  num_key_value_heads=4,
  max_position_embeddings=8192,
  tie_word_embeddings=True,
)
OF_GEMMA_3 = OF_GEMMA_2.changed(
  Attribute(
    "rope_theta", None, _rotary_by_layer, "attention.rotary.theta", kind=float
  ),
  Attribute("rope_local_base_freq", None, of=_local_theta, kind=float),
  Attribute(_PATTERN, 6),
  Attribute("rope_parameters", None, of=_rope_parameters, kind=dict),
  without=("attn_logit_softcapping",),
  allowed={"attn_logit_softcapping": (None,)},
  without_effect=("_sliding_window_pattern",),
  vocab_size=262208,
  max_position_embeddings=131072,
  final_logit_softcapping=None,
)
_LAYER = {
  **llama.PROJECTIONS,
  "pre_self_attention_layer_norm/scale": "input_layernorm",
  "post_self_attention_layer_norm/scale": "post_attention_layernorm",
  "pre_mlp_layer_norm/scale": "pre_feedforward_layernorm",
  "post_mlp_layer_norm/scale": "post_feedforward_layernorm",
}
FAMILIES = (
  llama.family(
    "gemma2",
    "Gemma2ForCausalLM",
    OF_GEMMA_2,
    llama.NO_BIASES,
    architecture="gemma2",
    layer=_LAYER,
  ),
  llama.family(
    "gemma3_text",
    "Gemma3ForCausalLM",
    OF_GEMMA_3,
    llama.NO_BIASES,
    architecture="gemma3",
    layer={**_LAYER, **llama.NORMS_OF_HEADS},
  ),
)
