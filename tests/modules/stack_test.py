"""Stacks: layers one after another, draws, rematerialization, settings."""

import functools

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.feed_forward import Mlp
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.stack import REMAT_POLICIES
from transformer_zoo.modules.stack import Stack
from transformer_zoo.modules.stacks.other_layers import with_first_layer

X = np.random.RandomState(0).standard_normal((2, 3, 4)).astype(np.float32)


class LinearLayer(nn.Module):
  """The least layer: a matrix."""

  linear: nn.Module

  def __call__(self, x, *, deterministic):
    return self.linear(x, x.shape[-1])


def stack(**settings):
  return Stack(
    layer=LinearLayer(Linear(kernel_axes=("embed", "embed"))),
    num_layers=3,
    **settings,
  )


@pytest.mark.parametrize("scan", [False, True])
def test_applies_the_layers_in_order(scan):
  module = stack(scan=scan)
  (y, _), variables = programs.run(
    Stack.init_with_output, module, jax.random.key(0), X
  )
  params = nn.unbox(variables["params"])
  if scan:
    kernels = np.asarray(params["layers"]["linear"]["kernel"])
    names = variables["params"]["layers"]["linear"]["kernel"].names
    assert names == ("layers", "embed", "embed")
  else:
    kernels = [params[f"layers_{i}"]["linear"]["kernel"] for i in range(3)]
  expected = X
  for kernel in kernels:
    expected = expected @ np.asarray(kernel)
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
  assert np.ptp(np.stack(kernels), axis=0).min() > 0


class AddDropout(nn.Module):
  """Adds 0 or 2 to every feature."""

  @nn.compact
  def __call__(self, x, *, deterministic):
    return x + Dropout(rate=0.5)(jnp.ones_like(x), deterministic=deterministic)


@pytest.mark.parametrize("scan", [False, True])
def test_layers_draw_dropout_apart(scan):
  module = Stack(layer=AddDropout(), num_layers=2, scan=scan)
  y, _ = programs.apply(
    module,
    {},
    np.zeros((1, 1, 64), np.float32),
    deterministic=False,
    rngs={"dropout": jax.random.key(0)},
  )
  assert set(np.unique(y)) == {0.0, 2.0, 4.0}


@functools.cache
def value_and_gradient(**settings):
  shapes = jax.eval_shape(
    stack(scan=settings["scan"]).init, jax.random.key(0), X
  )
  random = np.random.RandomState(0)
  params = jax.tree.map(
    lambda leaf: random.standard_normal(leaf.shape).astype(np.float32),
    nn.unbox(shapes["params"]),
  )

  def total(params):
    return (stack(**settings).apply({"params": params}, X)[0] ** 3).sum()

  return jax.device_get(jax.jit(jax.value_and_grad(total))(params))


@pytest.mark.parametrize(
  "scan, remat",
  [
    *((True, remat) for remat in REMAT_POLICIES if remat != "none"),
    (False, "full"),
  ],
)
def test_what_is_computed_again_changes_nothing(scan, remat):
  for one, other in zip(
    jax.tree.leaves(value_and_gradient(scan=scan, remat=remat)),
    jax.tree.leaves(value_and_gradient(scan=scan)),
    strict=True,
  ):
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def t5_loss(remat):
  """A loss of four scanned layers, and its arguments."""
  layer = EncoderLayer(
    attention=Attention(num_heads=2, head_dim=8), mlp=Mlp(d_ff=32)
  )
  module = Stack(layer=layer, num_layers=4, scan=True, remat=remat)
  x = jnp.ones((4, 32, 16))
  keywords = {"mask_B1LM": None, "bias_1HLM": None}
  keywords["positions"] = Positions.of_length(32)
  params = jax.eval_shape(lambda: module.init(jax.random.key(0), x, **keywords))
  return (
    lambda params, x: jnp.sum(module.apply(params, x, **keywords)[0]),
    (params, x),
  )


