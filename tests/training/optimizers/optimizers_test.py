"""Every optimizer: its rule, scanned layers, clipping, its state."""

import functools
import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import rule_sets
from tests import tiny_models
from transformer_zoo.errors import UserError
from transformer_zoo.objectives.terms import Term
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers import shared
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.optimizers.adam import adam
from transformer_zoo.training.optimizers.adam import adamw
from transformer_zoo.training.optimizers.lamb import lamb
from transformer_zoo.training.optimizers.lion import lion
from transformer_zoo.training.optimizers.muon import muon
from transformer_zoo.training.optimizers.schedule_free import schedule_free
from transformer_zoo.training.optimizers.sgd import sgd
from transformer_zoo.training.state import TrainState
from transformer_zoo.training.step import train_step

ALL = {
  f.__name__: f
  for f in (adafactor, adam, adamw, lamb, lion, muon, schedule_free, sgd)
}
RATE = schedules.linear(0.1, 6, warmup_steps=2)
ALONE = {"kernel": (6, 4), "scale": (4,)}


def draw(shape, seed, scale=1.0):
  rng = np.random.default_rng(seed)
  return scale * rng.standard_normal(shape, dtype=np.float32)


def matrices(tree):
  return {name: value.ndim > 1 for name, value in tree.items()}


def lamb_of_optax(rate):
  """optax's own, whose trust ratio no mask can keep from scales."""
  return optax.chain(
    optax.scale_by_adam(eps=1e-6),
    optax.add_decayed_weights(0.01, matrices),
    optax.masked(optax.scale_by_trust_ratio(), matrices),
    optax.scale_by_learning_rate(rate),
  )


def muon_of_optax(rate):
  """optax's own for the kernel; its Adam for others looks ahead, ours not."""
  return optax.partition(
    {
      True: optax.contrib.muon(rate, consistent_rms=0.2),
      False: optax.adam(rate),
    },
    lambda tree: {name: name == "kernel" for name in tree},
  )


ORACLES = {
  "muon": (functools.partial(muon, weight_decay=0.0), muon_of_optax),
  "lamb": (lamb, lamb_of_optax),
  "lion": (lion, functools.partial(optax.lion, mask=matrices)),
  "sgd": (sgd, functools.partial(optax.sgd, momentum=0.9)),
  "nesterov": (
    functools.partial(sgd, momentum=0.8, nesterov=True),
    functools.partial(optax.sgd, momentum=0.8, nesterov=True),
  ),
}


@functools.partial(jax.jit, static_argnums=0)
def _parameters_after(optimizer, params, gradients_N):
  def step(carry, gradients):
    params, state = carry
    updates, state = optimizer.update(gradients, state, params)
    return (optax.apply_updates(params, updates), state), None

  carry = params, optimizer.init(params)
  return jax.lax.scan(step, carry, gradients_N)[0][0]


def parameters_after(optimizer, params, gradients):
  """The parameters after a step along each of the gradients."""
  stacked = jax.tree.map(lambda *each: np.stack(each), *gradients)
  return jax.device_get(_parameters_after(optimizer, params, stacked))


@pytest.mark.parametrize("name", ORACLES)
def test_equals_optax(name):
  params = {key: draw(shape, 0) for key, shape in ALONE.items()}
  params["zeros"] = np.zeros((3, 3), np.float32)
  gradients = [
    {key: draw(value.shape, step, 10.0**step) for key, value in params.items()}
    for step in range(4)
  ]
  ours, theirs = (make(RATE) for make in ORACLES[name])
  found = parameters_after(ours, params, gradients)
  expected = parameters_after(theirs, params, gradients)
  for key in params:
    assert np.any(found[key] != params[key])
    np.testing.assert_allclose(found[key], expected[key], rtol=2e-5, atol=1e-6)


