"""GPT (`openai-gpt`) and GPT-2 (`gpt2`), and what GPT-Neo has in common.

Differences to ours: one matrix, kept as (in, out), makes queries, keys and
values. GPT has GPT-2's blocks with the norms after the sublayers. Source:
`models/openai` and `gpt2` of `transformers`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from flax import linen as nn

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

HEAD = "lm_head.weight"
DEFAULTS = {
  "n_embd": 768,
  "n_layer": 12,
  "n_head": 12,
  "resid_pdrop": 0.1,
  "embd_pdrop": 0.1,
  "attn_pdrop": 0.1,
  "layer_norm_epsilon": 1e-5,
  "tie_word_embeddings": True,
}
RENAMED = {
  "hidden_size": "n_embd",
  "num_hidden_layers": "n_layer",
  "num_attention_heads": "n_head",
  "max_position_embeddings": "n_positions",
}
# Those of other heads than the language model's, and of old versions.
WITHOUT_EFFECT = (
  "classifier_dropout n_ctx n_special predict_special_tokens "
  "summary_activation summary_first_dropout summary_last_dropout "
  "summary_proj_to_labels summary_type summary_use_proj"
).split()
_GPT_1 = "openai-gpt"
_OF_GPT_1 = attributes.Attributes(
  defaults={
    **DEFAULTS,
    "vocab_size": 40478,
    "n_positions": 512,
    "afn": "gelu",
  },
  allowed={"is_encoder_decoder": (False,)},
  without_effect=WITHOUT_EFFECT,
  renamed=RENAMED,
)
# Here, "gelu" has always been the tanh form.
_GPT_1_ACTIVATIONS = {
  "gelu": "gelu",
  "relu": "relu",
  "silu": "silu",
  "swish": "silu",
}
_POST_NORMS = ("post_self_attention_layer_norm", "post_mlp_layer_norm")
_OF_GPT_2 = attributes.Attributes(
  defaults={
    **DEFAULTS,
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_inner": None,  # four times n_embd
    "activation_function": "gelu_new",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
  },
  allowed={"is_encoder_decoder": (False,)},
  optional={"n_inner": int},
  # The last is a choice of precision.
  without_effect=[*WITHOUT_EFFECT, "reorder_and_upcast_attn"],
  renamed=RENAMED,
)
_PRE_NORMS = ("pre_self_attention_layer_norm", "pre_mlp_layer_norm")


def aliases_of_head(config: Mapping[str, Any], table: str) -> Mapping[str, str]:
  """The aliases of a family whose softmax may be tied to a table.

  Args:
    config: The contents of a config.json.
    table: The name of the table of embeddings.
  """
  return {HEAD: table} if says_tied(config) else {}


def settle_tie(
  config: Mapping[str, Any], stored: Collection[str]
) -> dict[str, Any]:
  """Completes a config.json as `Family.settle` does."""
  tied = says_tied(config) and HEAD not in stored
  return {**config, "tie_word_embeddings": tied}


def says_tied(config: Mapping[str, Any]) -> bool:
  """Whether a config.json asks for one table of inputs and softmax."""
  return config.get("tie_word_embeddings", DEFAULTS["tie_word_embeddings"])


def gin_files(architecture: str, found: Mapping[str, Any]) -> tuple[str, ...]:
  """The gin files of an architecture with a tied or untied softmax."""
  softmax = "tied" if found["tie_word_embeddings"] else "untied"
  return (
    f"architectures/{architecture}.gin",
    f"parts/softmax/{softmax}.gin",
  )


def bindings(
  found: Mapping[str, Any], config: Mapping[str, Any], activation: str
) -> dict[str, Any]:
  """The bindings that GPT, GPT-2 and GPT-Neo have in common.

  Args:
    found: The attributes that were read from a config.json.
    config: The contents of the config.json.
    activation: Our name of the activation.

  Raises:
    UserError: The heads do not divide the width.
  """
  attributes.check_multiple(
    config["model_type"], found["n_embd"], found["n_head"]
  )
  return {
    "VOCAB_SIZE": found["vocab_size"],
    "MAX_POSITIONS": found["n_positions"],
    "EMBED_DIM": found["n_embd"],
    "MLP_DIM": found.get("n_inner") or 4 * found["n_embd"],
    "NUM_HEADS": found["n_head"],
    "HEAD_DIM": found["n_embd"] // found["n_head"],
    "NUM_DECODER_LAYERS": found["n_layer"],
    "DROPOUT_RATE": float(found["resid_pdrop"]),
    "embedding/Dropout.rate": float(found["embd_pdrop"]),
    "attention/Dropout.rate": float(found["attn_pdrop"]),
    "DecoderOnly.pad_id": attributes.padding_id(config),
    "LayerNorm.epsilon": found["layer_norm_epsilon"],
    "Mlp.activation": activation,
  }


def attributes_of(model: nn.Module) -> dict[str, Any]:
  """The attributes of a config.json that a model of ours is read from."""
  stack = model.decoder.stack
  layer = stack.layer
  return {
    "vocab_size": model.token_embedder.num_embeddings,
    "n_positions": stack.position_embedder.num_positions,
    "n_embd": model.token_embedder.features,
    "n_layer": stack.num_layers,
    "n_head": layer.self_attention.num_heads,
    "n_inner": layer.mlp.d_ff,
    "resid_pdrop": layer.dropout.rate,
    "embd_pdrop": stack.dropout.rate,
    "attn_pdrop": layer.self_attention.dropout.rate,
    "layer_norm_epsilon": layer.norm.epsilon,
    "tie_word_embeddings": type(model.decoder.head).__name__ == "TiedLogits",
    "pad_token_id": model.pad_id,
  }


def head(found: Mapping[str, Any]) -> Iterator[Link]:
  """The link of the matrix of the softmax, if it is not tied."""
  if not found["tie_word_embeddings"]:
    yield from links_lib.linear("lm_head", "decoder/logits_dense", bias=False)


class Gpt1:
  """See `Family`."""

  model_types = (_GPT_1,)
  ignored = (
    r"(transformer\.)?h\.\d+\.attn\.bias",
    r"(transformer\.)?position_ids",
  )
  prefix = "transformer."
  settle = staticmethod(settle_tie)

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    return aliases_of_head(config, "transformer.tokens_embed.weight")

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return _OF_GPT_1.read(config)["n_layer"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found = _OF_GPT_1.read(config)
    attributes.check_allowed(_GPT_1, "afn", found["afn"], _GPT_1_ACTIVATIONS)
    return Architecture(
      gin_files("gpt_1", found),
      bindings(found, config, _GPT_1_ACTIVATIONS[found["afn"]]),
    )

  @attributes.counterpart(_GPT_1)
  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    found = attributes_of(model)
    # The width is always four times n_embd, which nothing says.
    del found["n_inner"]
    activation = model.decoder.stack.layer.mlp.activation
    attributes.check_allowed(_GPT_1, "afn", activation, _GPT_1_ACTIVATIONS)
    return {
      "architectures": ["OpenAIGPTLMHeadModel"],
      "model_type": _GPT_1,
      **found,
      "afn": activation,
    }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = _OF_GPT_1.read(config)
    links = [
      Link("transformer.tokens_embed.weight", ("token_embedder/embedding",)),
      Link(
        "transformer.positions_embed.weight",
        ("decoder/position_embedder/pos_embedding",),
      ),
    ]
    for layer in range(found["n_layer"]):
      links += _block(layer, norms=_POST_NORMS)
    return [*links, *head(found)]


class Gpt2:
  """See `Family`."""

  model_types = ("gpt2",)
  ignored = (r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",)
  prefix = "transformer."
  settle = staticmethod(settle_tie)

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    return aliases_of_head(config, "transformer.wte.weight")

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return _OF_GPT_2.read(config)["n_layer"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found = _OF_GPT_2.read(config)
    activation = attributes.activation(
      "gpt2", "activation_function", found["activation_function"]
    )
    return Architecture(
      gin_files("gpt_2", found),
      {
        **bindings(found, config, activation),
        "Attention.scale_scores": found["scale_attn_weights"],
        "Stack.divide_scores_by_depth": found[
          "scale_attn_by_inverse_layer_idx"
        ],
      },
    )

  @attributes.counterpart("gpt2")
  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    stack = model.decoder.stack
    layer = stack.layer
    return {
      "architectures": ["GPT2LMHeadModel"],
      "model_type": "gpt2",
      **attributes_of(model),
      "activation_function": attributes.their_activation(
        "gpt2", layer.mlp.activation
      ),
      "scale_attn_weights": layer.self_attention.scale_scores,
      "scale_attn_by_inverse_layer_idx": stack.divide_scores_by_depth,
    }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = _OF_GPT_2.read(config)
    links = [
      Link("transformer.wte.weight", ("token_embedder/embedding",)),
      Link(
        "transformer.wpe.weight", ("decoder/position_embedder/pos_embedding",)
      ),
      *links_lib.layer_norm("transformer.ln_f", "decoder/decoder_norm"),
    ]
    for layer in range(found["n_layer"]):
      links += _block(layer, norms=_PRE_NORMS)
    return [*links, *head(found)]


def _block(layer: int, *, norms: tuple[str, str]) -> Iterator[Link]:
  """A block of GPT-1 or GPT-2, whose norms stand at different places."""
  theirs, ours = f"transformer.h.{layer}", f"decoder/layers_{layer}"
  for index, norm in enumerate(norms, 1):
    yield from links_lib.layer_norm(f"{theirs}.ln_{index}", f"{ours}/{norm}")
  attention = f"{ours}/self_attention"
  for name, parts in {
    "attn.c_attn": [
      f"{attention}/{part}" for part in ("query", "key", "value")
    ],
    "attn.c_proj": [f"{attention}/out"],
    "mlp.c_fc": [f"{ours}/mlp/wi"],
    "mlp.c_proj": [f"{ours}/mlp/wo"],
  }.items():
    yield from links_lib.conv1d(f"{theirs}.{name}", parts)
