"""Llama (`llama`), Mistral (`mistral`) and Qwen 2 (`qwen2`).

Differences to ours: PyTorch keeps a matrix as (out, in). Rotary positions are
described by `rope_theta` and by what stretches them, in old files and in new
ones under other names. Source:
`models/llama`, `mistral` and `qwen2` of `transformers`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.family import LanguageModel
from transformer_zoo.interop.huggingface.parts import Parts

# Old files have the first of these, new ones the second.
_TABLES = ("rope_scaling", "rope_parameters")
_TRAINED = "original_max_position_embeddings"
_THETA = 10000.0
_STRETCHING = ("default", "linear", "llama3")
_KNOWN = (
  "rope_theta rope_type type factor low_freq_factor high_freq_factor "
  "original_max_position_embeddings partial_rotary_factor"
).split()
_LAYER_TYPES = {True: "sliding_attention", False: "full_attention"}
_QKV = ("query/Linear.use_bias", "key/Linear.use_bias", "value/Linear.use_bias")
_OUT = "out/Linear.use_bias"
_MLP = ("wi/Linear.use_bias", "wo/Linear.use_bias")
NO_BIASES = dict.fromkeys((*_QKV, _OUT, *_MLP), False)


def _windows(found: Mapping[str, Any]) -> dict[str, attributes.Windows]:
  """The windows of Llama and Mistral, whose layers are all alike."""
  width, kinds = found.get("sliding_window"), found["layer_types"]
  for name, agrees in {
    "use_sliding_window": (None, width is not None),
    "layer_types": (None,) if width is not None else (kinds,),
  }.items():
    if found.get(name) not in agrees:
      raise UserError(
        f"config.json of a {found['model_type']} model has "
        f"sliding_window={width} and {name}={found[name]!r}, and its class "
        "reads the first alone; remove the second if the first is meant"
      )
  check_layer_types(found, kinds, [_LAYER_TYPES[False]])
  banded = [width is not None] * found["num_hidden_layers"]
  return {"Windows.sizes": attributes.windows_of_layers(banded, width)}


def _windows_by_layer(
  found: Mapping[str, Any],
) -> dict[str, attributes.Windows]:
  """The windows of Qwen 2, whose first layers see everything."""
  layers, first = range(found["num_hidden_layers"]), found["max_window_layers"]
  kinds = found["layer_types"] or [_LAYER_TYPES[i >= first] for i in layers]
  check_layer_types(found, kinds, [*_LAYER_TYPES.values()])
  banded = [
    found["use_sliding_window"] and kind == _LAYER_TYPES[True] for kind in kinds
  ]
  windows = attributes.windows_of_layers(banded, found["sliding_window"])
  return {"Windows.sizes": windows}


def check_layer_types(
  found: Mapping[str, Any], kinds: Sequence[str] | None, known: Sequence[str]
) -> None:
  """Refuses another number of layers' kinds, or one that is not known."""
  kind, number = found["model_type"], found["num_hidden_layers"]
  for name in kinds or ():
    attributes.check_allowed(kind, "layer_types", name, known)
  if kinds is not None and len(kinds) != number:
    raise UserError(
      f"config.json of a {kind} model has num_hidden_layers={number} and "
      f"{len(kinds)} layer_types; there is one for each"
    )


def window(parts: Parts) -> int | None:
  """`Attribute.of` the number of tokens that layers with a window see."""
  return attributes.bands(parts)[1]


def layer_types(parts: Parts) -> list[str]:
  """`Attribute.of` the kind of each layer."""
  banded, _ = attributes.bands(parts)
  return [_LAYER_TYPES[b] for b in banded]


def _heads_of_llama(parts: Parts) -> int:
  """Mistral's class has no such check."""
  number = parts.attention.num_heads
  attributes.check_multiple(parts.kind, parts.tokens.features, number)
  return number


