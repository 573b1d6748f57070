"""Adafactor against optax's, the paper's constants, and stacked layers."""

import jax
import numpy as np
import optax
import pytest

from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.optimizers.adafactor import FactoredMoment
from transformer_zoo.training.optimizers.adafactor import FullMoment


def draw(shape, seed, scale=1.0):
  rng = np.random.default_rng(seed)
  return (scale * rng.standard_normal(shape)).astype(np.float32)


@pytest.mark.parametrize("scaled", [True, False])
def test_equals_optax_on_parameters_that_stand_alone(scaled):
  params = {
    "factored": draw((128, 160), 0),
    "one_side_too_small": draw((128, 127), 1),
    "vector": draw((300,), 2),
    "nearly_zero": draw((130, 130), 3, 1e-6),
    "scalar": np.float32(0.7),
  }
  schedule = schedules.rsqrt(base=1.0, warmup_steps=2)
  ours = adafactor(schedule, scale_by_parameter=scaled)
  theirs = optax.adafactor(
    schedule,
    min_dim_size_to_factor=128,
    decay_rate=0.8,
    multiply_by_parameter_scale=scaled,
    clipping_threshold=1.0,
    momentum=None,
    eps=1e-30,
  )
  our_state, their_state = (
    jax.jit(each.init)(params) for each in (ours, theirs)
  )
  our_params = their_params = params
  our_update, their_update = jax.jit(ours.update), jax.jit(theirs.update)
  for step in range(5):
    # Gradients of very different sizes, so that the clipping acts.
    gradients = {
      name: draw(value.shape, 10 * step + i, 10.0 ** ((i + step) % 4 - 2))
      for i, (name, value) in enumerate(params.items())
    }
    updates, our_state = our_update(gradients, our_state, our_params)
    expected, their_state = their_update(gradients, their_state, their_params)
    for name in params:
      np.testing.assert_allclose(
        updates[name], expected[name], rtol=2e-5, atol=1e-9, err_msg=name
      )
    our_params = jax.tree.map(np.add, our_params, jax.device_get(updates))
    their_params = jax.tree.map(np.add, their_params, jax.device_get(expected))


def test_factors_matrices_only():
  params = {
    "wide": np.ones((128, 256)),
    "narrow": np.ones((128, 127)),
    "vector": np.ones(500),
    "layers": {"stacked": np.ones((3, 128, 256)), "scale": np.ones((3, 256))},
  }
  moments = jax.eval_shape(adafactor(schedules.constant()).init, params).moments
  assert isinstance(moments["wide"], FactoredMoment)
  assert moments["wide"].v_row.shape == (128,)
  assert moments["wide"].v_col.shape == (256,)
  assert isinstance(moments["narrow"], FullMoment)
  assert isinstance(moments["vector"], FullMoment)
  assert moments["layers"]["stacked"].v_row.shape == (3, 128)
  assert moments["layers"]["stacked"].v_col.shape == (3, 256)
  assert isinstance(moments["layers"]["scale"], FullMoment)


def test_memory_grows_as_in_the_paper():
  # Shazeer and Stern 2018, section 7.2: beta_t = 1 - t^-0.8, t from 1.
  optimizer = adafactor(schedules.constant())
  params = np.ones(3, np.float32)
  start = jax.jit(optimizer.init)(params)
  update = jax.jit(optimizer.update)
  for step, beta in (
    *((1, 0.0), (2, 0.42565), (10, 0.84151), (100, 0.97488)),
    (1000, 0.99602),
  ):
    state = start._replace(
      count=np.int32(step - 1), moments=FullMoment(np.ones(3, np.float32))
    )
    _, state = update(np.zeros(3, np.float32), state, params)
    assert state.count == step
    np.testing.assert_allclose(state.moments.v, beta, atol=5e-6)


def test_stacked_layers_train_like_separate_ones():
  shapes = {"kernel": (128, 130), "small": (4, 6), "scale": (130,)}
  layers = [
    # Layers of very different sizes would spoil each other's scale.
    {n: draw(s, i, 10.0**i) for n, s in shapes.items()}
    for i in range(3)
  ]

  def stack(trees):
    return jax.tree.map(lambda *x: np.stack(x), *trees)

  optimizer = adafactor(schedules.constant(0.1))
  update = jax.jit(optimizer.update)
  stacked = {"layers": stack(layers)}
  init = jax.jit(optimizer.init)
  stacked_state = init(stacked)
  states = [init(layer) for layer in layers]
  for step in range(3):
    gradients = [
      {n: draw(s, 100 * step + i, 10.0**-i) for n, s in shapes.items()}
      for i in range(3)
    ]
    updates, stacked_state = update(
      {"layers": stack(gradients)}, stacked_state, stacked
    )
    for i, layer in enumerate(layers):
      alone, states[i] = update(gradients[i], states[i], layer)
      for name in shapes:
        np.testing.assert_allclose(
          np.asarray(updates["layers"][name])[i], alone[name], rtol=1e-5
        )


def test_a_parameter_of_three_axes_is_not_factored():
  """Tables of synthesized scores, by place, head and place."""
  optimizer = adafactor(schedules.constant())
  state = optimizer.init({"table": np.ones((128, 2, 128))})
  assert state.moments["table"].v.shape == (128, 2, 128)


def test_an_update_needs_the_parameters():
  optimizer = adafactor(schedules.constant())
  with pytest.raises(ValueError, match="needs the parameters"):
    optimizer.update(np.ones(2), optimizer.init(np.ones(2)))
