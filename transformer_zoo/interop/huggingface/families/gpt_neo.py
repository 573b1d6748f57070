"""GPT-Neo (`gpt_neo`), GPT-3 as EleutherAI built it.

Differences to GPT-3 here: scores are not scaled, and queries, keys and values
have no bias. Source: `models/gpt_neo` of `transformers`.
"""

from collections.abc import Mapping
from typing import Any

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.families import gpt
from transformer_zoo.interop.huggingface.family import LanguageModel
from transformer_zoo.interop.huggingface.parts import Parts

_KIND = "gpt_neo"
_WINDOW = 256
# What `attention_layers` is where config.json does not give it; a list of no
# layers is refused.
_NOT_LISTED: list[str] = []


def _windows(found: Mapping[str, Any]) -> dict[str, attributes.Windows]:
  """The windows of the layers.

  `attention_layers` names the attention of every layer. `transformers` reads it
  where it is given, and `attention_types` elsewhere.
  """
  are_listed = found["attention_layers"] is not _NOT_LISTED
  name = "attention_layers" if are_listed else "attention_types"
  patterns = [(found[name], 1)] if are_listed else _patterns(found[name])
  number = sum(len(pattern) * times for pattern, times in patterns)
  if number != found["n_layer"]:
    raise UserError(
      f"config.json of a {_KIND} model has {name} of {number} layers and "
      f"num_layers={found['n_layer']}; they must agree"
    )
  kinds = [kind for pattern, times in patterns for kind in pattern * times]
  for kind in kinds:
    attributes.check_allowed(_KIND, name, kind, ("global", "local"))
  windows = attributes.windows_of_layers(
    [k == "local" for k in kinds], found["window_size"]
  )
  return {"Windows.sizes": windows}


def _patterns(attention_types: list) -> list[tuple[list, int]]:
  """Checks and returns the parts of `attention_types`."""
  for part in attention_types:
    match part:
      case [[*_], int() as times] if times >= 0:
        pass
      case _:
        raise UserError(
          f"config.json of a {_KIND} model has {part!r} in attention_types; it "
          "takes lists of a list of names and how often they follow each other"
        )
  return [(pattern, times) for pattern, times in attention_types]


def _attention_types(parts: Parts) -> list:
  banded, _ = attributes.bands(parts)
  return [[["local" if b else "global" for b in banded], 1]]


def _window_size(parts: Parts) -> int:
  return attributes.bands(parts)[1] or _WINDOW


_ATTRIBUTES = gpt.OF_GPT_2.changed(
  Attribute(
    "attention_types", [[["global", "local"], 12]], _windows, _attention_types
  ),
  Attribute("attention_layers", _NOT_LISTED),
  Attribute("window_size", _WINDOW, of=_window_size),
  without=("scale_attn_weights", "scale_attn_by_inverse_layer_idx"),
  written={
    "n_positions": "max_position_embeddings",
    "n_embd": "hidden_size",
    "n_layer": "num_layers",
    "n_head": "num_heads",
    "n_inner": "intermediate_size",
    "resid_pdrop": "resid_dropout",
    "embd_pdrop": "embed_dropout",
    "attn_pdrop": "attention_dropout",
  },
  n_positions=2048,
  n_embd=2048,
  n_layer=24,
  n_head=16,
  resid_pdrop=0.0,
  embd_pdrop=0.0,
  attn_pdrop=0.0,
)


FAMILIES = (
  LanguageModel(
    kind=_KIND,
    attributes=_ATTRIBUTES,
    prefix="transformer.",
    ignored=(r"(transformer\.)?h\.\d+\.attn\.attention\.(masked_)?bias",),
    architecture_file="architectures/gpt_3.gin",
    layer_counts=("n_layer",),
    bindings={
      "Attention.scale_scores": False,
      "query/Linear.use_bias": False,
      "key/Linear.use_bias": False,
      "value/Linear.use_bias": False,
    },
    layer_list="h",
    layer={
      "pre_self_attention_layer_norm": "ln_1",
      "pre_mlp_layer_norm": "ln_2",
      "self_attention/query": "attn.attention.q_proj",
      "self_attention/key": "attn.attention.k_proj",
      "self_attention/value": "attn.attention.v_proj",
      "self_attention/out": "attn.attention.out_proj",
      "mlp/wi": "mlp.c_fc",
      "mlp/wo": "mlp.c_proj",
    },
    written={"architectures": ["GPTNeoForCausalLM"]},
    outside={
      "token_embedder/embedding": "wte",
      "decoder/position_embedder/pos_embedding": "wpe",
      "decoder/decoder_norm": "ln_f",
    },
  ),
)
