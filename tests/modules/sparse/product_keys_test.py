"""A memory of product keys against a search of all keys."""

from flax import linen as nn
import jax
import numpy as np
import pytest

from tests import programs
from transformer_zoo.errors import UserError
from transformer_zoo.modules.sparse.product_keys import ProductKeyMemory

HEADS, KEYS, HALF, READ, WIDTH = 2, 6, 4, 3, 5
X = np.random.RandomState(0).standard_normal((2, 7, WIDTH)).astype(np.float32)


def test_each_head_reads_the_best_of_all_pairs_of_half_keys():
  module = ProductKeyMemory(
    num_keys=KEYS, key_dim=2 * HALF, num_heads=HEADS, num_read=READ
  )
  variables = nn.unbox(
    programs.init(module, jax.random.key(0), X, deterministic=True)
  )
  found = programs.apply(module, variables, X, deterministic=True)
  params = jax.device_get(variables["params"])
  keys = params["keys"].reshape(HEADS, 2, KEYS, HALF)
  queries = X @ params["query"]["kernel"] + params["query"]["bias"]
  expected = np.zeros_like(X)
  for place in np.ndindex(X.shape[:2]):
    halves = queries[place].reshape(HEADS, 2, HALF)
    halves = halves - halves.mean(-1, keepdims=True)
    halves /= np.sqrt((halves**2).mean(-1, keepdims=True) + 1e-6)
    for head in range(HEADS):
      first, second = (keys[head, i] @ halves[head, i] for i in range(2))
      scores = (first[:, None] + second).ravel()
      best = np.argsort(-scores)[:READ]
      weights = np.exp(scores[best]) / np.exp(scores[best]).sum()
      expected[place] += weights @ params["values"][best]
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
  ("settings", "sentence"),
  [
    ({"key_dim": 3}, "key_dim is 3; it must be even"),
    ({"num_read": 7}, "num_read is 7; it must be from 1 to num_keys, 6"),
  ],
)
def test_refusals(settings, sentence):
  sizes = {"num_keys": KEYS, "key_dim": 4, "num_heads": 1, "num_read": 1}
  with pytest.raises(UserError, match=sentence):
    ProductKeyMemory(**{**sizes, **settings})
