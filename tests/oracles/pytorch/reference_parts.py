"""Parts of Transformers written with PyTorch from their definitions.

Weights are tensors under our parameter names, `decoder/layers_0/mlp/wi/kernel`;
a part that a model may lack is there where its weights are. Dimension letters
are those of transformer_zoo/axes.py.
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


def rms_norm(x_LD, scale_D, epsilon):
  """Zhang and Sennrich 2019, equation 4."""
  root_L1 = (x_LD.square().mean(-1, keepdim=True) + epsilon).sqrt()
  return x_LD / root_L1 * scale_D


def annotated_norm(x_LD, scale_D, bias_D):
  """Rush 2018: the unbiased deviation, and epsilon added to it."""
  centred_LD = x_LD - x_LD.mean(-1, keepdim=True)
  return scale_D * centred_LD / (x_LD.std(-1, keepdim=True) + 1e-6) + bias_D


def norm(weights: Weights, name: str, x_LD):
  """T5's norm, or the one that has a shift."""
  scale_D = weights[f"{name}/scale"]
  if f"{name}/bias" in weights:
    return annotated_norm(x_LD, scale_D, weights[f"{name}/bias"])
  return rms_norm(x_LD, scale_D, 1e-6)


def connected(weights: Weights, layer: str, name: str, streams, sublayer):
  """The streams after a sublayer, of one stream or of several.

  Zhu et al. 2024, section 2: column 0 of alpha is what the sublayer reads of
  each stream, A_m, the others are A_r; beta is B.
  """
  norm_name = f"{layer}/pre_{name}_layer_norm"
  mixes = f"{layer}/{name}_streams"
  if f"{mixes}/alpha_bias" not in weights:
    (x_LD,) = streams
    return [x_LD + sublayer(norm(weights, norm_name, x_LD))]
  alphas, betas = [], []
  for i, x_LD in enumerate(streams):
    alpha_LY = weights[f"{mixes}/alpha_bias"][i].expand(len(x_LD), -1)
    beta_L1 = weights[f"{mixes}/beta_bias"][i].expand(len(x_LD), -1)
    if f"{mixes}/alpha_kernel" in weights:
      y_LD = norm(weights, f"{mixes}/layer_norm", x_LD)
      alpha_LY = (
        alpha_LY
        + weights[f"{mixes}/alpha_factor/scale"]
        * (y_LD @ weights[f"{mixes}/alpha_kernel"]).tanh()
      )
      beta_L1 = (
        beta_L1
        + weights[f"{mixes}/beta_factor/scale"]
        * (y_LD @ weights[f"{mixes}/beta_kernel"]).tanh()
      )
    alphas.append(alpha_LY)
    betas.append(beta_L1)

  def mixed(column):
    return sum(
      alpha_LY[:, column, None] * x_LD
      for alpha_LY, x_LD in zip(alphas, streams, strict=True)
    )

  output_LD = sublayer(norm(weights, norm_name, mixed(0)))
  return [mixed(j + 1) + beta * output_LD for j, beta in enumerate(betas)]


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


def relative_vectors(weights: Weights, name: str, head: int, length: int):
  """Shaw et al. 2018: a_ij, [L, L, K], by the clipped distance j - i.

  Each head's own in Music Transformer (Huang et al. 2018).
  """
  table = weights[name]
  table_RK = table[head] if table.dim() == 3 else table
  limit = len(table_RK) // 2
  places_L = torch.arange(length)
  distance_LL = places_L[None, :] - places_L[:, None]
  return table_RK[distance_LL.clamp(-limit, limit) + limit]


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
  first_MG: torch.Tensor | None = None,
):
  """Vaswani et al. 2017, section 3.2.2, head by head.

  With `first_MG`, the values of all heads of the first layer, those that are
  attended to are mixed with them (Zhou et al. 2024, learnable ResFormer).
  """

  def head(x, matrix, index):
    columns = slice(index * sizes.head_dim, (index + 1) * sizes.head_dim)
    return x @ weights[f"{name}/{matrix}/kernel"][:, columns]

  keys, values = (
    f"{name}/relative_vectors/relative_{kind}" for kind in ("keys", "values")
  )
  contexts = []
  for h in range(sizes.num_heads):
    group = h * sizes.num_kv_heads // sizes.num_heads
    query_LK = turn(head(x_LD, "query", h))
    key_MK = turn(head(memory_MD, "key", group))
    scores_LM = query_LK @ key_MK.T * scale
    if keys in weights:
      a_LMK = relative_vectors(weights, keys, h, len(x_LD))
      scores_LM = scores_LM + torch.einsum("lk,lmk->lm", query_LK, a_LMK)
    if bias_HLM is not None:
      scores_LM = scores_LM + bias_HLM[h]
    if seen_LM is not None:
      scores_LM = scores_LM.masked_fill(~seen_LM, -math.inf)
    share_LM = scores_LM.softmax(-1)
    value_MK = head(memory_MD, "value", group)
    if first_MG is not None:
      columns = slice(group * sizes.head_dim, (group + 1) * sizes.head_dim)
      first, own = (
        weights[f"{name}/value_residual/{part}/scale"]
        for part in ("first", "own")
      )
      value_MK = first * first_MG[:, columns] + own * value_MK
    context_LK = share_LM @ value_MK
    if values in weights:
      a_LMK = relative_vectors(weights, values, h, len(x_LD))
      context_LK = context_LK + torch.einsum("lm,lmk->lk", share_LM, a_LMK)
    contexts.append(context_LK)
  return torch.cat(contexts, dim=-1) @ weights[f"{name}/out/kernel"]


def causal(length: int):
  """Returns [L, L]: the key is not after the query."""
  return torch.ones(length, length, dtype=torch.bool).tril()
