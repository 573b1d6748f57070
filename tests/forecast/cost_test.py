"""Costs counted from the jaxpr: by hand, and as XLA counts without loops."""

import functools

import jax
from jax.experimental import pallas
from jax.extend import core
import jax.numpy as jnp
from jax.sharding import PartitionSpec
import pytest

from tests import tiny_t5
from transformer_zoo.errors import UserError
from transformer_zoo.forecast import cost
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.monitoring import summary

ROWS, INPUTS, TARGETS = 4, 16, 12
# Those of the tiny model of conftest.py.
D, F, HK, V = 16, 32, 32, 64


def shape(*sizes, dtype=jnp.float32):
  return jax.ShapeDtypeStruct(sizes, dtype)


def layer_flops(length, memory_length=0):
  """Products of a gated T5 layer over one row, in multiply-adds times two."""
  projections = 4 * length * D * HK
  attention = 2 * length * length * HK
  if memory_length:
    projections += 2 * (length + memory_length) * D * HK
    attention += 2 * length * memory_length * HK
  return 2 * (projections + attention + 3 * length * D * F)


FORWARD = ROWS * (
  layer_flops(INPUTS) + layer_flops(TARGETS, INPUTS) + 2 * TARGETS * D * V
)


@pytest.fixture(scope="module")
def of_gradient(make_model):
  """Returns a function: macros -> the cost of the loss's gradient."""

  def of(**macros):
    model = make_model(**macros)
    return cost.count(jax.value_and_grad(loss(model)), *arguments(model))

  return functools.cache(of)


def loss(model):
  return lambda params, batch: tiny_t5.loss_and_sums(model, params, batch)[0]


def arguments(model):
  params = state_lib.abstract_params(model)
  names = (
    "decoder_input_tokens",
    "decoder_target_tokens",
    "decoder_loss_weights",
  )
  batch = {name: shape(ROWS, TARGETS, dtype=jnp.int32) for name in names}
  batch["encoder_input_tokens"] = shape(ROWS, INPUTS, dtype=jnp.int32)
  return params, batch


@pytest.mark.slow
def test_products_of_a_t5_model_are_those_of_the_formula(
  make_model, of_gradient
):
  model = make_model()
  forward = cost.count(loss(model), *arguments(model))
  gradient = of_gradient()
  assert forward.matmul_flops == FORWARD
  assert gradient.matmul_flops == 3 * FORWARD
  # On sizes as small as these other arithmetic counts too.
  assert 1.0 < gradient.flops / gradient.matmul_flops < 1.5


@pytest.mark.slow
def test_a_scan_costs_its_length_times_a_layer(of_gradient):
  layers = {"NUM_ENCODER_LAYERS": 3, "NUM_DECODER_LAYERS": 2}
  scanned = of_gradient(SCAN_LAYERS=True, **layers)
  looped = of_gradient(SCAN_LAYERS=False, **layers)
  assert scanned.matmul_flops == looped.matmul_flops
  assert scanned.flops == pytest.approx(looped.flops, rel=0.01)


@pytest.mark.slow
def test_what_is_computed_again_is_counted_again(of_gradient):
  none, minimal, full = (
    of_gradient(REMAT=policy).matmul_flops
    for policy in ("none", "minimal", "full")
  )
  assert none == 3 * FORWARD < minimal < full < 4 * FORWARD
  # Products with a batch dimension, scores and contexts, are not kept.
  pairs = INPUTS**2 + TARGETS**2 + INPUTS * TARGETS
  assert minimal - none == ROWS * 2 * (2 * pairs * HK)


@pytest.mark.slow
def test_flops_are_those_of_xla_where_nothing_is_scanned(
  make_model, of_gradient
):
  model = make_model()
  lowered = jax.jit(jax.value_and_grad(loss(model))).lower(*arguments(model))
  theirs = lowered.compile().cost_analysis()
  flops = theirs["flops"] + theirs["transcendentals"]
  assert of_gradient().flops == pytest.approx(flops, rel=0.03)


