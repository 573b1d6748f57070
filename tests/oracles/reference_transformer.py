"""Transformers written with PyTorch from their definitions.

The oracle of what no class of `transformers` computes: one stack that encodes
and decodes, language models in T5's parts, and a Llama-like encoder-decoder.
One example at a time and without padding, so that causality is the only mask.

Weights are tensors under our parameter names, `decoder/layers_0/mlp/wi/kernel`;
dimension letters are those of transformer_zoo/axes.py.
"""

from collections.abc import Callable, Mapping
import dataclasses
import math

import torch
from torch.nn import functional

Weights = Mapping[str, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Sizes:
  """What shapes of weights do not tell."""

  num_layers: int
  num_heads: int
  num_kv_heads: int
  head_dim: int


# --- parts -------------------------------------------------------------------


def rms_norm(x_LD, scale_D, epsilon):
  """Zhang and Sennrich 2019, equation 4."""
  root_L1 = (x_LD.square().mean(-1, keepdim=True) + epsilon).sqrt()
  return x_LD / root_L1 * scale_D


def relu_mlp(weights: Weights, name: str, x_LD):
  """Vaswani et al. 2017, equation 2, without biases."""
  hidden_LF = functional.relu(x_LD @ weights[f"{name}/wi/kernel"])
  return hidden_LF @ weights[f"{name}/wo/kernel"]


def swiglu_mlp(weights: Weights, name: str, x_LD):
  """Shazeer 2020, equation 6."""
  gate_LF = functional.silu(x_LD @ weights[f"{name}/wi_0/kernel"])
  hidden_LF = gate_LF * (x_LD @ weights[f"{name}/wi_1/kernel"])
  return hidden_LF @ weights[f"{name}/wo/kernel"]


def bucket(distance: int, *, bidirectional: bool) -> int:
  """T5's bucket of key position minus query position, of 32 up to 128.

  Raffel et al. 2020, section 2.1: half of the buckets are single distances,
  the others ranges that grow logarithmically.
  """
  buckets, first = 32, 0
  if bidirectional:
    buckets //= 2
    first = buckets if distance > 0 else 0
    distance = abs(distance)
  else:
    distance = max(-distance, 0)
  exact = buckets // 2
  if distance < exact:
    return first + distance
  octaves = math.log(distance / exact) / math.log(128 / exact)
  return first + min(exact + int(octaves * (buckets - exact)), buckets - 1)


def relative_bias(table_HR, length: int, *, bidirectional: bool):
  """Returns [H, L, L]: the table's number for head and bucket."""
  rows = [
    [bucket(key - query, bidirectional=bidirectional) for key in range(length)]
    for query in range(length)
  ]
  return table_HR[:, torch.tensor(rows)]


def rotate(x_LK):
  """Su et al. 2021, equation 34, with feature i and i + K/2 as a pair."""
  length, head_dim = x_LK.shape
  half = head_dim // 2
  frequencies = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
  angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies
  turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
  turned = torch.complex(x_LK[:, :half], x_LK[:, half:]) * turns
  return torch.cat([turned.real, turned.imag], dim=-1)


def attention(
  weights: Weights,
  name: str,
  sizes: Sizes,
  x_LD,
  memory_MD,
  *,
  seen_LM=None,
  bias_HLM=None,
  scale: float = 1.0,
  turn: Callable = lambda x_LK: x_LK,
):
  """Vaswani et al. 2017, section 3.2.2, head by head."""

  def head(x, matrix, index):
    columns = slice(index * sizes.head_dim, (index + 1) * sizes.head_dim)
    return x @ weights[f"{name}/{matrix}/kernel"][:, columns]

  contexts = []
  for h in range(sizes.num_heads):
    group = h * sizes.num_kv_heads // sizes.num_heads
    query_LK = turn(head(x_LD, "query", h))
    key_MK = turn(head(memory_MD, "key", group))
    scores_LM = query_LK @ key_MK.T * scale
    if bias_HLM is not None:
      scores_LM = scores_LM + bias_HLM[h]
    if seen_LM is not None:
      scores_LM = scores_LM.masked_fill(~seen_LM, -math.inf)
    value_MK = head(memory_MD, "value", group)
    contexts.append(scores_LM.softmax(-1) @ value_MK)
  return torch.cat(contexts, dim=-1) @ weights[f"{name}/out/kernel"]


def causal(length: int):
  """Returns [L, L]: the key is not after the query."""
  return torch.ones(length, length, dtype=torch.bool).tril()


# --- models ------------------------------------------------------------------


def shifted(tokens_L):
  """What a decoder reads: the tokens one place later, after a 0."""
  return functional.pad(tokens_L, (1, 0))[:-1]


def t5_stack(
  weights, sizes, tokens_L, *, seen_LL, bidirectional, encoded_MD=None
):
  """T5's layers, all under `decoder`; without `encoded_MD`, self-attention."""
  x_LD = weights["token_embedder/embedding"][tokens_L]
  bias_HLL = relative_bias(
    weights["decoder/relpos_bias/rel_embedding"],
    len(tokens_L),
    bidirectional=bidirectional,
  )
  for i in range(sizes.num_layers):
    layer = f"decoder/layers_{i}"

    def norm(name, x_LD, layer=layer):
      return rms_norm(
        x_LD, weights[f"{layer}/pre_{name}_layer_norm/scale"], 1e-6
      )

    y_LD = norm("self_attention", x_LD)
    x_LD = x_LD + attention(
      weights,
      f"{layer}/self_attention",
      sizes,
      y_LD,
      y_LD,
      seen_LM=seen_LL,
      bias_HLM=bias_HLL,
    )
    if encoded_MD is not None:
      x_LD = x_LD + attention(
        weights,
        f"{layer}/encoder_decoder_attention",
        sizes,
        norm("cross_attention", x_LD),
        encoded_MD,
      )
    x_LD = x_LD + relu_mlp(weights, f"{layer}/mlp", norm("mlp", x_LD))
  return rms_norm(x_LD, weights["decoder/decoder_norm/scale"], 1e-6)


def tied_logits(weights: Weights, x_LD):
  """The softmax of T5 v1.0, over the embedding table."""
  table_VD = weights["token_embedder/embedding"]
  return (x_LD * x_LD.shape[-1] ** -0.5) @ table_VD.T


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

      def norm(name, x_LD, layer=layer):
        return rms_norm(
          x_LD, weights[f"{layer}/pre_{name}_layer_norm/scale"], 1e-5
        )

      y_LD = norm(attention_name, x_LD)
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
          norm("cross_attention", x_LD),
          encoded_MD,
          scale=scale,
        )
      x_LD = x_LD + swiglu_mlp(weights, f"{layer}/mlp", norm("mlp", x_LD))
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
