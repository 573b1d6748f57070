"""GPT-J (`gptj`).

Differences to ours: PyTorch keeps a matrix as (out, in); a block's attention
and feed-forward network read one norm, as `connections.parallel` has it.
Source: `models/gptj` of `transformers`.
"""

from collections.abc import Collection, Mapping
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import gpt
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

_KIND = "gptj"
_ATTRIBUTES = attributes.Attributes(
  defaults={
    "vocab_size": 50400,
    "n_positions": 2048,
    "n_embd": 4096,
    "n_layer": 28,
    "n_head": 16,
    "rotary_dim": 64,
    "n_inner": None,  # four times n_embd
    "activation_function": "gelu_new",
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "layer_norm_epsilon": 1e-5,
    # Its softmax has a bias, so that a table in common is not built here.
    "tie_word_embeddings": False,
  },
  allowed={"is_encoder_decoder": (False,)},
  optional={"n_inner": int},
  without_effect=[*gpt.WITHOUT_EFFECT, "gradient_checkpointing", "rotary"],
  renamed=gpt.RENAMED,
)


class GptJ:
  """See `Family`."""

  model_types = (_KIND,)
  ignored = (
    r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias|embed_positions)",
  )
  prefix = "transformer."

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    del config
    return {}

  def settle(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`."""
    del stored
    return {"tie_word_embeddings": False, **config}

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return _ATTRIBUTES.read(config)["n_layer"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found = _ATTRIBUTES.read(config)
    attributes.check_allowed(
      _KIND, "tie_word_embeddings", found["tie_word_embeddings"], (False,)
    )
    activation = attributes.activation(
      _KIND, "activation_function", found["activation_function"]
    )
    bindings = gpt.bindings(found, config, activation)
    del bindings["MAX_POSITIONS"]  # Rotary positions have no table.
    return Architecture(
      ("architectures/gpt_j.gin",),
      {**bindings, "Rotary.rotated": found["rotary_dim"]},
    )

  @attributes.counterpart(_KIND)
  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    stack = model.decoder.stack
    layer, attention = stack.layer, stack.layer.self_attention
    width = model.token_embedder.features
    if attention.head_dim * attention.num_heads != width:
      raise UserError(
        f"{_KIND} models have heads that divide n_embd; set HEAD_DIM to "
        "EMBED_DIM / NUM_HEADS"
      )
    return {
      "architectures": ["GPTJForCausalLM"],
      "model_type": _KIND,
      "vocab_size": model.token_embedder.num_embeddings,
      "n_embd": width,
      "n_layer": stack.num_layers,
      "n_head": attention.num_heads,
      "n_inner": layer.mlp.d_ff,
      "rotary_dim": attention.rotary.rotated or attention.head_dim,
      "activation_function": attributes.their_activation(
        _KIND, layer.mlp.activation
      ),
      "resid_pdrop": layer.dropout.rate,
      "embd_pdrop": stack.dropout.rate,
      "attn_pdrop": attention.dropout.rate,
      "layer_norm_epsilon": layer.norm.epsilon,
      "tie_word_embeddings": False,
      "pad_token_id": model.pad_id,
    }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    links = [
      Link("transformer.wte.weight", ("token_embedder/embedding",)),
      *links_lib.layer_norm("transformer.ln_f", "decoder/decoder_norm"),
      *links_lib.linear("lm_head", "decoder/logits_dense"),
    ]
    for layer in range(self.num_layers(config)):
      theirs, ours = f"transformer.h.{layer}", f"decoder/layers_{layer}"
      links += links_lib.layer_norm(f"{theirs}.ln_1", f"{ours}/pre_layer_norm")
      for name, part in {
        "q_proj": "query",
        "k_proj": "key",
        "v_proj": "value",
        "out_proj": "out",
      }.items():
        links += links_lib.linear(
          f"{theirs}.attn.{name}", f"{ours}/self_attention/{part}", bias=False
        )
      for name, part in {"fc_in": "wi", "fc_out": "wo"}.items():
        links += links_lib.linear(f"{theirs}.mlp.{name}", f"{ours}/mlp/{part}")
    return links
