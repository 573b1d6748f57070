"""Token embeddings: lookup and its reverse."""

import jax
import jax.numpy as jnp
import numpy as np

from tests import programs
from transformer_zoo.modules.embedding import Embed
from transformer_zoo.modules.embedding import look_up

TABLE = np.random.RandomState(0).standard_normal((11, 4)).astype(np.float32)
VARIABLES = {"params": {"embedding": TABLE}}


def test_looks_up_rows():
  tokens = np.array([[3, 0], [10, 3]])
  embed = Embed(num_embeddings=11, features=4)
  x = programs.apply(embed, VARIABLES, tokens)
  np.testing.assert_array_equal(x, TABLE[tokens])


def test_a_root_of_the_depth_may_be_rounded():
  """As Gemma's embeddings are multiplied in bfloat16."""
  embed = Embed(
    num_embeddings=11,
    features=4,
    dtype="bfloat16",
    multiply_by_sqrt_depth=True,
    round_sqrt_depth=True,
  )
  table = np.tile(TABLE, (1, 3))[:, :11]  # sqrt(11) is no number of bfloat16
  tokens = np.arange(11)[None]
  variables = {"params": {"embedding": table}}
  root = jnp.bfloat16(11**0.5)
  expected = jnp.asarray(table, jnp.bfloat16) * root
  rounded, exact = (
    programs.apply(part, variables, tokens)[0]
    for part in (
      embed.clone(features=11),
      embed.clone(features=11, round_sqrt_depth=False),
    )
  )
  np.testing.assert_array_equal(rounded, expected)
  assert (exact != expected).any()


def test_attend_is_a_dot_product_with_every_row():
  x = np.random.RandomState(1).standard_normal((2, 3, 4)).astype(np.float32)
  embed = Embed(num_embeddings=11, features=4)
  y = embed.apply(VARIABLES, x, method=embed.attend)
  np.testing.assert_allclose(y, x @ TABLE.T, rtol=1e-5, atol=1e-6)


def test_sets_the_compute_dtype_and_keeps_float32_parameters():
  embed = Embed(num_embeddings=11, features=4, dtype="bfloat16")
  x, variables = jax.eval_shape(
    lambda key: embed.init_with_output(key, np.zeros((1, 2), np.int32)),
    jax.random.key(0),
  )
  assert x.dtype == jnp.bfloat16
  table = variables["params"]["embedding"]
  assert table.names == ("vocab", "embed")
  assert table.unbox().dtype == jnp.float32


def test_gradient_reaches_the_rows_that_were_read_as_often_as_they_were():
  @jax.jit
  @jax.grad
  def gradient(table):
    embed = Embed(num_embeddings=11, features=4)
    return embed.apply(
      {"params": {"embedding": table}}, np.array([[3, 5, 3]])
    ).sum()

  rows = np.asarray(gradient(TABLE))[:, 0]
  np.testing.assert_array_equal(rows, [0, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0])


def test_the_gradient_is_not_in_memory_before_the_backward_pass():
  ids = np.array([[0, 5, 5, 600], [7, 900, 5, 1]])
  table = np.random.RandomState(0).standard_normal((512, 64))
  kernel = np.random.RandomState(1).standard_normal((64, 4096))

  def step_of(rows):
    @jax.grad
    def gradient(table, kernel):
      return jnp.sum(jnp.tanh(rows(table) @ kernel) @ kernel.T)

    arguments = table.astype(np.float32), kernel.astype(np.float32)
    compiled = jax.jit(gradient).lower(*arguments).compile()
    return compiled.memory_analysis(), compiled(*arguments)

  ours, gradient = step_of(lambda table: look_up(table, ids))
  theirs, expected = step_of(
    lambda table: jnp.take(table, ids, axis=0, mode="clip")
  )
  np.testing.assert_array_equal(gradient, expected)
  assert ours.temp_size_in_bytes < theirs.temp_size_in_bytes
