"""Heads: logits from a stack's output."""

from flax import linen as nn
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.modules.embedding import Embed
from transformer_zoo.modules.heads import LinearLogits
from transformer_zoo.modules.heads import TiedLogits

RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((2, 3, 16)).astype(np.float32)
TABLE = RANDOM.standard_normal((11, 16)).astype(np.float32)


class Tied(nn.Module):
  head: nn.Module
  embedder: nn.Module

  def __call__(self, x):
    return self.head(x, self.embedder)


def tied(head, x):
  model = Tied(head, Embed(num_embeddings=11, features=16))
  return model.apply({"params": {"embedder": {"embedding": TABLE}}}, x)


@pytest.mark.parametrize(("scaled", "factor"), [(True, 0.25), (False, 1.0)])
def test_tied_logits(scaled, factor):
  y = tied(TiedLogits(scale_by_depth=scaled), X)
  np.testing.assert_allclose(y, factor * X @ TABLE.T, rtol=1e-5, atol=1e-5)


def test_tied_logits_of_bfloat16_are_float32():
  y = tied(TiedLogits(), jnp.asarray(X, jnp.bfloat16))
  assert y.dtype == jnp.float32


def test_linear_logits_are_computed_in_float32():
  x = jnp.asarray(X, jnp.bfloat16)
  kernel = RANDOM.standard_normal((16, 11)).astype(np.float32)
  y = LinearLogits().apply(
    {"params": {"logits_dense": {"kernel": kernel}}},
    x,
    Embed(num_embeddings=11, features=16),
  )
  assert y.dtype == jnp.float32
  expected = np.asarray(x, np.float32) @ kernel
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_tied_logits_may_have_a_bias():
  model = Tied(
    TiedLogits(scale_by_depth=False, use_bias=True),
    Embed(num_embeddings=11, features=16),
  )
  bias = RANDOM.standard_normal(11).astype(np.float32)
  params = {"embedder": {"embedding": TABLE}, "head": {"logits_bias": bias}}
  np.testing.assert_allclose(
    model.apply({"params": params}, X), X @ TABLE.T + bias, rtol=1e-5, atol=1e-5
  )