def test_model_summary_counts_alike(make_model):
  assert summary.forward_flops(make_model(), INPUTS, TARGETS) == FORWARD // ROWS


def test_a_product_reads_its_operands_and_writes_its_result():
  x, y = shape(8, 16), shape(16, 4)
  assert cost.count(jnp.matmul, x, y) == cost.Cost(
    flops=2 * 8 * 16 * 4,
    matmul_flops=2 * 8 * 16 * 4,
    bytes_accessed=4 * (8 * 16 + 16 * 4 + 8 * 4),
  )


def test_attention_of_cudnn_costs_its_products():
  name = "dot_product_attention_fwd_wrapper"
  attention = core.Primitive(name)
  attention.def_abstract_eval(lambda query, key, value: query)
  query_BLHK, key_BMGK = shape(2, 6, 4, 8), shape(2, 10, 2, 8)
  found = cost.count(attention.bind, query_BLHK, key_BMGK, key_BMGK)
  assert found.flops == found.matmul_flops == 2 * (2 * 2 * 4 * 6 * 10 * 8)


def test_a_kernel_moves_a_block_whenever_a_step_has_another():
  """Two passes over three blocks of x, each into one block of the result."""

  def kernel(x, out):
    out[...] = x[...]

  def copy(x):
    return pallas.pallas_call(
      kernel,
      grid=(2, 3),
      in_specs=[pallas.BlockSpec((1, 8), lambda i, j: (j, 0))],
      out_specs=pallas.BlockSpec((1, 8), lambda i, j: (i, 0)),
      out_shape=shape(2, 8),
    )(x)

  found = cost.count(copy, shape(3, 8))
  assert found.bytes_accessed == 4 * 8 * (2 * 3 + 2)


def test_elementwise_chains_read_and_write_once():
  found = cost.count(lambda x: jnp.tanh(x * 2.0) + 1.0, shape(100))
  assert found == cost.Cost(flops=300, bytes_accessed=4 * 200)


def test_what_nothing_uses_is_free():
  def function(x):
    _ = x @ x
    return x + 1.0

  assert cost.count(function, shape(8, 8)).matmul_flops == 0


def test_a_lookup_reads_rows_and_not_the_table():
  ids = shape(5, dtype=jnp.int32)
  found = cost.count(lambda t, i: t[i], shape(1000, 8), ids)
  assert found.bytes_accessed < 4 * 8 * 1000


def test_the_most_expensive_branch_is_counted():
  def function(x, chosen):
    return jax.lax.cond(chosen, lambda x: x @ x, lambda x: x, x)

  found = cost.count(function, shape(8, 8), shape(dtype=jnp.bool_))
  assert found.matmul_flops == 2 * 8**3


def test_a_mapped_body_costs_its_devices():
  auto = jax.sharding.AxisType.Auto
  mesh = jax.make_mesh((8,), ("data",), axis_types=(auto,))
  rows = PartitionSpec("data")
  mapped = jax.shard_map(
    lambda x, y: x @ y,
    mesh=mesh,
    in_specs=(rows, PartitionSpec()),
    out_specs=rows,
  )
  found = cost.count(mapped, shape(16, 4), shape(4, 4))
  assert found.matmul_flops == 2 * 16 * 4 * 4


def test_a_loop_of_unknown_length_is_refused_unless_it_is_given():
  def function(x):
    return jax.lax.while_loop(lambda x: x[0, 0] < 1.0, lambda x: x @ x, x)

  assert cost.count(function, shape(4, 4), while_trips=7).matmul_flops == (
    7 * 2 * 4**3
  )
  with pytest.raises(UserError) as caught:
    cost.count(function, shape(4, 4))
  assert str(caught.value) == (
    "the cost of a while loop depends on how often it runs, which its program "
    "does not say; give while_trips"
  )
