"""What stands around the layers: positions, norms, dropout, values by layer."""

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from transformer_zoo.architectures.deberta_transformer import (
  deberta_transformer,
)
from transformer_zoo.architectures.transformer import Transformer
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.by_layer import ScoreScales
from transformer_zoo.modules.by_layer import Windows
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.normalization import LayerNorm
from transformer_zoo.modules.positions.absolute import SinusoidalPositions
from transformer_zoo.modules.stack import Stack

X = np.random.RandomState(0).standard_normal((2, 3, 4)).astype(np.float32)


class SameLayer(nn.Module):
  """Changes nothing."""

  def __call__(self, x, **keywords):
    return x


def transformer(layer=None, *, num_layers=3, scan=False, **settings):
  layer = SameLayer() if layer is None else layer
  return Transformer(Stack(layer, num_layers, scan=scan), **settings)


def test_final_norm_has_the_name_that_is_given():
  module = transformer(norm_name="encoder_norm")
  params = jax.eval_shape(module.init, jax.random.key(0), X)["params"]
  assert set(params) == {"encoder_norm"}


@pytest.mark.parametrize("scan", [False, True])
def test_dropout_stands_before_the_layers_and_after_the_norm(scan):
  module = transformer(scan=scan, dropout=Dropout(rate=0.5))
  y, _ = programs.run(
    Transformer.init_with_output,
    module,
    {"params": jax.random.key(0), "dropout": jax.random.key(1)},
    np.ones((4, 6, 64), np.float32),
    deterministic=False,
  )
  zero = np.asarray(y) == 0
  np.testing.assert_array_equal(zero, np.broadcast_to(zero[:, :1], zero.shape))
  # Half of the half that the first one leaves.
  assert 0.68 < zero.mean() < 0.82


class SeenLayer(nn.Module):
  """Adds the number of tokens that each token may attend to."""

  def __call__(self, x, *, mask_B1LM, positions, window, **keywords):
    del keywords
    mask_B1LM, _ = masks.within(window, mask_B1LM, positions)
    return x + jnp.sum(mask_B1LM, axis=-1)[:, 0, :, None]


@pytest.mark.parametrize("scan", [False, True])
def test_windows_alternate_over_the_layers(scan):
  length = 6
  causal = masks.causal_mask(length)

  def seen(num_layers):
    module = transformer(
      SeenLayer(),
      num_layers=num_layers,
      by_layer=(Windows((None, 2)),),
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


class DoubleLayer(nn.Module):
  """Doubles what enters."""

  def __call__(self, x, **keywords):
    return 2 * x


class AddOne:
  """What stands for a convolution: 1 is added where it is joined."""

  def __call__(self, x_BLD, mask_B1LM, *, deterministic):
    return jnp.ones_like(x_BLD), {}

  def join(self, y_BLD, added_BLD, params):
    return y_BLD + added_BLD


@pytest.mark.parametrize("scan", [False, True])
def test_a_convolution_is_joined_to_the_first_layer_alone(scan):
  module = deberta_transformer(
    transformer(DoubleLayer(), norm=None, scan=scan), convolution=AddOne()
  )
  np.testing.assert_allclose(
    programs.apply(module, {}, X), (2 * X + 1) * 4, rtol=1e-6
  )


class ScaleLayer(nn.Module):
  """Adds what its scores are multiplied by."""

  @nn.compact
  def __call__(self, x_BLD, *, score_scale, **keywords):
    del keywords
    return x_BLD + score_scale


@pytest.mark.parametrize("scan", [False, True])
def test_scores_are_divided_by_the_number_of_the_layer(scan):
  module = transformer(
    ScaleLayer(),
    num_layers=4,
    by_layer=(ScoreScales(divide_by_depth=True),),
    norm=None,
    scan=scan,
  )
  np.testing.assert_allclose(
    programs.apply(module, {}, X), X + 1 + 1 / 2 + 1 / 3 + 1 / 4, rtol=1e-6
  )


@pytest.mark.parametrize("sizes", [(), (0,), (None, -3)])
def test_windows_that_show_nothing_are_refused(sizes):
  with pytest.raises(UserError, match="each must be a positive number"):
    Windows(sizes)


def test_every_layer_sees_everything_without_values_of_its_own():
  assert not Windows((None, None))(4) and not ScoreScales()(4)


def test_positions_and_a_norm_before_the_layers():
  module = transformer(
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
  module = transformer(
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
