"""Attention in blocks against whole scores; sums of blocks by hand."""

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from tests.modules.attention import fused_test
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.attention.banded import BandedAttention
from transformer_zoo.modules.attention.dot_product import dot_product_attention
from transformer_zoo.modules.attention.dot_product import REFERENCE
from transformer_zoo.modules.attention.summaries import BlockSums
from transformer_zoo.modules.dropout import Draw
from transformer_zoo.modules.positions import Bias
from transformer_zoo.modules.positions import Positions

B, L, H, K = fused_test.B, 23, 4, 8
normal = fused_test.normal


def windowed(mask, window, *, bidirectional=True):
  positions = Positions.of_length(L, bidirectional=bidirectional)
  return masks.windowed(mask, positions, window)


MASKS = {
  "everything": lambda: windowed(None, 5),
  "packed": lambda: windowed(fused_test.packed(L, L), 5),
  "causal": lambda: windowed(
    fused_test.texts_and_causal(L, L), 3, bidirectional=False
  ),
  "one block": lambda: windowed(fused_test.packed(L, L), 40),
  "itself": lambda: windowed(None, 1),
}


def context(kernel, given, mask, keep):
  query, key, value, by_distance_1HR = given
  bias = None
  if by_distance_1HR is not None:
    distance_LM = np.arange(L)[None] - np.arange(L)[:, None] + L - 1
    bias = Bias(by_distance_1HR[..., distance_LM], by_distance_1HR)
  return dot_product_attention(
    query, key, value, mask_B1LM=mask, bias_1HLM=bias, keep_BH1M=keep,
    kernel=kernel,
  )  # fmt: skip


def of_tokens(kernel, given, mask, keep, real_BL, cotangent):
  """The context of queries that see something, and its gradients."""

  def total(given):
    found = context(kernel, given, mask, keep)
    found = jnp.where(real_BL[..., None, None], found, 0)
    return jnp.sum(found * cotangent), found

  gradients, found = jax.grad(total, has_aux=True)(given)
  return found, gradients


@pytest.mark.parametrize(
  "mask, groups, has_bias, keeps, group_bytes",
  [
    ("packed", 2, True, True, 1),
    *(
      pytest.param(*case, marks=pytest.mark.slow)
      for case in (
        ("everything", 1, False, True, 2**26),
        ("causal", 4, True, False, 5000),
        ("one block", 4, True, True, 1),
        ("itself", 4, True, False, 1),
      )
    ),
  ],
)
def test_blocks_equal_whole_scores(mask, groups, has_bias, keeps, group_bytes):
  mask = MASKS[mask]()
  given = (
    normal(0, B, L, H, K),
    normal(1, B, L, groups, K),
    normal(2, B, L, groups, K),
    normal(3, 1, H, 2 * L - 1) if has_bias else None,
  )
  keep = None
  if keeps:
    shared = frozenset((2,))
    keep = Draw(jax.random.key(0), 0.7, (B, H, L, L), jnp.float32, shared)
  real_BL = masks.tokens(mask)
  if real_BL is None:
    real_BL = np.ones((B, L), bool)
  case = given, mask, keep, real_BL, normal(4, B, L, H, K)
  expected = programs.run(of_tokens, REFERENCE, *case)
  found = programs.run(of_tokens, BandedAttention(group_bytes), *case)
  jax.tree.map(
    lambda one, other: np.testing.assert_allclose(
      one, other, rtol=2e-5, atol=2e-5
    ),
    found,
    expected,
  )


def test_weights_that_are_dropped_pair_by_pair_keep_their_mean():
  mask = windowed(None, 5)
  value = np.ones((B, L, H, 1), np.float32)
  given = normal(0, B, L, H, 1), normal(1, B, L, H, 1), value, None
  keep = Draw(jax.random.key(0), 0.5, (B, H, L, L), jnp.float32, frozenset())
  found = programs.run(context, BandedAttention(), given, mask, keep)
  assert len(np.unique(np.round(found, 4))) > 100
  np.testing.assert_allclose(np.mean(found), 1, atol=0.1)


def test_there_is_no_array_of_queries_by_keys():
  length = 4096
  attention = Attention(
    num_heads=2, head_dim=4, radius=15, summaries=BlockSums(block=256)
  )
  positions = Positions.of_length(length, bidirectional=True)
  x = jax.ShapeDtypeStruct((1, length, 8), jnp.float32)
  params = jax.eval_shape(
    lambda x: attention.init(jax.random.key(0), x, positions=positions), x
  )

  def loss(params, x):
    return attention.apply(params, x, positions=positions).sum()

  gradient = jax.jit(jax.grad(loss, (0, 1))).lower(params, x).compile()
  found = gradient.memory_analysis().temp_size_in_bytes
  # Even of booleans one for each pair were 2^24 bytes.
  assert found < 2**24


class Unchanged(nn.Module):
  """In the place of a norm."""

  def __call__(self, x):
    return x


def test_blocks_are_counted_from_the_first_token_of_a_text():
  x_BLD = np.arange(1.0, 15.0, dtype=np.float32).reshape(1, 14, 1)
  ids_BL = np.array([[1] * 8 + [2] * 2 + [3] * 3 + [masks.NO_QUERY]])
  sums = programs.apply(BlockSums(block=3, norm=Unchanged()), {}, x_BLD, ids_BL)
  # The last two of text 1 are of its second block; text 2 is too short.
  np.testing.assert_array_equal(
    sums.places_BL, [[0] * 3 + [1] * 5 + [-1] * 2 + [2] * 3 + [-1]]
  )
  np.testing.assert_array_equal(
    sums.sums_BSD[..., 0], [[1 + 2 + 3, 4 + 5 + 6 + 7 + 8, 11 + 12 + 13, 0]]
  )
  np.testing.assert_array_equal(sums.ids_BS, [[1, 1, 3, masks.NO_KEY]])
