"""Llama (`llama`), Mistral (`mistral`) and Qwen 2 (`qwen2`).

Differences to ours: PyTorch keeps a matrix as (out, in). Rotary positions are
described by `rope_theta` and by what stretches them, in old files and in new
ones under other names. Source:
`models/llama`, `mistral` and `qwen2` of `transformers`.
"""

from collections.abc import Collection, Iterator, Mapping
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

_HEAD = "lm_head.weight"
# Old files have the first two, new ones the third.
_ROPE_OPTIONAL = {
  "rope_theta": float,
  "rope_scaling": dict,
  "rope_parameters": dict,
}
_TABLES = ("rope_scaling", "rope_parameters")
_TRAINED = "original_max_position_embeddings"
_THETA = 10000.0
_STRETCHING = ("default", "linear", "llama3")
_KNOWN = (
  "rope_theta rope_type type factor low_freq_factor high_freq_factor "
  "original_max_position_embeddings partial_rotary_factor"
).split()
_DEFAULTS = {
  **dict.fromkeys(_ROPE_OPTIONAL),
  "vocab_size": 32000,
  "hidden_size": 4096,
  "intermediate_size": 11008,
  "num_hidden_layers": 32,
  "max_position_embeddings": 2048,
  "num_attention_heads": 32,
  "num_key_value_heads": None,  # as many as num_attention_heads
  "head_dim": None,  # hidden_size / num_attention_heads
  "hidden_act": "silu",
  "rms_norm_eps": 1e-6,
  "attention_dropout": 0.0,
  "tie_word_embeddings": False,
  "layer_types": None,
}
_OPTIONAL = {
  **_ROPE_OPTIONAL,
  "num_key_value_heads": int,
  "head_dim": int,
  "layer_types": list,
  "sliding_window": int,
  "use_sliding_window": bool,
}
_WITHOUT_EFFECT = (
  # The last cuts the same products into pieces.
  "is_llama_config max_sequence_length transformers.js_config pretraining_tp"
).split()
_ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}
_MLP = {"wi_0": "gate", "wi_1": "up", "wo": "down"}


