"""Cross-entropy and z-loss against optax and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.special

from tests import programs
from transformer_zoo.objectives.losses import cross_entropy
from transformer_zoo.objectives.losses import smoothing_cost

RANDOM = np.random.RandomState(0)
LOGITS = (3 * RANDOM.standard_normal((2, 5, 13))).astype(np.float32)
TARGETS = RANDOM.randint(0, 13, (2, 5)).astype(np.int32)
WEIGHTS = RANDOM.uniform(size=(2, 5)).astype(np.float32)


def test_negative_log_likelihood_is_that_of_the_softmax():
  nll, z = programs.run(cross_entropy, LOGITS, TARGETS, 0.0)
  expected = -np.take_along_axis(
    scipy.special.log_softmax(LOGITS.astype(np.float64), -1),
    TARGETS[..., None],
    -1,
  )[..., 0]
  np.testing.assert_allclose(nll, expected, rtol=1e-5, atol=1e-6)
  np.testing.assert_array_equal(z, np.zeros((2, 5)))


def test_z_loss_is_the_square_of_the_log_normalizer():
  _, z = programs.run(cross_entropy, LOGITS, TARGETS, 1e-2)
  log_z = np.log(np.exp(LOGITS.astype(np.float64)).sum(-1))
  np.testing.assert_allclose(z, 1e-2 * log_z**2, rtol=1e-5)


def test_gradient_equals_that_of_optax_with_z_loss():
  def ours(logits):
    nll, z = cross_entropy(logits, TARGETS, 1e-2)
    return jnp.sum((nll + z) * WEIGHTS)

  def reference(logits):
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, TARGETS)
    z = 1e-2 * jnp.square(jax.nn.logsumexp(logits, axis=-1))
    return jnp.sum((nll + z) * WEIGHTS)

  np.testing.assert_allclose(
    jax.jit(jax.grad(ours))(LOGITS),
    jax.jit(jax.grad(reference))(LOGITS),
    rtol=1e-4,
    atol=1e-6,
  )


def test_gradient_of_each_output_equals_finite_differences():
  # Different weights on both outputs, which a caller may well have.
  def loss(logits):
    nll, z = cross_entropy(logits, TARGETS, 0.1)
    return jnp.sum(nll * WEIGHTS) - 2.0 * jnp.sum(z * WEIGHTS**2)

  loss = jax.jit(loss)
  with jax.enable_x64():
    logits = LOGITS.astype(np.float64)
    gradient = np.asarray(jax.jit(jax.grad(loss))(logits))
    for seed in range(5):
      random = np.random.RandomState(seed)
      direction = random.standard_normal(LOGITS.shape)
      step = 1e-5 * direction
      slope = (loss(logits + step) - loss(logits - step)) / 2e-5
      np.testing.assert_allclose(slope, np.sum(gradient * direction), rtol=1e-6)


def test_large_logits_stay_finite():
  logits = np.zeros((1, 1, 13), np.float32)
  logits[..., 3] = 1e4
  nll, _ = programs.run(cross_entropy, logits, np.array([[4]]), 1e-4)
  np.testing.assert_allclose(nll, [[1e4]])
  gradient = jax.jit(
    jax.grad(lambda x: cross_entropy(x, np.array([[4]]), 0.0)[0].sum())
  )(logits)
  assert np.isfinite(gradient).all()


def test_smoothed_cross_entropy_and_its_gradient_equal_those_of_optax():
  rate = 0.3
  soft = np.full((2, 5, 13), rate / 12)
  np.put_along_axis(soft, TARGETS[..., None], 1 - rate, axis=-1)
  entropy = -np.sum(soft[0, 0] * np.log(soft[0, 0]))

  def ours(logits):
    nll, _ = cross_entropy(logits, TARGETS, 0.0)
    return nll + smoothing_cost(logits, TARGETS, rate)

  def reference(logits):
    return optax.softmax_cross_entropy(logits, soft) - entropy

  def with_gradient(function):
    def total(logits):
      found = function(logits)
      return jnp.sum(found * WEIGHTS), found

    return jax.jit(jax.grad(total, has_aux=True))

  program = with_gradient(ours)
  gradient, found = program(LOGITS)
  expected_gradient, expected = with_gradient(reference)(LOGITS)
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  np.testing.assert_allclose(
    gradient,
    expected_gradient,
    rtol=1e-4,
    atol=1e-6,
  )
  best = np.log(soft).astype(np.float32)
  np.testing.assert_allclose(program(best)[1], np.zeros((2, 5)), atol=1e-6)
