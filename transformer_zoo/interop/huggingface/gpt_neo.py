"""GPT-Neo (`gpt_neo`), GPT-3 as EleutherAI built it.

Differences to GPT-3 here: scores are not scaled, and queries, keys and values
have no bias. Source: `models/gpt_neo` of `transformers`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import gpt
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

_KIND = "gpt_neo"
_WINDOW = 256
# Theirs -> GPT-2's.
_NAMES = {
  "max_position_embeddings": "n_positions",
  "hidden_size": "n_embd",
  "num_layers": "n_layer",
  "num_heads": "n_head",
  "intermediate_size": "n_inner",
  "resid_dropout": "resid_pdrop",
  "embed_dropout": "embd_pdrop",
  "attention_dropout": "attn_pdrop",
}
_ATTRIBUTES = attributes.Attributes(
  defaults={
    **gpt.DEFAULTS,
    "vocab_size": 50257,
    "n_positions": 2048,
    "n_embd": 2048,
    "n_layer": 24,
    "n_head": 16,
    "n_inner": None,  # four times n_embd
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "activation_function": "gelu_new",
    "attention_types": [[["global", "local"], 12]],
    "attention_layers": [],  # as attention_types says
    "window_size": _WINDOW,
  },
  allowed={"is_encoder_decoder": (False,)},
  optional={"n_inner": int},
  without_effect=gpt.WITHOUT_EFFECT,
  renamed={**gpt.RENAMED, **_NAMES},
)


class GptNeo:
  """See `Family`.

  `attention_layers` names the attention of every layer. `transformers` reads it
  where it is given, and `attention_types` elsewhere.
  """

  model_types = (_KIND,)
  ignored = (r"(transformer\.)?h\.\d+\.attn\.attention\.(masked_)?bias",)
  prefix = "transformer."
  settle = staticmethod(gpt.settle_tie)

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    return gpt.aliases_of_head(config, "transformer.wte.weight")

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return _ATTRIBUTES.read(config)["n_layer"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found = _ATTRIBUTES.read(config)
    activation = attributes.activation(
      _KIND, "activation_function", found["activation_function"]
    )
    return Architecture(
      gpt.gin_files("gpt_3", found),
      {
        **gpt.bindings(found, config, activation),
        "Attention.scale_scores": False,
        "query/Linear.use_bias": False,
        "key/Linear.use_bias": False,
        "value/Linear.use_bias": False,
        "Stack.windows": _windows(found, "attention_layers" in config),
      },
    )

  @attributes.counterpart(_KIND)
  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    stack = model.decoder.stack
    banded, width = attributes.windows_of_stack(_KIND, stack)
    kinds = ["local" if b else "global" for b in banded]
    found = gpt.attributes_of(model)
    return {
      "architectures": ["GPTNeoForCausalLM"],
      "model_type": _KIND,
      **{name: found.pop(gpt_2) for name, gpt_2 in _NAMES.items()},
      **found,
      "activation_function": attributes.their_activation(
        _KIND, stack.layer.mlp.activation
      ),
      "attention_types": [[kinds, 1]],
      "window_size": width or _WINDOW,
    }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = _ATTRIBUTES.read(config)
    links = [
      Link("transformer.wte.weight", ("token_embedder/embedding",)),
      Link(
        "transformer.wpe.weight", ("decoder/position_embedder/pos_embedding",)
      ),
      *links_lib.layer_norm("transformer.ln_f", "decoder/decoder_norm"),
    ]
    for layer in range(found["n_layer"]):
      links += _block(layer)
    return [*links, *gpt.head(found)]


def _windows(found: Mapping[str, Any], are_listed: bool) -> attributes.Windows:
  """The windows of the layers.

  Args:
    found: The attributes of a config.json.
    are_listed: Whether the config.json gives `attention_layers`.
  """
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
  return attributes.windows_of_layers(
    [k == "local" for k in kinds], found["window_size"]
  )


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


def _block(layer: int) -> Iterator[Link]:
  theirs, ours = f"transformer.h.{layer}", f"decoder/layers_{layer}"
  for norm, name in (("ln_1", "self_attention"), ("ln_2", "mlp")):
    yield from links_lib.layer_norm(
      f"{theirs}.{norm}", f"{ours}/pre_{name}_layer_norm"
    )
  attention = f"{theirs}.attn.attention"
  for name, part in {"q": "query", "k": "key", "v": "value"}.items():
    yield from links_lib.linear(
      f"{attention}.{name}_proj", f"{ours}/self_attention/{part}", bias=False
    )
  yield from links_lib.linear(
    f"{attention}.out_proj", f"{ours}/self_attention/out"
  )
  for name, part in {"c_fc": "wi", "c_proj": "wo"}.items():
    yield from links_lib.linear(f"{theirs}.mlp.{name}", f"{ours}/mlp/{part}")