@dataclasses.dataclass(frozen=True)
class Llama:
  """One `model_type` of the family.

  Attributes:
    model_type: The name of the type: llama, mistral or qwen2.
    class_name: The name of the class with the head.
    defaults: The values of absent attributes in which the types differ.
    allowed: The values by attribute that ask for nothing, of those that the
      class does not read.
  """

  model_type: str
  class_name: str
  defaults: Mapping[str, Any]
  allowed: Mapping[str, tuple]

  ignored = (
    r"(model\.)?(layers\.\d+\.self_attn\.)?rotary_emb\."
    r"(inv_freq|cos_cached|sin_cached)",
  )
  prefix = "model."

  @property
  def model_types(self) -> tuple[str, ...]:
    """See `Family`."""
    return (self.model_type,)

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    return {_HEAD: "model.embed_tokens.weight"} if _says_tied(config) else {}

  def settle(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`."""
    tied = _says_tied(config) and _HEAD not in stored
    return {**config, "tie_word_embeddings": tied}

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return self._read(config)["num_hidden_layers"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found = self._read(config)
    of_qkv, of_out, of_mlp = self._biases(found)
    softmax = "tied" if found["tie_word_embeddings"] else "untied"
    bindings = {
      **_rotary_bindings(self.model_type, found),
      "VOCAB_SIZE": found["vocab_size"],
      "EMBED_DIM": found["hidden_size"],
      "MLP_DIM": found["intermediate_size"],
      "NUM_HEADS": found["num_attention_heads"],
      "NUM_KV_HEADS": found["num_key_value_heads"],
      "HEAD_DIM": found["head_dim"],
      "NUM_DECODER_LAYERS": found["num_hidden_layers"],
      "attention/Dropout.rate": float(found["attention_dropout"]),
      "DecoderOnly.pad_id": attributes.padding_id(config),
      "RMSNorm.epsilon": found["rms_norm_eps"],
      "GatedMlp.activation": attributes.activation(
        self.model_type, "hidden_act", found["hidden_act"]
      ),
      "query/Linear.use_bias": of_qkv,
      "key/Linear.use_bias": of_qkv,
      "value/Linear.use_bias": of_qkv,
      "out/Linear.use_bias": of_out,
      "wi/Linear.use_bias": of_mlp,
      "wo/Linear.use_bias": of_mlp,
      "Stack.windows": self._windows(found),
    }
    return Architecture(
      ("architectures/llama.gin", f"parts/softmax/{softmax}.gin"), bindings
    )

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    with attributes.counterpart(self.model_type):
      stack = model.decoder.stack
      attention, mlp = stack.layer.self_attention, stack.layer.mlp
      head, heads = model.decoder.head, attention.num_heads
      banded, width = attributes.windows_of_stack(self.model_type, stack)
      if self.model_type == "llama":  # Mistral's class has no such check.
        attributes.check_multiple("llama", model.token_embedder.features, heads)
      return {
        "architectures": [self.class_name],
        "model_type": self.model_type,
        "vocab_size": model.token_embedder.num_embeddings,
        "hidden_size": model.token_embedder.features,
        "intermediate_size": mlp.d_ff,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": heads,
        "num_key_value_heads": attention.num_kv_heads or heads,
        "head_dim": attention.head_dim,
        "hidden_act": attributes.their_activation(
          self.model_type, mlp.activation
        ),
        "rms_norm_eps": stack.layer.norm.epsilon,
        "attention_dropout": attention.dropout.rate,
        "tie_word_embeddings": type(head).__name__ == "TiedLogits",
        "pad_token_id": model.pad_id,
        **_rotary_attributes(attention.rotary),
        **{
          "llama": {
            "attention_bias": attention.query.use_bias,
            "mlp_bias": mlp.wo.use_bias,
          },
          "mistral": {"sliding_window": width},
          "qwen2": {
            "use_sliding_window": width is not None,
            "sliding_window": width,
            "layer_types": [_LAYER_TYPES[b] for b in banded],
          },
        }[self.model_type],
      }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = self._read(config)
    links = [
      Link("model.embed_tokens.weight", ("token_embedder/embedding",)),
      Link("model.norm.weight", ("decoder/decoder_norm/scale",)),
    ]
    for layer in range(found["num_hidden_layers"]):
      links += self._layer(layer, found)
    if not found["tie_word_embeddings"]:
      links += links_lib.linear("lm_head", "decoder/logits_dense", bias=False)
    return links

  def _layer(self, layer: int, found: Mapping[str, Any]) -> Iterator[Link]:
    theirs, ours = f"model.layers.{layer}", f"decoder/layers_{layer}"
    for norm, sublayer in (
      ("input_layernorm", "self_attention"),
      ("post_attention_layernorm", "mlp"),
    ):
      yield Link(
        f"{theirs}.{norm}.weight", (f"{ours}/pre_{sublayer}_layer_norm/scale",)
      )
    of_qkv, of_out, of_mlp = self._biases(found)
    for part, letter in _ATTENTION.items():
      yield from links_lib.linear(
        f"{theirs}.self_attn.{letter}_proj",
        f"{ours}/self_attention/{part}",
        bias=of_out if part == "out" else of_qkv,
      )
    for part, name in _MLP.items():
      yield from links_lib.linear(
        f"{theirs}.mlp.{name}_proj", f"{ours}/mlp/{part}", bias=of_mlp
      )

  def _read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, with those filled in that follow from others."""
    found = attributes.Attributes(
      defaults={**_DEFAULTS, **self.defaults},
      allowed={
        "is_encoder_decoder": (False,),
        "rope_interleaved": (False,),
        "use_mrope": (False,),
        **self.allowed,
      },
      optional=_OPTIONAL,
      may_be_zero=("max_window_layers",),
      without_effect=_WITHOUT_EFFECT,
    ).read(config)
    heads = found["num_attention_heads"]
    found["num_key_value_heads"] = found["num_key_value_heads"] or heads
    found["head_dim"] = found["head_dim"] or found["hidden_size"] // heads
    return found

  def _biases(self, found: Mapping[str, Any]) -> tuple[bool, bool, bool]:
    """Whether there are those of q, k and v, of o, and of the MLP."""
    if self.model_type == "qwen2":
      return True, False, False
    of_attention = found.get("attention_bias", False)
    return of_attention, of_attention, found.get("mlp_bias", False)

  def _windows(self, found: Mapping[str, Any]) -> attributes.Windows:
    width, kinds = found.get("sliding_window"), found["layer_types"]
    layers = range(found["num_hidden_layers"])
    banded = [width is not None for _ in layers]
    known = [_LAYER_TYPES[False]]
    if self.model_type == "qwen2":
      first, known = found["max_window_layers"], [*_LAYER_TYPES.values()]
      kinds = kinds or [_LAYER_TYPES[i >= first] for i in layers]
      banded = [
        found["use_sliding_window"] and kind == _LAYER_TYPES[True]
        for kind in kinds
      ]
    else:
      self._check_width(found)
    for kind in kinds or ():
      attributes.check_allowed(self.model_type, "layer_types", kind, known)
    if kinds is not None and len(kinds) != len(layers):
      raise UserError(
        f"config.json of a {self.model_type} model has num_hidden_layers="
        f"{len(layers)} and {len(kinds)} layer_types; there is one for each"
      )
    return attributes.windows_of_layers(banded, width)

  def _check_width(self, found: Mapping[str, Any]) -> None:
    """Refuses what disagrees with the one attribute that a class reads."""
    width = found.get("sliding_window")
    for name, agrees in {
      "use_sliding_window": (None, width is not None),
      "layer_types": (None,) if width is not None else (found["layer_types"],),
    }.items():
      if found.get(name) not in agrees:
        raise UserError(
          f"config.json of a {self.model_type} model has "
          f"sliding_window={width} and {name}={found[name]!r}, and its class "
          "reads the first alone; remove the second if the first is meant"
        )


def _says_tied(config: Mapping[str, Any]) -> bool:
  return config.get("tie_word_embeddings", _DEFAULTS["tie_word_embeddings"])


def _rotary_bindings(kind: str, found: Mapping[str, Any]) -> dict[str, Any]:
  """The bindings of `Rotary`.

  Args:
    kind: The model_type of the configuration.
    found: The attributes of the configuration.

  Raises:
    UserError: The positions are stretched in a way that is not built here, or
      old and new attributes disagree: `transformers` reads one of them, another
      one in each of its versions.
  """
  tables = [found[name] for name in _TABLES if found[name]]
  thetas = [found["rope_theta"], *(table.get("rope_theta") for table in tables)]
  thetas = [theta for theta in thetas if theta is not None] or [_THETA]
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


def _rotary_attributes(rotary: nn.Module) -> dict[str, Any]:
  """The attributes that a `Rotary` would be read from, old and new."""
  stretching = {"rope_type": "default"}
  if rotary.trained_length is not None:
    fewest, most = rotary.partly_stretched
    stretching = {
      "rope_type": "llama3",
      "factor": rotary.stretch,
      "low_freq_factor": fewest,
      "high_freq_factor": most,
      "original_max_position_embeddings": rotary.trained_length,
    }
  elif rotary.stretch != 1.0:
    stretching = {"rope_type": "linear", "factor": rotary.stretch}
  return {
    "rope_theta": rotary.theta,
    "rope_scaling": None if len(stretching) == 1 else stretching,
    "rope_parameters": {**stretching, "rope_theta": rotary.theta},
  }


_LAYER_TYPES = {True: "sliding_attention", False: "full_attention"}
FAMILIES = (
  Llama(
    "llama",
    "LlamaForCausalLM",
    {"attention_bias": False, "mlp_bias": False},
    {"sliding_window": (None,), "use_sliding_window": (False,)},
  ),
  Llama(
    "mistral",
    "MistralForCausalLM",
    {
      "intermediate_size": 14336,
      "num_key_value_heads": 8,
      "use_sliding_window": None,
      "sliding_window": 4096,
    },
    {"attention_bias": (False,), "mlp_bias": (False,)},
  ),
  Llama(
    "qwen2",
    "Qwen2ForCausalLM",
    {
      "vocab_size": 151936,
      "intermediate_size": 22016,
      "use_sliding_window": False,
      "sliding_window": 4096,
      "max_window_layers": 28,
    },
    {"attention_bias": (False,), "mlp_bias": (False,)},
  ),
)
