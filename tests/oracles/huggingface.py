"""T5ForConditionalGeneration of `transformers` with the weights of one of ours.

Differences that the mapping bridges: PyTorch keeps a matrix as (out, in) and
the bias table as (buckets, heads); the bias of a stack lies in its first
block; the encoder-decoder attention is the decoder block's second sublayer.
"""

from flax import traverse_util
import numpy as np
import torch
import transformers

from tests import tiny_t5

ATTENTION = {"query": "q", "key": "k", "value": "v", "out": "o"}
SUBLAYERS = {
  "encoder": {
    "attention": (0, "SelfAttention"),
    "mlp": (1, "DenseReluDense"),
    "pre_attention_layer_norm": (0, "layer_norm"),
    "pre_mlp_layer_norm": (1, "layer_norm"),
  },
  "decoder": {
    "self_attention": (0, "SelfAttention"),
    "encoder_decoder_attention": (1, "EncDecAttention"),
    "mlp": (2, "DenseReluDense"),
    "pre_self_attention_layer_norm": (0, "layer_norm"),
    "pre_cross_attention_layer_norm": (1, "layer_norm"),
    "pre_mlp_layer_norm": (2, "layer_norm"),
  },
}


def their_name(path: str) -> str:
  """Our parameter's path in their state dict."""
  if path == "token_embedder/embedding":
    return "shared.weight"
  side, *rest = path.split("/")
  match rest:
    case ["logits_dense", "kernel"]:
      return "lm_head.weight"
    case ["relpos_bias", "rel_embedding"]:
      return (
        f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
      )
    case ["encoder_norm" | "decoder_norm", "scale"]:
      return f"{side}.final_layer_norm.weight"
    case [layer, sublayer, *leaf]:
      index, name = SUBLAYERS[side][sublayer]
      prefix = f"{side}.block.{layer.removeprefix('layers_')}.layer.{index}"
      matrix = f".{ATTENTION.get(leaf[0], leaf[0])}" if len(leaf) == 2 else ""
      return f"{prefix}.{name}{matrix}.weight"
  raise ValueError(f"no counterpart of {path}")


def to_state_dict(params: dict) -> dict[str, np.ndarray]:
  """Our parameters, or gradients of them, under their names and layout."""
  flat = traverse_util.flatten_dict(params, sep="/")
  return {
    their_name(path): (
      np.asarray(leaf).T
      if path.endswith(("kernel", "rel_embedding"))
      else np.asarray(leaf)
    )
    for path, leaf in flat.items()
  }


def build(
  architecture: str, params: dict, **macros
) -> transformers.T5ForConditionalGeneration:
  """Their model of the same sizes with the same weights, without dropout."""
  sizes = {**tiny_t5.TINY, **macros}
  tied = architecture == "t5_1_0"
  config = transformers.T5Config(
    vocab_size=sizes["VOCAB_SIZE"],
    d_model=sizes["EMBED_DIM"],
    d_kv=sizes["HEAD_DIM"],
    d_ff=sizes["MLP_DIM"],
    num_layers=sizes["NUM_ENCODER_LAYERS"],
    num_decoder_layers=sizes["NUM_DECODER_LAYERS"],
    num_heads=sizes["NUM_HEADS"],
    feed_forward_proj="relu" if tied else "gated-gelu",
    tie_word_embeddings=tied,
    decoder_start_token_id=0,
    attn_implementation="eager",
  )
  model = transformers.T5ForConditionalGeneration(config).eval()
  if not tied:
    # Version 5 ties every T5 that no checkpoint unties; released v1.1
    # checkpoints have a matrix of their own.
    model.lm_head.weight = torch.nn.Parameter(
      torch.empty_like(model.lm_head.weight)
    )
  state = {
    name: torch.tensor(value) for name, value in to_state_dict(params).items()
  }
  for alias in ("encoder.embed_tokens", "decoder.embed_tokens"):
    state[f"{alias}.weight"] = state["shared.weight"]
  if tied:
    state["lm_head.weight"] = state["shared.weight"]
  model.load_state_dict(state, strict=True)
  return model


def forward(model, batch, **keywords):
  """Their outputs on one of our batches; padding is masked and ignored."""
  inputs = torch.tensor(batch["encoder_input_tokens"], dtype=torch.long)
  targets = torch.tensor(batch["decoder_target_tokens"], dtype=torch.long)
  return model(
    input_ids=inputs,
    attention_mask=(inputs > 0).long(),
    decoder_input_ids=torch.tensor(
      batch["decoder_input_tokens"], dtype=torch.long
    ),
    labels=targets.masked_fill(targets == 0, -100),
    **keywords,
  )


def generate(
  model, inputs: np.ndarray, max_length: int, **keywords
) -> np.ndarray:
  """Their tokens [rows, max_length], padded, without the start token.

  Greedy unless keywords say otherwise; several of a row lie one below another.
  """
  made = _generate(model, inputs, max_length, **keywords).sequences
  return _padded(made, max_length)


def beam_search(
  model, inputs: np.ndarray, max_length: int, **keywords
) -> tuple[np.ndarray, np.ndarray]:
  """As `generate`, with the scores of the beams."""
  outputs = _generate(model, inputs, max_length, output_scores=True, **keywords)
  return _padded(
    outputs.sequences, max_length
  ), outputs.sequences_scores.numpy()


def _generate(model, inputs, max_length, **keywords):
  inputs = torch.tensor(inputs, dtype=torch.long)
  return model.generate(
    input_ids=inputs,
    attention_mask=(inputs > 0).long(),
    max_new_tokens=max_length,
    return_dict_in_generate=True,
    **({"do_sample": False, "num_beams": 1} | keywords),
  )


def _padded(sequences, max_length) -> np.ndarray:
  made = sequences[:, 1:].numpy()
  made = np.pad(made, ((0, 0), (0, max_length - made.shape[1])))
  # Their beam search fills up with EOS where the id of padding is 0.
  ended = np.cumsum(made == 1, axis=1) - (made == 1) > 0
  return np.where(ended, 0, made)
