"""Stacks: settings, and what stands around the layers."""

import functools

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from transformer_zoo import tracing
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.feed_forward import Mlp
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.normalization import LayerNorm
from transformer_zoo.modules.positions.absolute import SinusoidalPositions
from transformer_zoo.modules.stack import REMAT_POLICIES
from transformer_zoo.modules.stack import Stack

X = np.random.RandomState(0).standard_normal((2, 3, 4)).astype(np.float32)


class LinearLayer(nn.Module):
  """The least layer: a matrix; its keywords are a stack's."""

  linear: nn.Module

  def __call__(self, x, *, mask_B1LM, bias_1HLM, positions, deterministic):
    return self.linear(x, x.shape[-1])


def stack(**settings):
  return Stack(
    layer=LinearLayer(Linear(kernel_axes=("embed", "embed"))),
    num_layers=3,
    **settings,
  )


@pytest.mark.parametrize("scan", [False, True])
def test_applies_the_layers_in_order_without_a_norm(scan):
  module = stack(scan=scan, norm=None)
  y, variables = programs.run(
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


def test_final_norm_has_the_name_that_is_given():
  module = stack(norm_name="encoder_norm")
  params = jax.eval_shape(module.init, jax.random.key(0), X)["params"]
  assert set(params) == {"layers_0", "layers_1", "layers_2", "encoder_norm"}


@pytest.mark.parametrize("scan", [False, True])
def test_dropout_stands_before_the_layers_and_after_the_norm(scan):
  module = stack(scan=scan, dropout=Dropout(rate=0.5))
  y, _ = programs.run(
    Stack.init_with_output,
    module,
    {"params": jax.random.key(0), "dropout": jax.random.key(1)},
    np.ones((4, 6, 64), np.float32),
    deterministic=False,
  )
  zero = np.asarray(y) == 0
  np.testing.assert_array_equal(zero, np.broadcast_to(zero[:, :1], zero.shape))
  assert 0.3 < zero.mean() < 0.7


class AddDropout(nn.Module):
  """Adds 0 or 2 to every feature."""

  @nn.compact
  def __call__(self, x, *, mask_B1LM, bias_1HLM, positions, deterministic):
    return x + Dropout(rate=0.5)(jnp.ones_like(x), deterministic=deterministic)


@pytest.mark.parametrize("scan", [False, True])
def test_layers_draw_dropout_apart(scan):
  module = Stack(layer=AddDropout(), num_layers=2, norm=None, scan=scan)
  y = programs.apply(
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
    return (stack(**settings).apply({"params": params}, X) ** 3).sum()

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
  params = jax.eval_shape(lambda: module.init(jax.random.key(0), x))
  return lambda params, x: jnp.sum(module.apply(params, x)), (params, x)


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


class SeenLayer(nn.Module):
  """Adds the number of tokens that each token may attend to."""

  def __call__(self, x, *, mask_B1LM, bias_1HLM, positions, deterministic):
    return x + jnp.sum(mask_B1LM, axis=-1)[:, 0, :, None]


@pytest.mark.parametrize("scan", [False, True])
def test_windows_alternate_over_the_layers(scan):
  length = 6
  causal = masks.causal_mask(length)

  def seen(num_layers):
    module = Stack(
      layer=SeenLayer(),
      num_layers=num_layers,
      windows=(None, 2),
      norm=None,
      scan=scan,
    )
    x = np.zeros((1, length, 1), np.float32)
    y = programs.apply(module, {}, x, mask_B1LM=causal)
    return np.asarray(y)[0, :, 0]

  dense, banded = np.arange(1, 7), np.minimum(np.arange(1, 7), 2)
  np.testing.assert_array_equal(seen(1), dense)
  np.testing.assert_array_equal(seen(2), dense + banded)
  np.testing.assert_array_equal(seen(5), 3 * dense + 2 * banded)


class SameLayer(nn.Module):
  """Changes nothing."""

  def __call__(self, x, **keywords):
    return x


class AddOne:
  """What stands for a convolution: 1 is added where it is joined."""

  def __call__(self, x_BLD, mask_B1LM, *, deterministic):
    return jnp.ones_like(x_BLD), {}

  def join(self, y_BLD, added_BLD, params):
    return y_BLD + added_BLD


@pytest.mark.parametrize("scan", [False, True])
def test_a_convolution_is_joined_to_the_first_layer_alone(scan):
  module = Stack(
    layer=SameLayer(),
    num_layers=3,
    convolution=AddOne(),
    norm=None,
    scan=scan,
  )
  np.testing.assert_array_equal(programs.apply(module, {}, X), X + 1)


class ScaleLayer(nn.Module):
  """Adds what its scores are multiplied by."""

  @nn.compact
  def __call__(self, x_BLD, *, score_scale, **keywords):
    del keywords
    return x_BLD + score_scale


@pytest.mark.parametrize("scan", [False, True])
def test_scores_are_divided_by_the_number_of_the_layer(scan):
  module = Stack(
    layer=ScaleLayer(),
    num_layers=4,
    divide_scores_by_depth=True,
    norm=None,
    scan=scan,
  )
  np.testing.assert_allclose(
    programs.apply(module, {}, X), X + 1 + 1 / 2 + 1 / 3 + 1 / 4, rtol=1e-6
  )


@pytest.mark.parametrize("windows", [(), (0,), (None, -3)])
def test_windows_that_show_nothing_are_refused(windows):
  with pytest.raises(ValueError, match="each must be a positive number"):
    stack(windows=windows)


def test_positions_and_a_norm_before_the_layers():
  module = Stack(
    layer=AddDropout(),
    num_layers=0,
    norm=None,
    position_embedder=SinusoidalPositions(4),
    input_norm=LayerNorm(),
  )
  weights = {"scale": np.full(4, 2.0), "bias": np.full(4, 1.0)}
  params = {"params": {"input_norm": weights}}
  positions = np.array([[0, 1, 0], [2, 3, 4]])
  y = programs.apply(module, params, X, token_positions_1L=positions)
  x = X + np.asarray(programs.apply(SinusoidalPositions(4), {}, positions))
  expected = programs.apply(LayerNorm(), {"params": weights}, x)
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
  np.testing.assert_array_equal(
    programs.apply(module, params, X),
    programs.apply(module, params, X, token_positions_1L=np.arange(3)[None]),
  )


def test_dropout_of_the_output_may_be_another():
  module = Stack(
    layer=LinearLayer(Linear()),
    num_layers=0,
    norm=None,
    dropout=Dropout(rate=0.5),
    output_dropout=Dropout(),
  )
  y = programs.apply(
    module,
    {},
    np.ones((1, 2, 400), np.float32),
    deterministic=False,
    rngs={"dropout": jax.random.key(0)},
  )
  assert 0.4 < np.mean(np.asarray(y) == 0) < 0.6