@pytest.mark.slow
def test_computing_more_again_needs_less_memory():
  def temporaries(remat):
    loss, arguments = t5_loss(remat)
    lowered = jax.jit(jax.grad(loss)).lower(*arguments)
    return lowered.compile().memory_analysis().temp_size_in_bytes

  none, minimal, full = map(temporaries, ("none", "minimal", "full"))
  assert none > 1.2 * minimal > 1.2 * 1.2 * full


def test_what_is_offloaded_waits_in_the_memory_of_the_host():
  loss, arguments = t5_loss("offload")
  with tracing.compiling_for("tpu"):
    moves = str(jax.make_jaxpr(jax.grad(loss))(*arguments))
  assert "pinned_host" in moves or "<host>" in moves


def test_a_cpu_has_no_other_memory():
  loss, arguments = t5_loss("offload")
  with tracing.recorded_choices() as told:
    jax.eval_shape(loss, *arguments)
  assert (
    "remat 'offload' is 'minimal' on a CPU, whose memory is the host's"
    in (told)
  )


def test_an_unknown_remat_policy_is_refused():
  with pytest.raises(
    ValueError,
    match="unknown remat policy 'some'; allowed: none, minimal, offload, full",
  ):
    stack(remat="some")


class AddValue(nn.Module):
  """Adds what differs by layer."""

  def __call__(self, x, *, value, deterministic):
    return x + value


@pytest.mark.parametrize("scan", [False, True])
def test_each_layer_has_values_of_its_own(scan):
  """After the second layer all is doubled; every output is collected."""
  module = Stack(layer=AddValue(), num_layers=3, scan=scan)
  y, collected_N = programs.apply(
    module,
    {},
    X,
    by_layer={"value": np.array([1.0, 2.0, 3.0], np.float32)},
    after_layer=double_after_second,
    collect=negative,
  )
  outputs = X + 1, 2 * (X + 3), 2 * (X + 3) + 3
  np.testing.assert_allclose(y, outputs[-1], rtol=1e-6)
  np.testing.assert_allclose(collected_N, -np.stack(outputs), rtol=1e-6)


def double_after_second(x, number):
  return jnp.where(number == 1, 2 * x, x)


def negative(x):
  return -x


@pytest.mark.parametrize(
  "settings",
  [
    {"scan": False},
    {"scan": True},
    {"scan": True, "num_groups": 2},
    {"scan": False, "num_groups": 2},
  ],
  ids=str,
)
def test_one_layer_is_applied_again(settings):
  """The last but one of four, with its parameters."""
  layer = LinearLayer(Linear(kernel_axes=("embed", "embed")))
  module = Stack(layer=layer, num_layers=4, **settings)
  params = nn.unbox(programs.init(module, jax.random.key(0), X))["params"]
  if settings["scan"]:
    kernels = params["layers"]["linear"]["kernel"]
  else:
    kernels = [each["linear"]["kernel"] for each in params.values()]
  y, _ = programs.apply(module, {"params": params}, X, order=(2, 2))
  kernel = np.asarray(kernels[2 * len(kernels) // 4])
  expected = X @ kernel @ kernel
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_the_first_layer_may_be_another():
  other = AddOne()
  module = with_first_layer(stack(), other)
  params = nn.unbox(programs.init(module, jax.random.key(0), X))["params"]
  assert set(params) == {"layers_1", "layers_2"}
  y, _ = programs.apply(module, {"params": params}, X)
  kernels = [params[f"layers_{i}"]["linear"]["kernel"] for i in (1, 2)]
  expected = (X + 1) @ np.asarray(kernels[0]) @ np.asarray(kernels[1])
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
  with pytest.raises(UserError, match="bind SCAN_LAYERS = False"):
    with_first_layer(stack(scan=True), other)


class AddOne(nn.Module):
  """Adds 1."""

  def __call__(self, x, *, deterministic):
    return x + 1
