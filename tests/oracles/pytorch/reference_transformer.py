"""Transformers written with PyTorch from their definitions.

The oracle of what no class of `transformers` computes: one stack that encodes
and decodes, language models in T5's parts and some others, and a Llama-like
encoder-decoder. One example at a time and without padding, so that causality is
the only mask. Parts, and what weights are, stand in reference_parts.py.
"""

import torch
from torch.nn import functional

from tests.oracles.pytorch.reference_parts import attention
from tests.oracles.pytorch.reference_parts import causal
from tests.oracles.pytorch.reference_parts import connected
from tests.oracles.pytorch.reference_parts import norm
from tests.oracles.pytorch.reference_parts import relative_bias
from tests.oracles.pytorch.reference_parts import relu_mlp
from tests.oracles.pytorch.reference_parts import rms_norm
from tests.oracles.pytorch.reference_parts import rotate
from tests.oracles.pytorch.reference_parts import swiglu_mlp
from tests.oracles.pytorch.reference_parts import Weights


def shifted(tokens_L):
  """What a decoder reads: the tokens one place later, after a 0."""
  return functional.pad(tokens_L, (1, 0))[:-1]


def t5_stack(
  weights, sizes, tokens_L, *, seen_LL, bidirectional, encoded_MD=None
):
  """T5's layers, all under `decoder`; without `encoded_MD`, self-attention."""
  x_LD = weights["token_embedder/embedding"][tokens_L]
  if "token_embedder/projection" in weights:
    x_LD = x_LD @ weights["token_embedder/projection"]
  bias_HLL = None
  if "decoder/relpos_bias/rel_embedding" in weights:
    bias_HLL = relative_bias(
      weights["decoder/relpos_bias/rel_embedding"],
      len(tokens_L),
      bidirectional=bidirectional,
    )
  streams, first_LG = [x_LD], None
  for i in range(sizes.num_layers):
    layer = f"decoder/layers_{i}"
    if f"{layer}/mlp_streams/beta_bias" in weights and i == 0:
      streams = [x_LD] * len(weights[f"{layer}/mlp_streams/beta_bias"])

    def to_itself(y_LD, layer=layer):
      nonlocal first_LG
      name = f"{layer}/self_attention"
      if f"{name}/value_residual/own/scale" in weights and first_LG is None:
        first_LG = y_LD @ weights[f"{name}/value/kernel"]
      return attention(
        weights,
        name,
        sizes,
        y_LD,
        y_LD,
        seen_LM=seen_LL,
        bias_HLM=bias_HLL,
        first_MG=first_LG,
      )

    streams = connected(weights, layer, "self_attention", streams, to_itself)
    if encoded_MD is not None:
      streams = connected(
        weights,
        layer,
        "cross_attention",
        streams,
        lambda y_LD, layer=layer: attention(
          weights,
          f"{layer}/encoder_decoder_attention",
          sizes,
          y_LD,
          encoded_MD,
        ),
      )
    streams = connected(
      weights,
      layer,
      "mlp",
      streams,
      lambda y_LD, layer=layer: relu_mlp(weights, f"{layer}/mlp", y_LD),
    )
    streams = [adapted(weights, layer, x_LD, 1e-6) for x_LD in streams]
  x_LD = sum(streams)
  return norm(weights, "decoder/decoder_norm", x_LD)


def adapted(weights: Weights, layer: str, x_LD, epsilon: float):
  """Raffel et al. 2020, section 3.5.1: dense-ReLU-dense, added at the end."""
  if f"{layer}/adapter/wi/kernel" not in weights:
    return x_LD
  scale_D = weights[f"{layer}/pre_adapter_layer_norm/scale"]
  y_LD = rms_norm(x_LD, scale_D, epsilon)
  return x_LD + relu_mlp(weights, f"{layer}/adapter", y_LD)


def tied_logits(weights: Weights, x_LD):
  """The softmax of T5 v1.0, over the embedding table."""
  x_LD = x_LD * x_LD.shape[-1] ** -0.5
  if "token_embedder/projection" in weights:
    x_LD = x_LD @ weights["token_embedder/projection"].T
  return x_LD @ weights["token_embedder/embedding"].T


def shared(weights, sizes, inputs_M, targets_L):
  """Raffel et al. 2020, section 3.2.2: one stack is encoder and decoder."""
  encoded_MD = t5_stack(
    weights, sizes, inputs_M, seen_LL=None, bidirectional=True
  )
  decoded_LD = t5_stack(
    weights,
    sizes,
    shifted(targets_L),
    seen_LL=causal(len(targets_L)),
    bidirectional=False,
    encoded_MD=encoded_MD,
  )
  return tied_logits(weights, decoded_LD)


def lm(weights, sizes, inputs_M, targets_L):
  """A causal language model of the targets."""
  del inputs_M
  decoded_LD = t5_stack(
    weights,
    sizes,
    shifted(targets_L),
    seen_LL=causal(len(targets_L)),
    bidirectional=False,
  )
  return tied_logits(weights, decoded_LD)


def prefix_lm(weights, sizes, inputs_M, targets_L):
  """Raffel et al. 2020, figure 4, right: inputs and targets in one sequence.

  The places that read the first token, a 0, and the inputs see each other.
  """
  tokens_L = torch.cat([inputs_M, targets_L])
  seen_LL = causal(len(tokens_L))
  seen_LL[: len(inputs_M) + 1, : len(inputs_M) + 1] = True
  decoded_LD = t5_stack(
    weights, sizes, shifted(tokens_L), seen_LL=seen_LL, bidirectional=True
  )
  return tied_logits(weights, decoded_LD)


def llama_encoder_decoder(weights, sizes, inputs_M, targets_L):
  """Touvron et al. 2023, section 2.2, in an encoder-decoder.

  Rotary positions are of self-attention alone.
  """
  scale = sizes.head_dim**-0.5

  def run(stack, tokens_L, attention_name, seen_LL, encoded_MD=None):
    x_LD = weights["token_embedder/embedding"][tokens_L]
    for i in range(sizes.num_layers):
      layer = f"{stack}/layers_{i}"

      def llama_norm(name, x_LD, layer=layer):
        return rms_norm(
          x_LD, weights[f"{layer}/pre_{name}_layer_norm/scale"], 1e-5
        )

      y_LD = llama_norm(attention_name, x_LD)
      x_LD = x_LD + attention(
        weights,
        f"{layer}/{attention_name}",
        sizes,
        y_LD,
        y_LD,
        seen_LM=seen_LL,
        scale=scale,
        turn=rotate,
      )
      if encoded_MD is not None:
        x_LD = x_LD + attention(
          weights,
          f"{layer}/encoder_decoder_attention",
          sizes,
          llama_norm("cross_attention", x_LD),
          encoded_MD,
          scale=scale,
        )
      x_LD = x_LD + swiglu_mlp(weights, f"{layer}/mlp", llama_norm("mlp", x_LD))
      x_LD = adapted(weights, layer, x_LD, 1e-5)
    return rms_norm(x_LD, weights[f"{stack}/{stack}_norm/scale"], 1e-5)

  encoded_MD = run("encoder", inputs_M, "attention", None)
  decoded_LD = run(
    "decoder",
    shifted(targets_L),
    "self_attention",
    causal(len(targets_L)),
    encoded_MD,
  )
  return decoded_LD @ weights["decoder/logits_dense/kernel"]


MODELS = {
  "shared": shared,
  "lm": lm,
  "prefix_lm": prefix_lm,
  "llama_encoder_decoder": llama_encoder_decoder,
}