def rotary_bindings(
  found: Mapping[str, Any], usual: float = _THETA
) -> dict[str, Any]:
  """The bindings of `Rotary`.

  Args:
    found: The attributes of a model.
    usual: The base of the frequencies where none is given.

  Raises:
    UserError: The positions are stretched in a way that is not built here, or
      old and new attributes disagree: `transformers` reads one of them, another
      one in each of its versions.
  """
  kind = found["model_type"]
  tables = [found[name] for name in _TABLES if found[name]]
  thetas = [found["rope_theta"], *(table.get("rope_theta") for table in tables)]
  thetas = [theta for theta in thetas if theta is not None] or [usual]
  for theta in thetas:
    attributes.check_type(kind, "rope_theta", theta, float)
  bound = [
    {"Rotary.theta": float(theta), **_stretching(kind, table, found)}
    for theta in thetas
    for table in tables or [{}]
  ]
  if any(other != bound[0] for other in bound):
    given = {
      name: found[name] for name in ("rope_theta", *_TABLES) if found[name]
    }
    raise UserError(
      f"config.json of a {kind} model says of its rotary positions "
      + " and ".join(f"{name}={value!r}" for name, value in given.items())
      + ", which disagree; leave what the model was trained with"
    )
  return bound[0]


def _stretching(
  kind: str, given: Mapping[str, Any], found: Mapping[str, Any]
) -> dict[str, Any]:
  """The bindings of `Rotary` beside its theta, of one table."""
  for name in given:
    attributes.check_allowed(kind, "rope_parameters' attribute", name, _KNOWN)
  way = given.get("rope_type") or given.get("type") or "default"
  attributes.check_allowed(kind, "rope_type", way, _STRETCHING)
  rotated = given.get("partial_rotary_factor", 1.0)
  attributes.check_allowed(kind, "partial_rotary_factor", rotated, (1.0,))
  if way == "default":
    return {}
  bound = {"Rotary.stretch": float(_number(kind, given, "factor"))}
  if way == "llama3":
    usual = {_TRAINED: found["max_position_embeddings"]}
    bound["Rotary.trained_length"] = _number(kind, usual | {**given}, _TRAINED)
    bound["Rotary.partly_stretched"] = (
      float(_number(kind, given, "low_freq_factor")),
      float(_number(kind, given, "high_freq_factor")),
    )
  return bound


def _number(kind: str, given: Mapping[str, Any], name: str) -> Any:
  if name not in given:
    raise UserError(
      f"config.json of a {kind} model stretches rotary positions and lacks "
      f"their {name!r}"
    )
  attributes.check_type(kind, name, given[name], float)
  return given[name]


def _stretched(rotary: nn.Module) -> dict[str, Any]:
  """How the positions of a `Rotary` are stretched, as a table of theirs."""
  if rotary.trained_length is not None:
    fewest, most = rotary.partly_stretched
    return {
      "rope_type": "llama3",
      "factor": rotary.stretch,
      "low_freq_factor": fewest,
      "high_freq_factor": most,
      "original_max_position_embeddings": rotary.trained_length,
    }
  if rotary.stretch != 1.0:
    return {"rope_type": "linear", "factor": rotary.stretch}
  return {"rope_type": "default"}


def _rope_scaling(parts: Parts) -> dict[str, Any] | None:
  """The table that old versions read."""
  stretching = _stretched(parts.attention.rotary)
  return None if len(stretching) == 1 else stretching


def rope_parameters(parts: Parts) -> dict[str, Any]:
  """The table that new versions read."""
  rotary = parts.attention.rotary
  return {**_stretched(rotary), "rope_theta": rotary.theta}


