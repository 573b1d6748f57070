"""Logits made chunk by chunk: the same losses and gradients, less memory."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_models
from tests import tiny_t5
from transformer_zoo import tracing
from transformer_zoo.errors import UserError
from transformer_zoo.objectives import losses
from transformer_zoo.training.sharding import partitioning

B, L, D, V = 3, 7, 16, 40
RANDOM = np.random.RandomState(0)
HIDDEN = RANDOM.standard_normal((B, L, D)).astype(np.float32)
KERNEL = RANDOM.standard_normal((D, V)).astype(np.float32)
TARGETS = RANDOM.randint(0, V, (B, L)).astype(np.int32)
# Different weights on every output, so that no gradient can hide.
WEIGHTS = RANDOM.standard_normal((3, B, L)).astype(np.float32)


@functools.cache
def losses_and_gradients(tokens, dtype=jnp.float32):
  def weighted(hidden, kernel):
    found = losses.token_losses(
      lambda hidden: (hidden @ kernel.astype(dtype)).astype(jnp.float32),
      hidden,
      TARGETS,
      z_loss=1e-2,
      label_smoothing=0.2,
      tokens=tokens,
    )
    outputs = jnp.stack([found.nll_BL, found.z_BL, found.smoothing_BL])
    return jnp.sum(WEIGHTS * outputs), found

  gradient = jax.jit(jax.grad(weighted, (0, 1), has_aux=True))
  return gradient(jnp.asarray(HIDDEN, dtype), KERNEL)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("tokens", [1, 3 * B, 4 * B + 1])
def test_chunks_of_any_size_give_the_same(tokens, dtype):
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=2e-6)
    if dtype == jnp.float32
    # What the chunks give the kernel is added in float32.
    else functools.partial(np.testing.assert_allclose, rtol=1e-2, atol=1e-2),
    jax.tree.map(
      lambda x: np.asarray(x, np.float32),
      losses_and_gradients(tokens, dtype),
    ),
    jax.tree.map(
      lambda x: np.asarray(x, np.float32),
      losses_and_gradients(1024, dtype),
    ),
  )


@pytest.mark.parametrize(
  "tokens, number", [(1024, 1), (B * L, 1), (B * L - 1, 2), (1, L)]
)
def test_as_few_chunks_as_fit(tokens, number):
  assert losses.number_of_chunks((B, L), tokens) == number


def test_chunks_must_be_positive():
  with pytest.raises(UserError, match="logits_chunk is 0; it must be a posit"):
    losses.number_of_chunks((B, L), 0)


def test_chunks_are_told():
  with tracing.recorded_choices() as made:
    jax.eval_shape(lambda: losses_and_gradients(2 * B))
  assert list(made) == ["logits of 3 x 7 targets: 2 places at a time"]


def test_a_mesh_shares_the_targets_out():
  layout = partitioning.Partitioning(num_partitions=2)
  with layout.activate(layout.mesh()):
    assert losses.number_of_chunks((8, L), 2 * L) == 1
    assert losses.number_of_chunks((8, L), 2 * L - 1) == 2


def test_memory_is_that_of_a_chunk():
  shapes = [
    jax.ShapeDtypeStruct(shape, jnp.float32)
    for shape in ((4, 64, D), (D, 4096))
  ]

  def bytes_of_gradient(tokens):
    def loss(hidden, kernel):
      found = losses.token_losses(
        lambda hidden: hidden @ kernel,
        hidden,
        jnp.zeros((4, 64), jnp.int32),
        z_loss=1e-4,
        tokens=tokens,
      )
      return jnp.sum(found.nll_BL + found.z_BL)

    compiled = jax.jit(jax.grad(loss, (0, 1))).lower(*shapes).compile()
    return compiled.memory_analysis().temp_size_in_bytes

  logits = 4 * 4 * 64 * 4096
  assert bytes_of_gradient(256) >= logits
  assert bytes_of_gradient(16) < logits / 2


@pytest.mark.slow
@pytest.mark.parametrize(
  "variant, num_partitions",
  [
    (("t5_1_0",), 2),  # tied and scaled, on a mesh of 4 x 2
    (("t5_1_1",), None),  # a matrix of its own
    (("lm", "softmax/factorized.gin"), None),
  ],
)
def test_models_train_the_same(variant, num_partitions):
  settings = {"NUM_DECODER_LAYERS": 1, "DROPOUT_RATE": 0.1}
  if variant[0].startswith("t5"):
    settings["NUM_ENCODER_LAYERS"] = 1
  model, converter = tiny_models.build(*variant, **settings)
  params = tiny_models.random_parameters(model)
  batch = tiny_models.lay_out(
    converter, tiny_models.random_examples(), packing=False
  )

  def step(**settings):
    objective = functools.partial(tiny_t5.loss_and_sums, model, **settings)
    compiled = jax.jit(jax.value_and_grad(objective, has_aux=True))
    return compiled(params, batch, jax.random.key(0))

  expected = step()
  if num_partitions is None:
    found = step(logits_chunk=20)
  else:
    layout = partitioning.Partitioning(num_partitions=num_partitions)
    with layout.activate(layout.mesh()):
      found = step(logits_chunk=5)
  largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(expected[1]))
  jax.tree.map(
    functools.partial(
      np.testing.assert_allclose, rtol=1e-4, atol=1e-6 * largest
    ),
    found,
    expected,
  )
