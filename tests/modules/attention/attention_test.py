"""Attention against numpy, its mask and its cache."""

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.attention.cache import Decoding
from transformer_zoo.modules.attention.contexts import SoftCappedScores
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions.relative_bias import RelativePositionBias
from transformer_zoo.modules.positions.rotary import Rotary

B, L, M, D, H, K = 2, 4, 5, 6, 3, 2
RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((B, L, D)).astype(np.float32)
MEMORY = RANDOM.standard_normal((B, M, D)).astype(np.float32)
BIAS = RANDOM.standard_normal((1, H, L, M)).astype(np.float32)
MASK = RANDOM.uniform(size=(B, 1, L, M)) < 0.6
MASK[..., 0] = True
PARAMS = {
  name: {"kernel": RANDOM.standard_normal(shape).astype(np.float32)}
  for name, shape in {
    "query": (D, H * K),
    "key": (D, H * K),
    "value": (D, H * K),
    "out": (H * K, D),
  }.items()
}


def reference(x, memory, mask, bias, bounded=lambda scores: scores):
  def heads(y, name):
    projected = y @ PARAMS[name]["kernel"]
    return projected.reshape(*y.shape[:2], H, K).transpose(0, 2, 1, 3)

  scores = heads(x, "query") @ heads(memory, "key").transpose(0, 1, 3, 2)
  scores = np.where(mask, bounded(scores) + bias, -np.inf)
  weights = np.exp(scores - scores.max(-1, keepdims=True))
  weights /= weights.sum(-1, keepdims=True)
  context = (weights @ heads(memory, "value")).transpose(0, 2, 1, 3)
  return context.reshape(*x.shape[:2], H * K) @ PARAMS["out"]["kernel"]


def attention(**settings):
  return Attention(num_heads=H, head_dim=K, **settings)


def apply(*arguments, **keywords):
  return programs.apply(attention(), {"params": PARAMS}, *arguments, **keywords)


def test_scores_may_be_scaled_otherwise_and_bounded():
  """Before the bias is added."""
  part = attention(
    scale_scores=True, scale_size=9, context=SoftCappedScores(cap=0.5)
  )
  y = programs.apply(
    part, {"params": PARAMS}, X, MEMORY, mask_B1LM=MASK, bias_1HLM=BIAS
  )
  expected = reference(
    X, MEMORY, MASK, BIAS, lambda scores: 0.5 * np.tanh(scores / 3 / 0.5)
  )
  np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
  assert np.abs(y - reference(X, MEMORY, MASK, BIAS)).max() > 0.1


def test_attends_to_a_memory():
  y = apply(X, MEMORY, mask_B1LM=MASK, bias_1HLM=BIAS)
  np.testing.assert_allclose(
    y, reference(X, MEMORY, MASK, BIAS), rtol=1e-4, atol=1e-4
  )


def test_attends_to_itself_without_mask_and_bias():
  y = apply(X)
  np.testing.assert_allclose(
    y, reference(X, X, True, 0.0), rtol=1e-4, atol=1e-4
  )


def test_what_is_masked_has_no_influence_and_gets_no_gradient():
  hidden = ~MASK.any(axis=(1, 2))
  mask = MASK.copy()
  mask[:, :, :, 3] = False
  hidden[:, 3] = True

  def masked(memory):
    return apply(X, memory, mask_B1LM=mask, bias_1HLM=BIAS)

  changed = np.where(hidden[..., None], 1e3, MEMORY).astype(np.float32)
  np.testing.assert_array_equal(masked(MEMORY), masked(changed))
  gradient = jax.jit(jax.grad(lambda memory: masked(memory).sum()))(MEMORY)
  gradient = np.asarray(gradient)
  assert (gradient[hidden] == 0).all()
  assert (gradient[~hidden] != 0).all()


def test_a_query_without_any_key_stays_finite():
  mask = np.zeros_like(MASK)
  y = apply(X, MEMORY, mask_B1LM=mask, bias_1HLM=BIAS)
  mean = MEMORY.mean(1, keepdims=True) @ PARAMS["value"]["kernel"]
  expected = np.broadcast_to(mean @ PARAMS["out"]["kernel"], y.shape)
  np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("slots_last", [True, False])
@pytest.mark.parametrize("memory", [None, MEMORY])
def test_with_a_cache_step_by_step_equals_all_at_once(memory, slots_last):
  causal = np.tri(L, dtype=bool)[None, None] if memory is None else None
  expected = np.asarray(apply(X, memory, mask_B1LM=causal))
  variables = {"params": PARAMS}
  for position in range(L):
    seen = (np.arange(L) <= position)[None, None, None]
    y, cache = programs.apply(
      attention(),
      variables,
      X[:, position : position + 1],
      memory,
      mask_B1LM=seen if memory is None else None,
      decoding=Decoding(
        position=np.asarray(position), length=L, slots_last=slots_last
      ),
      mutable="cache",
    )
    variables = {"params": PARAMS, **cache}
    np.testing.assert_allclose(
      y, expected[:, position : position + 1], rtol=1e-5, atol=1e-5
    )
  kept = jax.tree.map(jnp.shape, variables["cache"])
  length = L if memory is None else M
  shape = (B, H, K, length) if slots_last else (B, H, length, K)
  assert kept == {"cached_key": shape, "cached_value": shape}


