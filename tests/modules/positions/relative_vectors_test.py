"""Vectors by distance against the sums that define them."""

from flax import linen as nn
import jax
import numpy as np
import pytest

from tests import programs
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions.relative_vectors import RelativeVectors

B, L, H, K = 2, 6, 3, 4
RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((B, L, 5)).astype(np.float32)


def shaw_attention(params, x, limit, num_heads_of_table):
  """Shaw et al. 2018, equations 3 and 4, pair by pair."""

  def heads(name):
    return (x @ params[name]["kernel"]).reshape(B, L, H, K)

  query, key, value = heads("query"), heads("key"), heads("value")
  vectors = params["relative_vectors"]
  context = np.zeros((B, L, H, K))
  for b in range(B):
    for h in range(H):
      own = h if num_heads_of_table else slice(None)
      a_key = vectors["relative_keys"][own]
      a_value = 0 * a_key
      if "relative_values" in vectors:
        a_value = vectors["relative_values"][own]
      for i in range(L):
        rows = np.clip(np.arange(L) - i, -limit, limit) + limit
        scores = (key[b, :, h] + a_key[rows]) @ query[b, i, h]
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        context[b, i, h] = weights @ (value[b, :, h] + a_value[rows])
  return context.reshape(B, L, H * K) @ params["out"]["kernel"]


@pytest.mark.parametrize("limit", [2, 16])
@pytest.mark.parametrize("with_values", [True, False])
@pytest.mark.parametrize("num_heads", [None, H])
def test_attention_with_them(limit, with_values, num_heads):
  attention = Attention(
    num_heads=H,
    head_dim=K,
    relative_vectors=RelativeVectors(
      head_dim=K,
      max_distance=limit,
      with_values=with_values,
      num_heads=num_heads,
    ),
  )
  shapes = nn.unbox(jax.eval_shape(attention.init, jax.random.key(0), X))
  random = np.random.RandomState(0)
  params = jax.tree.map(
    lambda leaf: random.standard_normal(leaf.shape).astype(np.float32) / 2,
    shapes["params"],
  )
  y = programs.apply(attention, {"params": params}, X)
  expected = shaw_attention(params, X, limit, num_heads)
  np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


def test_distances_alone_matter():
  module = RelativeVectors(head_dim=K)
  query = RANDOM.standard_normal((B, L, H, K)).astype(np.float32)
  here = Positions.of_length(L)
  there = Positions(here.query_1L + 70, here.key_1M + 70)
  variables = programs.init(
    module, jax.random.key(0), query, here, method="scores"
  )
  np.testing.assert_array_equal(
    programs.apply(module, variables, query, here, method="scores"),
    programs.apply(module, variables, query, there, method="scores"),
  )


def test_no_distance_at_all_is_refused():
  with pytest.raises(UserError, match="max_distance is 0; it must be at least"):
    RelativeVectors(head_dim=K, max_distance=0)
