"""Positions beside `transformers`, or beside their definitions in PyTorch."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional
import transformers
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama
from transformers.models.marian.modeling_marian import (
  MarianSinusoidalPositionalEmbedding,
)
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.roformer.modeling_roformer import RoFormerSelfAttention
from transformers.models.roformer.modeling_roformer import (
  RoFormerSinusoidalPositionalEmbedding,
)
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import (
  Wav2Vec2BertSelfAttention,
)
from transformers.models.xglm.modeling_xglm import (
  XGLMSinusoidalPositionalEmbedding,
)
from transformers.models.xlm.modeling_xlm import create_sinusoidal_embeddings

from tests.oracles.pytorch.agreement import assert_agree
from tests.oracles.pytorch.agreement import random
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions.absolute import sinusoids
from transformer_zoo.modules.positions.relative_bias import Alibi
from transformer_zoo.modules.positions.relative_vectors import RelativeVectors
from transformer_zoo.modules.positions.rotary import Rotary

B, L, H, K = 2, 9, 3, 8
D = H * K


def _marian(length, size):
  return MarianSinusoidalPositionalEmbedding(length, size).create_weight()


def _xlm(length, size):
  return create_sinusoidal_embeddings(length, size, torch.empty(length, size))


@pytest.mark.parametrize(
  ("theirs", "length", "settings"),
  [
    (_xlm, 4096, {}),
    (_marian, 4096, {"interleaved": False}),
    # Theirs are products in float32, which are worse the longer they go on.
    (
      XGLMSinusoidalPositionalEmbedding.get_embedding,
      16,
      {"interleaved": False, "reach_longest": True},
    ),
  ],
)
def test_sinusoids(theirs, length, settings):
  found = jax.jit(functools.partial(sinusoids, features=64, **settings))(
    jnp.arange(length)
  )
  np.testing.assert_allclose(found, theirs(length, 64), rtol=0, atol=1e-6)


def _by_halves(module, theta):
  def turn(x, positions):
    config = types.SimpleNamespace(
      rope_parameters={"rope_theta": theta, "rope_type": "default"},
      max_position_embeddings=4096,
      hidden_size=D,
      num_attention_heads=H,
      head_dim=K,
    )
    cls = getattr(module, "LlamaRotaryEmbedding", None)
    embedding = (cls or module.GPTNeoXRotaryEmbedding)(config)
    cos, sin = embedding(x, positions)
    turned, _ = module.apply_rotary_pos_emb(x, x, cos, sin)
    return turned

  return turn


def _gpt_j(x, positions):
  table = modeling_gptj.create_sinusoidal_positions(4096, K)[positions]
  sin, cos = table.chunk(2, dim=-1)
  turned = modeling_gptj.apply_rotary_pos_emb(x.transpose(1, 2), sin, cos)
  return turned.transpose(1, 2)


def _roformer(x, positions):
  table = RoFormerSinusoidalPositionalEmbedding(4096, K).create_weight()
  turned, _ = RoFormerSelfAttention.apply_rotary_position_embeddings(
    table[positions][:, None], x, x
  )
  return turned


@pytest.mark.parametrize(
  ("theirs", "settings", "first"),
  [
    (_by_halves(modeling_llama, 10000.0), {}, 3000),
    (_by_halves(modeling_llama, 500000.0), {"theta": 500000.0}, 3000),
    (_by_halves(modeling_gpt_neox, 10000.0), {}, 3000),
    (_gpt_j, {"interleaved": True}, 3000),
    # Its angles are float64, so farther off ours differ.
    (_roformer, {"interleaved": True}, 0),
  ],
)
def test_rotary(theirs, settings, first):
  positions = np.arange(first, first + L)[None]
  assert_agree(
    lambda x: Rotary(**settings).apply({}, x, jnp.asarray(positions)),
    lambda x: theirs(
      x.transpose(1, 2), torch.tensor(positions)
    ).transpose(1, 2),
    random(B, L, H, K),
    tolerance=2e-6,
  )  # fmt: skip


@pytest.mark.parametrize("theta", [10000.0, 500000.0, 1e6])
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
def test_rotary_frequencies_are_rounded_alike(theta, head_dim):
  config = transformers.LlamaConfig(
    head_dim=head_dim,
    rope_parameters={"rope_theta": theta, "rope_type": "default"},
  )
  theirs = modeling_llama.LlamaRotaryEmbedding(config).inv_freq.numpy()
  ours = Rotary(theta=theta).frequencies(head_dim // 2)
  assert ours.dtype == np.float32
  np.testing.assert_array_max_ulp(ours, theirs, maxulp=1)


@pytest.mark.parametrize("num_heads", [*range(1, 21), 32, 71, 112])
def test_alibi(num_heads):
  """A row of theirs differs by a number, which softmax does not see."""
  ours = np.asarray(Alibi(num_heads).apply({}, Positions.of_length(L)))[0]
  for theirs in (
    build_alibi_tensor(torch.ones(1, L), num_heads, torch.float32),
    build_mpt_alibi_tensor(num_heads, L),
  ):
    theirs = np.broadcast_to(theirs.numpy(), ours.shape)
    for query in range(L):
      seen = ours[:, query, : query + 1]
      expected = theirs[:, query, : query + 1]
      np.testing.assert_allclose(
        seen, expected - expected[:, -1:], rtol=1e-6, atol=1e-6
      )


def attention_weights():
  return {
    name: random(D, D, seed=i) * D**-0.5
    for i, name in enumerate(("query", "key", "value", "out"))
  }


def apply_attention(attention, x, weights, **keywords):
  params = {name: {"kernel": kernel} for name, kernel in weights.items()}
  vectors = {k: params.pop(k)["kernel"] for k in list(params) if "rel" in k}
  if vectors:
    params["relative_vectors"] = vectors
  return attention.apply({"params": params}, x, **keywords)


def split_heads(x, weights, name):
  return (x @ weights[name]).unflatten(-1, (H, K)).transpose(1, 2)


@pytest.mark.parametrize("limit", [3, 16])
def test_shaw_keys_are_those_of_wav2vec2_bert(limit):
  weights = attention_weights()
  table = random(2 * limit + 1, K, seed=5)
  module = Wav2Vec2BertSelfAttention(
    types.SimpleNamespace(
      hidden_size=D,
      num_attention_heads=H,
      position_embeddings_type="relative_key",
      left_max_position_embeddings=limit,
      right_max_position_embeddings=limit,
      attention_dropout=0.0,
      _attn_implementation="eager",
    )
  )
  zeros = torch.zeros(D)

  def theirs(x, table, *kernels):
    state = {"distance_embedding.weight": table}
    for name, kernel in zip(("q", "k", "v", "out"), kernels, strict=True):
      state[f"linear_{name}.weight"] = kernel.T
      state[f"linear_{name}.bias"] = zeros
    return torch.func.functional_call(module, state, x)[0]

  def ours(x, table, *kernels):
    attention = Attention(
      num_heads=H,
      head_dim=K,
      scale_scores=True,
      relative_vectors=RelativeVectors(
        head_dim=K, max_distance=limit, with_values=False
      ),
    )
    return apply_attention(
      attention,
      x,
      {**dict(zip(weights, kernels, strict=True)), "relative_keys": table},
    )

  assert_agree(ours, theirs, random(B, L, D), table, *weights.values())


def test_shaw_values():
  """Shaw et al. 2018, equation 3: z_i = sum_j alpha_ij (x_j W^V + a^V_ij)."""
  limit = 4
  distances = np.arange(L)[None] - np.arange(L)[:, None]
  rows = torch.tensor(np.clip(distances, -limit, limit) + limit)

  def theirs(weights_BHLM, table):
    return torch.einsum("bhlm,lmk->blhk", weights_BHLM, table[rows])

  def ours(weights_BHLM, table):
    module = RelativeVectors(head_dim=K, max_distance=limit)
    return module.apply(
      {"params": {"relative_keys": table, "relative_values": table}},
      weights_BHLM,
      Positions.of_length(L),
      method="values",
    )

  weights_BHLM = np.abs(random(B, H, L, L))
  assert_agree(ours, theirs, weights_BHLM, random(2 * limit + 1, K))


def skewed(by_distance):
  """Huang et al. 2018, section 3.4.1: pad, reshape, slice.

  Column r of [L, L] is of distance r - L + 1; returned is [L, L] of keys.
  """
  length = by_distance.shape[-1]
  padded = functional.pad(by_distance, (1, 0))
  by_row = padded.reshape(*padded.shape[:-2], length + 1, length)
  return by_row[..., 1:, :]


def test_music_transformer():
  weights = attention_weights()
  limit = 512
  vectors = random(H, 2 * limit + 1, K, seed=5)
  causal = torch.ones(L, L, dtype=torch.bool).tril()

  def theirs(x, vectors, *kernels):
    named = dict(zip(weights, kernels, strict=True))
    query, key, value = (
      split_heads(x, named, name) for name in ("query", "key", "value")
    )
    nearest = vectors[:, limit - L + 1 : limit + 1]
    relative = skewed(query @ nearest.transpose(-1, -2))
    scores = (query @ key.transpose(-1, -2) + relative) * K**-0.5
    scores = scores.masked_fill(~causal, -torch.inf)
    context = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    return context @ named["out"]

  def ours(x, vectors, *kernels):
    attention = Attention(
      num_heads=H,
      head_dim=K,
      scale_scores=True,
      relative_vectors=RelativeVectors(
        head_dim=K, max_distance=limit, with_values=False, num_heads=H
      ),
    )
    return apply_attention(
      attention,
      x,
      {**dict(zip(weights, kernels, strict=True)), "relative_keys": vectors},
      mask_B1LM=jnp.asarray(causal.numpy())[None, None],
    )

  assert_agree(ours, theirs, random(B, L, D), vectors, *weights.values())