def test_keys_and_values_of_a_memory_are_projected_once():
  decoding = Decoding(position=np.asarray(0), length=L)
  _, cache = programs.apply(
    attention(),
    {"params": PARAMS},
    X[:, :1],
    MEMORY,
    decoding=decoding,
    mutable="cache",
  )
  again, _ = programs.apply(
    attention(),
    {"params": PARAMS, **cache},
    X[:, :1],
    np.full_like(MEMORY, np.nan),
    decoding=decoding,
    mutable="cache",
  )
  np.testing.assert_allclose(again, apply(X[:, :1], MEMORY), rtol=1e-5)


def test_computes_in_bfloat16_with_a_float32_softmax():
  x = X.astype(jnp.bfloat16)
  y = apply(x)
  assert y.dtype == jnp.bfloat16
  # A score of 300 shifts every other: a bfloat16 softmax of 256 and 257
  # would not tell them apart.
  bias = np.zeros((1, H, L, L), np.float32)
  bias[..., 0], bias[..., 1] = 256.0, 257.0
  close = apply(x * jnp.bfloat16(1e-3), bias_1HLM=bias)
  far = apply(x * jnp.bfloat16(1e-3), bias_1HLM=bias - 256.0)
  np.testing.assert_allclose(
    np.asarray(close, np.float32), np.asarray(far, np.float32), rtol=0.02
  )


def test_dropout_acts_on_the_weights():
  dropped = programs.apply(
    attention(dropout=Dropout(rate=0.5)),
    {"params": PARAMS},
    X,
    MEMORY,
    deterministic=False,
    rngs={"dropout": jax.random.key(0)},
  )
  # One draw for all queries: keys vanish, or weigh twice.
  assert not np.allclose(dropped, apply(X, MEMORY))
  assert np.isfinite(dropped).all()


def test_parameters_are_labelled():
  params = jax.eval_shape(attention().init, jax.random.key(0), X)["params"]
  labels = {name: leaf["kernel"].names for name, leaf in params.items()}
  into = ("embed", "joined_kv")
  assert labels == {
    "query": into, "key": into, "value": into, "out": into[::-1]
  }  # fmt: skip


def test_scores_scaled_by_the_head_size():
  scaled = programs.apply(attention(scale_scores=True), {"params": PARAMS}, X)
  smaller = {
    **PARAMS,
    "query": {"kernel": PARAMS["query"]["kernel"] / np.sqrt(K)},
  }
  np.testing.assert_allclose(
    scaled,
    programs.apply(attention(), {"params": smaller}, X),
    rtol=1e-5,
    atol=1e-5,
  )


@pytest.mark.parametrize("groups", [1, 2])
def test_grouped_queries_are_shared_keys_and_values_repeated(groups):
  grouped = Attention(num_heads=4, head_dim=K, num_kv_heads=groups)
  causal = np.asarray(masks.causal_mask(L))
  shapes = nn.unbox(jax.eval_shape(grouped.init, jax.random.key(0), X))
  random = np.random.RandomState(0)
  params = jax.tree.map(
    lambda leaf: random.standard_normal(leaf.shape).astype(np.float32),
    shapes["params"],
  )
  y = programs.apply(grouped, {"params": params}, X, mask_B1LM=causal)
  assert params["key"]["kernel"].shape == (D, groups * K)
  repeated = {
    name: {
      "kernel": np.repeat(
        np.asarray(params[name]["kernel"]).reshape(D, groups, K),
        4 // groups,
        axis=1,
      ).reshape(D, 4 * K)
    }
    for name in ("key", "value")
  }
  expected = programs.apply(
    Attention(num_heads=4, head_dim=K),
    {"params": {**params, **repeated}},
    X,
    mask_B1LM=causal,
  )
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [0, 3, 8])
def test_heads_that_cannot_be_shared_are_refused(groups):
  with pytest.raises(ValueError, match=f"4 heads cannot share {groups} heads"):
    Attention(num_heads=4, head_dim=K, num_kv_heads=groups)


def test_a_layer_may_have_a_bias_of_its_own():
  own = RelativePositionBias(num_heads=H, bidirectional=True)
  table = RANDOM.standard_normal((H, 32)).astype(np.float32)
  y = programs.apply(
    attention(position_bias=own),
    {"params": {**PARAMS, "relpos_bias": {"rel_embedding": table}}},
    X,
  )
  bias = programs.apply(
    own, {"params": {"rel_embedding": table}}, Positions.of_length(L)
  )
  np.testing.assert_allclose(y, apply(X, bias_1HLM=bias), rtol=1e-5, atol=1e-5)


def test_rotary_turns_queries_and_keys_of_self_attention_alone():
  turned = attention(rotary=Rotary())
  y = np.asarray(programs.apply(turned, {"params": PARAMS}, X))
  assert np.abs(y - np.asarray(apply(X))).max() > 1e-3
  there = Positions.of_length(L)
  there = there.replace(query_1L=there.query_1L + 9, key_1M=there.key_1M + 9)
  np.testing.assert_allclose(
    y,
    programs.apply(turned, {"params": PARAMS}, X, positions=there),
    rtol=1e-4,
    atol=1e-4,
  )
  np.testing.assert_array_equal(
    programs.apply(turned, {"params": PARAMS}, X, MEMORY), apply(X, MEMORY)
  )
