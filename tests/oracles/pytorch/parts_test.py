"""Networks, norms, connections and softmax beside PyTorch's own.

tests/oracles/pytorch/variants_test.py has them, and positions, in whole models.
"""

from flax import linen as nn
from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional
import transformers
from transformers.models.albert.modeling_albert import AlbertMLMHead
from transformers.models.t5.modeling_t5 import T5LayerNorm

from tests import tiny_models
from tests.oracles.pytorch.agreement import assert_agree
from tests.oracles.pytorch.agreement import random
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.embedding import Embed
from transformer_zoo.modules.feed_forward import GatedMlp
from transformer_zoo.modules.feed_forward import Mlp
from transformer_zoo.modules.heads import TiedLogits
from transformer_zoo.modules.normalization import AnnotatedLayerNorm
from transformer_zoo.modules.normalization import LayerNorm
from transformer_zoo.modules.normalization import RMSNorm
from transformer_zoo.modules.positions import Positions

B, L, D, F = 2, 7, 12, 20
X = 2 * random(B, L, D)

NETWORKS = {
  "relu": functional.relu,
  "gelu": lambda x: functional.gelu(x, approximate="tanh"),
  "gelu_exact": functional.gelu,
  "swish": functional.silu,
  "elu": functional.elu,
  "selu": functional.selu,
  "sigmoid": functional.sigmoid,
  "softplus": functional.softplus,
}
GATED = {
  "glu": functional.sigmoid,
  "bilinear": lambda x: x,
  "reglu": functional.relu,
  "geglu": lambda x: functional.gelu(x, approximate="tanh"),
  "swiglu": functional.silu,
}


def mlp_of(part: str):
  """The network of parts/feed_forward/<part>.gin."""
  model, _ = tiny_models.build("lm", f"feed_forward/{part}.gin")
  return model.decoder.transformer.layer_stack.layer.mlp.clone(d_ff=F)


@pytest.mark.parametrize("part", NETWORKS)
def test_feed_forward(part):
  mlp = mlp_of(part)
  assert isinstance(mlp, Mlp)

  def ours(x, wi, wo):
    params = {"wi": {"kernel": wi}, "wo": {"kernel": wo}}
    return mlp.apply({"params": params}, x, deterministic=True)

  assert_agree(
    ours,
    lambda x, wi, wo: NETWORKS[part](x @ wi) @ wo,
    X,
    random(D, F),
    random(F, D),
  )


@pytest.mark.parametrize("part", GATED)
def test_gated_feed_forward(part):
  mlp = mlp_of(part)
  assert isinstance(mlp, GatedMlp)

  def ours(x, gate, value, out):
    kernels = {"wi_0": gate, "wi_1": value, "wo": out}
    params = {name: {"kernel": kernel} for name, kernel in kernels.items()}
    return mlp.apply({"params": params}, x, deterministic=True)

  def theirs(x, gate, value, out):
    if part == "glu":  # PyTorch has this one: value and gate in one matrix
      both = x @ torch.cat([value, gate], dim=-1)
      return functional.glu(both) @ out
    return (GATED[part](x @ gate) * (x @ value)) @ out

  assert_agree(
    ours, theirs, X, random(D, F), random(D, F, seed=1), random(F, D)
  )


def _torch_layer_norm(x, scale, bias):
  return functional.layer_norm(x, (D,), scale, bias, eps=1e-5)


def _annotated(x, scale, bias):
  """Rush 2018, `LayerNorm`."""
  return scale * (x - x.mean(-1, keepdim=True)) / (
    x.std(-1, keepdim=True) + 1e-6
  ) + bias  # fmt: skip


def _t5_norm(x, scale):
  module = T5LayerNorm(D, eps=1e-6)
  return torch.func.functional_call(module, {"weight": scale}, x)


@pytest.mark.parametrize(
  ("ours", "theirs"),
  [
    (LayerNorm(epsilon=1e-5), _torch_layer_norm),
    (
      LayerNorm(epsilon=1e-5, use_bias=False),
      lambda x, scale: _torch_layer_norm(x, scale, None),
    ),
    (AnnotatedLayerNorm(epsilon=1e-6), _annotated),
    (RMSNorm(epsilon=1e-6), _t5_norm),
    (
      RMSNorm(epsilon=1e-5),
      lambda x, scale: functional.rms_norm(x, (D,), scale, eps=1e-5),
    ),
  ],
)
def test_normalization(ours, theirs):
  arrays = [random(D, seed=1), random(D, seed=2)]
  if not getattr(ours, "use_bias", False):
    arrays.pop()

  def apply(x, *arrays):
    params = dict(zip(("scale", "bias"), arrays, strict=False))
    return ours.apply({"params": params}, x)

  assert_agree(apply, theirs, X + 3, *arrays)


