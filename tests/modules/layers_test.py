"""Layers: what a block computes and how its parameters are called."""

import functools

from flax import linen as nn
import jax
import numpy as np

from tests import programs
from transformer_zoo.modules import connections
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.feed_forward import Mlp
from transformer_zoo.modules.layers import DecoderLayer
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.modules.normalization import rms_norm

X = np.random.RandomState(0).standard_normal((2, 3, 6)).astype(np.float32)
ONES = np.ones(6, np.float32)


def attention():
  return Attention(num_heads=2, head_dim=3)


def encoder_layer(**settings):
  return EncoderLayer(attention=attention(), mlp=Mlp(d_ff=5), **settings)


@functools.cache
def run(layer):
  """The output of a layer, and its random parameters."""
  keywords = {
    "mask_B1LM": None,
    "bias_1HLM": None,
    "positions": None,
    "deterministic": True,
  }
  shapes = jax.eval_shape(
    functools.partial(layer.init, **keywords), jax.random.key(0), X
  )
  random = np.random.RandomState(1)
  variables = jax.tree.map(
    lambda leaf: random.standard_normal(leaf.shape).astype(np.float32),
    nn.unbox(shapes),
  )
  for name, value in variables["params"].items():
    if name.endswith("norm"):
      value["scale"] = ONES
  return programs.apply(layer, variables, X, **keywords), variables


def test_pre_norm_encoder_layer_is_the_sum_of_its_sublayers():
  y, variables = run(encoder_layer())
  params = variables["params"]

  @jax.jit
  def by_sublayers(params):
    normed = rms_norm(X, ONES, 1e-6)
    x = X + attention().apply({"params": params["attention"]}, normed)
    normed = rms_norm(x, ONES, 1e-6)
    return x + Mlp(d_ff=5).apply(
      {"params": params["mlp"]}, normed, deterministic=True
    )

  np.testing.assert_allclose(y, by_sublayers(params), rtol=1e-5, atol=1e-5)


def test_post_norm_is_a_setting():
  y, _ = run(encoder_layer(connect=connections.post_norm))
  np.testing.assert_allclose((np.asarray(y) ** 2).mean(-1), 1.0, rtol=1e-3)


def test_encoder_layer_parameters():
  _, variables = run(encoder_layer())
  assert set(variables["params"]) == {
    "attention", "mlp", "pre_attention_layer_norm", "pre_mlp_layer_norm"
  }  # fmt: skip


def test_decoder_layer_parameters():
  layer = DecoderLayer(
    self_attention=attention(),
    encoder_decoder_attention=attention(),
    mlp=Mlp(d_ff=5),
  )
  variables = jax.eval_shape(
    functools.partial(
      layer.init,
      mask_B1LM=None,
      bias_1HLM=None,
      positions=None,
      encoder_mask_B1LM=None,
      decoding=None,
      deterministic=True,
    ),
    jax.random.key(0),
    X,
    X,
  )
  assert set(variables["params"]) == {
    "self_attention",
    "encoder_decoder_attention",
    "mlp",
    "pre_self_attention_layer_norm",
    "pre_cross_attention_layer_norm",
    "pre_mlp_layer_norm",
  }