_COMMON = Attributes(
  (
    Attribute("vocab_size", 32000, "VOCAB_SIZE"),
    Attribute("hidden_size", 4096, "EMBED_DIM"),
    Attribute("intermediate_size", 11008, "MLP_DIM"),
    Attribute("num_hidden_layers", 32, "NUM_DECODER_LAYERS"),
    Attribute("max_position_embeddings", 2048),
    Attribute("num_attention_heads", 32, "NUM_HEADS"),
    Attribute(
      "num_key_value_heads",
      None,
      "NUM_KV_HEADS",
      lambda parts: parts.attention.num_kv_heads or parts.attention.num_heads,
      kind=int,
      absent=lambda found: found["num_attention_heads"],
    ),
    Attribute(
      "head_dim",
      None,
      "HEAD_DIM",
      kind=int,
      absent=lambda f: f["hidden_size"] // f["num_attention_heads"],
    ),
    Attribute("hidden_act", "silu", "GatedMlp.activation"),
    Attribute(
      "rope_theta", None, rotary_bindings, "attention.rotary.theta", kind=float
    ),
    Attribute("rope_scaling", None, of=_rope_scaling, kind=dict),
    Attribute("rope_parameters", None, of=rope_parameters, kind=dict),
    Attribute("rms_norm_eps", 1e-6, "RMSNorm.epsilon"),
    Attribute("attention_dropout", 0.0, "attention/Dropout.rate"),
    Attribute("layer_types", None, _windows, kind=list),
    Attribute("tie_word_embeddings", False, of=attributes.tied),
    attributes.padding("DecoderOnly.pad_id"),
  ),
  allowed={
    "is_encoder_decoder": (False,),
    "rope_interleaved": (False,),
    "use_mrope": (False,),
  },
  without_effect=(
    # The last cuts the same products into pieces.
    "is_llama_config max_sequence_length transformers.js_config pretraining_tp"
  ).split(),
)
OF_LLAMA = _COMMON.changed(
  Attribute("num_attention_heads", 32, "NUM_HEADS", _heads_of_llama),
  Attribute("attention_bias", False, (*_QKV, _OUT), "attention.query.use_bias"),
  Attribute("mlp_bias", False, _MLP, "mlp.wo.use_bias"),
  allowed={"sliding_window": (None,), "use_sliding_window": (False,)},
)
_OF_MISTRAL = _COMMON.changed(
  Attribute("use_sliding_window", None, kind=bool),
  Attribute("sliding_window", 4096, of=window, kind=int),
  allowed={"attention_bias": (False,), "mlp_bias": (False,)},
  intermediate_size=14336,
  num_key_value_heads=8,
)
OF_QWEN_2 = _COMMON.changed(
  Attribute("layer_types", None, _windows_by_layer, layer_types, kind=list),
  Attribute(
    "use_sliding_window",
    False,
    of=lambda parts: window(parts) is not None,
    kind=bool,
  ),
  Attribute("sliding_window", 4096, of=window, kind=int),
  Attribute("max_window_layers", 28, least=0),
  allowed={"attention_bias": (False,), "mlp_bias": (False,)},
  vocab_size=151936,
  intermediate_size=22016,
)

PROJECTIONS = {
  "self_attention/query": "self_attn.q_proj",
  "self_attention/key": "self_attn.k_proj",
  "self_attention/value": "self_attn.v_proj",
  "self_attention/out": "self_attn.o_proj",
  "mlp/wi_0": "mlp.gate_proj",
  "mlp/wi_1": "mlp.up_proj",
  "mlp/wo": "mlp.down_proj",
}
NORMS_OF_HEADS = {
  "self_attention/query_norm/scale": "self_attn.q_norm",
  "self_attention/key_norm/scale": "self_attn.k_norm",
}
LAYER = {
  **PROJECTIONS,
  "pre_self_attention_layer_norm/scale": "input_layernorm",
  "pre_mlp_layer_norm/scale": "post_attention_layernorm",
}


def family(
  kind: str,
  class_name: str,
  attributes: Attributes,
  bindings: Mapping[str, Any],
  tokenizer_classes: Sequence[str] = (),
  *,
  architecture: str = "llama",
  layer: Mapping[str, str] = LAYER,
) -> LanguageModel:
  """Returns a family of Llama's tensors; arguments as of `LanguageModel`."""
  return LanguageModel(
    kind=kind,
    attributes=attributes,
    prefix="model.",
    ignored=(
      r"(model\.)?(layers\.\d+\.self_attn\.)?rotary_emb\."
      r"(inv_freq|cos_cached|sin_cached)",
    ),
    architecture_file=f"architectures/{architecture}.gin",
    bindings=bindings,
    tokenizer_classes=tokenizer_classes,
    written={"architectures": [class_name]},
    outside={
      "token_embedder/embedding": "embed_tokens",
      "decoder/decoder_norm/scale": "norm",
    },
    layer_list="layers",
    layer=layer,
  )


FAMILIES = (
  family("llama", "LlamaForCausalLM", OF_LLAMA, {}),
  family(
    "mistral",
    "MistralForCausalLM",
    _OF_MISTRAL,
    NO_BIASES,
    ("PreTrainedTokenizerFast",),
  ),
  family(
    "qwen2",
    "Qwen2ForCausalLM",
    OF_QWEN_2,
    {**NO_BIASES, **dict.fromkeys(_QKV, True)},
    ("PreTrainedTokenizerFast", "GPT2Tokenizer"),
  ),
)