@pytest.mark.parametrize("norm_first", [True, False])
def test_connections_of_a_decoder_layer(norm_first):
  """torch.nn.TransformerDecoderLayer, pre-norm and post-norm."""
  part = "pre_norm" if norm_first else "post_norm"
  sizes = {"EMBED_DIM": D, "NUM_HEADS": 3, "HEAD_DIM": D // 3, "MLP_DIM": F}
  model, _ = tiny_models.build(
    "transformer_2017", f"connections/{part}.gin", **sizes
  )
  layer = model.decoder.transformer.layer_stack.layer
  keywords = {
    "mask_B1LM": jnp.tril(jnp.ones((1, 1, L, L), bool)),
    "bias_1HLM": None,
    "positions": Positions.of_length(L),
    "deterministic": True,
  }
  memory = random(B, 5, D, seed=3)
  shapes = traverse_util.flatten_dict(
    jax.eval_shape(
      lambda: nn.unbox(layer.init(jax.random.key(0), X, memory, **keywords))
    )["params"],
    sep="/",
  )
  # A bias of keys cancels in the softmax: its gradient would be rounding.
  names = sorted(name for name in shapes if not name.endswith("key/bias"))
  arrays = [
    0.3 * random(*shapes[name].shape, seed=i) for i, name in enumerate(names)
  ]
  zero = np.zeros(D, np.float32)

  def ours(x, memory, *arrays):
    given = {name: zero for name in shapes} | dict(
      zip(names, arrays, strict=True)
    )
    params = traverse_util.unflatten_dict(given, sep="/")
    return layer.apply({"params": params}, x, memory, **keywords)

  module = torch.nn.TransformerDecoderLayer(
    D, 3, F, dropout=0.0, batch_first=True, norm_first=norm_first
  )
  place = "pre" if norm_first else "post"

  def theirs(x, memory, *tensors):
    given = {name: torch.tensor(zero) for name in shapes} | dict(
      zip(names, tensors, strict=True)
    )
    state = {
      f"linear{i}.{kind}": given[f"mlp/{name}/{leaf}"].t()
      for i, name in ((1, "wi"), (2, "wo"))
      for kind, leaf in (("weight", "kernel"), ("bias", "bias"))
    }
    for i, name in enumerate(("self_attention", "cross_attention", "mlp"), 1):
      state[f"norm{i}.weight"] = given[f"{place}_{name}_layer_norm/scale"]
      state[f"norm{i}.bias"] = given[f"{place}_{name}_layer_norm/bias"]
    for theirs, name in (
      ("self_attn", "self_attention"),
      ("multihead_attn", "encoder_decoder_attention"),
    ):
      for kind, leaf in (("weight", "kernel"), ("bias", "bias")):
        state[f"{theirs}.in_proj_{kind}"] = torch.cat(
          [
            given[f"{name}/{part}/{leaf}"].t()
            for part in ("query", "key", "value")
          ]
        )
        state[f"{theirs}.out_proj.{kind}"] = given[f"{name}/out/{leaf}"].t()
    return torch.func.functional_call(
      module,
      state,
      (x, memory),
      {"tgt_mask": torch.nn.Transformer.generate_square_subsequent_mask(L)},
    )

  assert_agree(ours, theirs, X, memory, *arrays, tolerance=2e-5)


@pytest.mark.parametrize("scale_scores", [True, False])
def test_attention_scale(scale_scores):
  """PyTorch's attention, with its own scale and with none."""
  heads, size = 3, D // 3
  attention = Attention(
    num_heads=heads, head_dim=size, num_kv_heads=1, scale_scores=scale_scores
  )
  names = ("query", "key", "value", "out")
  shapes = (D, D), (D, size), (D, size), (D, D)

  def ours(x, *kernels):
    params = {
      n: {"kernel": kernel} for n, kernel in zip(names, kernels, strict=True)
    }
    return attention.apply({"params": params}, x)

  def theirs(x, query, key, value, out):
    split = [
      (x @ kernel).unflatten(-1, (-1, size)).transpose(1, 2)
      for kernel in (query, key, value)
    ]
    context = functional.scaled_dot_product_attention(
      *split, enable_gqa=True, scale=None if scale_scores else 1.0
    )
    return context.transpose(1, 2).flatten(2) @ out

  kernels = [random(*shape, seed=i) * 0.2 for i, shape in enumerate(shapes)]
  assert_agree(ours, theirs, X, *kernels)


@pytest.mark.parametrize("inner", [None, 5])
def test_tied_and_factorized_softmax(inner):
  """ALBERT's projection of a narrow table, and of the output onto it."""
  config = transformers.AlbertConfig(
    vocab_size=30, embedding_size=inner or D, hidden_size=D, hidden_act="linear"
  )
  embed = Embed(num_embeddings=30, features=D, inner_features=inner)
  head = TiedLogits(scale_by_depth=False)
  tokens = np.random.RandomState(0).randint(0, 30, (B, L))

  def ours(x, table, *projection):
    params = {"embedding": table}
    if projection:
      params["projection"] = projection[0]
    bound = embed.bind({"params": params})
    return head.apply({}, x + bound(jnp.asarray(tokens)), bound)

  def theirs(x, table, *projection):
    matrix = projection[0] if projection else torch.eye(D)
    hidden = x + functional.embedding(torch.tensor(tokens), table) @ matrix
    mlm_head = AlbertMLMHead(config)
    mlm_head.LayerNorm = torch.nn.Identity()
    zero = torch.zeros(30)
    state = {
      "dense.weight": matrix,
      "dense.bias": zero[: inner or D],
      "decoder.weight": table,
      "decoder.bias": zero,
    }
    return torch.func.functional_call(mlm_head, state, hidden)

  arrays = [random(30, inner or D)]
  if inner:
    arrays.append(random(inner, D, seed=1))
  assert_agree(ours, theirs, X, *arrays)