def test_schedule_free_has_the_average_that_optax_evaluates():
  """Gradients depend on where they are taken; decayed matrices too."""
  start = {key: draw(shape, 0) for key, shape in ALONE.items()}
  target = {key: draw(shape, 1) for key, shape in ALONE.items()}
  rate, decay = schedules.constant(0.1, warmup_steps=3), {"weight_decay": 0.2}

  def objective(params, batch, key):
    del batch, key
    apart = jax.tree.map(
      lambda a, b: jnp.sum(jnp.abs(a - b) ** 3), params, target
    )
    total = sum(jax.tree.leaves(apart))
    return {"all": Term(total, jnp.float32(1.0), {"loss_sum": total})}

  ours = schedule_free(rate, **decay)
  step = jax.jit(
    functools.partial(train_step, objective=objective, optimizer=ours)
  )
  state = TrainState(jnp.int32(0), start, ours.init(start))
  theirs = optax.contrib.schedule_free(
    optax.chain(
      optax.scale_by_adam(b1=0.0),
      optax.add_decayed_weights(0.2, matrices),
      optax.scale_by_learning_rate(rate),
    ),
    rate,
  )
  params, opt_state = start, theirs.init(start)
  of_loss = jax.jit(jax.grad(lambda p: objective(p, None, None)["all"].total))
  update = jax.jit(theirs.update)
  for _ in range(12):
    state, _ = step(state, {}, jax.random.key(0))
    updates, opt_state = update(of_loss(params), opt_state, params)
    params = optax.apply_updates(params, updates)
  expected = optax.contrib.schedule_free_eval_params(opt_state, params)
  for key in ALONE:
    assert np.max(np.abs(expected[key] - params[key])) > 1e-3
    np.testing.assert_allclose(
      state.params[key], expected[key], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", ALL)
def test_scanned_layers_train_as_looped_ones(name):
  layers = [{k: draw(s, i, 4.0**i) for k, s in ALONE.items()} for i in range(2)]
  gradients = [
    [{k: draw(s, 9 + i + 2 * step) for k, s in ALONE.items()} for i in range(2)]
    for step in range(3)
  ]

  def stacked(both):
    return {"layers": jax.tree.map(lambda *x: np.stack(x), *both)}

  def looped(both):
    return {f"layers_{i}": layer for i, layer in enumerate(both)}

  optimizer = ALL[name](RATE)
  found = parameters_after(
    optimizer, stacked(layers), [stacked(g) for g in gradients]
  )
  expected = parameters_after(
    optimizer, looped(layers), [looped(g) for g in gradients]
  )
  for i in range(2):
    for key in ALONE:
      np.testing.assert_allclose(
        found["layers"][key][i], expected[f"layers_{i}"][key], rtol=1e-5
      )


@pytest.mark.parametrize("name", ["adafactor", "lion"])
def test_gradients_are_clipped_together_and_the_state_is_the_same(name):
  params = {key: draw(shape, 0) for key, shape in ALONE.items()}
  gradients = {key: draw(shape, 1, 50.0) for key, shape in ALONE.items()}
  norm = np.sqrt(sum(np.sum(x**2) for x in gradients.values()))
  by_hand = jax.tree.map(lambda x: x * (2.0 / norm), gradients)
  optimizer, plain = ALL[name](RATE, clip_norm=2.0), ALL[name](RATE)
  state = jax.jit(optimizer.init)(params)
  of_plain = jax.eval_shape(plain.init, params)
  assert jax.tree.structure(state) == jax.tree.structure(of_plain)
  _, expected = jax.jit(plain.update)(by_hand, state, params)
  update = jax.jit(optimizer.update)
  for each in (gradients, by_hand):  # what is short enough stays
    _, clipped = update(each, state, params)
    for found, wanted in zip(
      jax.tree.leaves(clipped), jax.tree.leaves(expected), strict=True
    ):
      np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(
  ("make", "number", "words"),
  [
    (adam, {"clip_norm": 0}, "a finite number above 0; None clips nothing"),
    (sgd, {"clip_norm": -1.0}, "a finite number above 0; None clips nothing"),
    (adam, {"b1": 1.0}, "at least 0 and below 1"),
    (adamw, {"b2": -0.1}, "at least 0 and below 1"),
    (lion, {"b2": math.nan}, "at least 0 and below 1"),
    (sgd, {"momentum": 1.5}, "at least 0 and below 1"),
    (lamb, {"epsilon": -1e-6}, "a finite number of 0 or more"),
    (adamw, {"weight_decay": -0.1}, "a finite number of 0 or more"),
    (adafactor, {"decay_exponent": -0.8}, "a finite number of 0 or more"),
    (adafactor, {"clipping_threshold": 0.0}, "a finite number above 0"),
    (
      adafactor,
      {"epsilon_squared_gradient": math.inf},
      "a finite number of 0 or more",
    ),
  ],
)
def test_numbers_that_are_refused(make, number, words):
  with pytest.raises(UserError) as caught:
    make(RATE, **number)
  ((name, value),) = number.items()
  assert str(caught.value) == (
    f"{make.__name__}.{name}={value} has to be {words}"
  )


def test_every_number_of_an_optimizer_has_its_rule():
  for make in ALL.values():
    for name, parameter in inspect.signature(make).parameters.items():
      if parameter.annotation in (int, float, float | None):
        assert name in shared._ALLOWED, (make, name)


@pytest.fixture(scope="module")
def states():
  """Boxed parameters, and a state with those of all optimizers, as shapes."""
  macros = {"EMBED_DIM": 16, "MLP_DIM": 32, "NUM_HEADS": 8, "VOCAB_SIZE": 64}
  model, _ = tiny_models.build("prefix_lm", SCAN_LAYERS=True, **macros)
  params = state_lib.abstract_params(model)
  init = {
    f"{name} {dtype}": make(RATE, state_dtype=dtype).init
    for name, make in ALL.items()
    for dtype in shared.STATE_DTYPES
  }
  kept = {name: jax.eval_shape(make, params) for name, make in init.items()}
  shapes = TrainState(jax.eval_shape(lambda: jnp.int32(0)), params, kept)
  return state_lib.abstract_variables(model), shapes


def test_states_are_kept_in_their_dtype(states):
  for name, state in states[1].opt_state.items():
    moments = [leaf for leaf in jax.tree.leaves(state) if leaf.ndim]
    assert {leaf.dtype for leaf in moments} == {jnp.dtype(name.split()[1])}


@pytest.mark.parametrize("rules", rule_sets.ON_8_DEVICES)
def test_states_lie_with_the_parameters(states, rules):
  """By shapes alone. Adafactor's moments are whole where sides are short."""
  boxed, shapes = states
  partitioning = rule_sets.build(rules)
  shardings = partitioning.shardings(partitioning.mesh(), boxed, shapes)
  wanted = {
    jax.tree_util.keystr(path): sharding.spec
    for path, sharding in jax.tree_util.tree_leaves_with_path(shardings.params)
  }
  for name, state in shapes.opt_state.items():
    laid_out = jax.tree_util.tree_leaves_with_path(shardings.opt_state[name])
    moments = [
      (jax.tree_util.keystr(path), sharding.spec)
      for (path, sharding), leaf in zip(
        laid_out, jax.tree.leaves(state), strict=True
      )
      if leaf.ndim
    ]
    for parameter, spec in wanted.items():
      own = [found for path, found in moments if parameter in path]
      one = name.startswith(("adafactor", "lion", "sgd"))
      if name.startswith("muon"):
        one = parameter.endswith("['kernel']") and "logits" not in parameter
      assert own == [spec] * (1 if one else 2), (name, parameter)
    assert all(any(each in path for each in wanted) for path, _ in moments)


@pytest.mark.parametrize(
  ("architecture", "scan"),
  [
    # Names of norms, of biases and of tables, in every kind of them.
    *((name, False) for name in ("t5_1_1", "umt5", "bart", "gpt_2", "llama")),
    # Whose layers are stacked: all stacks are alike.
    ("prefix_lm", True),
    ("gpt_2", True),
  ],
)
def test_all_but_scales_and_biases_decay(architecture, scan):
  model, _ = tiny_models.build(architecture, SCAN_LAYERS=scan)
  model = model if scan else tiny_models.shallow(model)
  decays = shared.are_matrices(state_lib.abstract_params(model))
  for path, is_matrix in jax.tree_util.tree_leaves_with_path(decays):
    assert is_matrix == (path[-1].key not in ("scale", "bias")), path


@pytest.mark.parametrize("layers", ["layers", "layers_0"])
def test_lamb_takes_adams_step_for_biases_of_scores(layers):
  shape = (2, 4, 3) if layers == "layers" else (4, 3)
  params = {layers: {"content_bias": draw(shape, 0, 1e-3)}}
  gradients = [{layers: {"content_bias": draw(shape, 1)}}]
  found = parameters_after(lamb(RATE), params, gradients * 3)
  expected = parameters_after(adam(RATE, epsilon=1e-6), params, gradients * 3)
  np.testing.assert_allclose(
    found[layers]["content_bias"], expected[layers]["content_bias"], rtol=1e-5
  )


def test_biases_of_scores_do_not_decay():
  """Those of XLNet, which have a vector for each head."""
  model = tiny_models.shallow(tiny_models.build("xlnet")[0])
  params = state_lib.abstract_params(model)
  decays = jax.tree.leaves(shared.are_matrices(params))
  biases = [
    (leaf.ndim, decayed)
    for (path, leaf), decayed in zip(
      jax.tree_util.tree_leaves_with_path(params), decays, strict=True
    )
    if path[-1].key.endswith("_bias")
  ]
  assert (2, False) in biases and not any(decayed for _, decayed in biases)
