"""Greedy search and sampling over toy next-token functions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.decoding import toy
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.search import likeliest
from transformer_zoo.decoding.search import search

EOS = 1


def follow(table, length, calls=None):
  """After token t comes table[t]; one that lost its past ends at once."""
  table = jnp.asarray(table)

  def step(tokens_BW, parents_BW, position, state):
    assert parents_BW is None
    if calls is not None:
      jax.debug.callback(lambda p: calls.append(int(p)), position)
    state = jnp.asarray(0) if state is None else state + 1
    logits = jax.nn.one_hot(table[tokens_BW], table.shape[0])
    lost = jax.nn.one_hot(jnp.full_like(tokens_BW, EOS), table.shape[0])
    return jnp.where(state == position, logits, lost), state

  def run(rows=1, start_id=0, **keywords):
    first_B = jnp.full(rows, start_id, jnp.int32)
    options = DecodingOptions(max_length=length)
    return search(step, None, first_B, options=options, **keywords).tokens

  compiled = jax.jit(
    run, static_argnames=("rows", "start_id", "eos_id", "pad_id")
  )
  return lambda **keywords: np.asarray(compiled(**keywords))


def test_follows_the_likeliest_token_until_eos_then_pads():
  # 0 -> 3 -> 2 -> 4 -> 1
  tokens = follow([3, 0, 4, 2, 1], 7)(rows=2)
  np.testing.assert_array_equal(tokens, [[[3, 2, 4, 1, 0, 0, 0]]] * 2)
  assert tokens.dtype == np.int32


def test_of_equal_logits_the_first_is_the_likeliest():
  random = np.random.RandomState(0)
  logits = random.randint(0, 5, (6, 2, 37)).astype(np.float32)
  logits[:, :, 3] = -np.inf
  np.testing.assert_array_equal(
    likeliest(jnp.asarray(logits)), np.argmax(logits, axis=-1)
  )


def test_stops_when_every_row_has_ended():
  calls = []
  follow([3, 0, 4, 2, 1], 50, calls)(rows=2)
  jax.effects_barrier()
  assert sorted(calls) == [0, 1, 2, 3]


def test_a_row_ends_at_its_limit():
  """The others go on, and nothing is computed after the last one's end."""
  calls = []
  limits = np.array([2, 0, 3, 9])
  run = follow([3, 0, 4, 2, 2], 7, calls)
  tokens = run(rows=4, limits_B=limits)[:, 0]
  # 0 -> 3 -> 2 -> 4 -> 2 -> ...: one token is always made.
  np.testing.assert_array_equal(
    tokens,
    [
      [3, 2, 0, 0, 0, 0, 0],
      [3, 0, 0, 0, 0, 0, 0],
      [3, 2, 4, 0, 0, 0, 0],
      [3, 2, 4, 2, 4, 2, 4],
    ],
  )
  calls.clear()
  run(rows=4, limits_B=np.array([0, 3, 0, 1]))
  jax.effects_barrier()
  assert sorted(calls) == [0, 1, 2]


@pytest.mark.parametrize("max_length", [1, 2, 5])
def test_never_makes_more_than_max_length(max_length):
  tokens = follow([2, 0, 2], max_length)()
  np.testing.assert_array_equal(tokens, [[[2] * max_length]])


def test_rows_end_apart_and_an_ended_row_stays_ended():
  ends_at = jnp.asarray([[0], [2], [9]])

  def step(tokens_BW, parents_BW, position, state):
    # Says something else after the end, which nobody listens to.
    return jax.nn.one_hot(jnp.where(position == ends_at, EOS, 2), 3), 0

  @jax.jit
  def run():
    options = DecodingOptions(max_length=5)
    return search(step, 0, jnp.zeros(3, jnp.int32), options=options)

  outputs = jax.device_get(run())
  np.testing.assert_array_equal(
    outputs.tokens[:, 0], [[1, 0, 0, 0, 0], [2, 2, 1, 0, 0], [2, 2, 2, 2, 2]]
  )
  one = 1 - np.log(np.e + 2)
  np.testing.assert_allclose(
    outputs.log_likelihoods[:, 0], [one, 3 * one, 5 * one], rtol=1e-6
  )


def test_special_ids_are_settings():
  tokens = follow([0, 0, 3, 4, 2], 6)(start_id=2, eos_id=4, pad_id=9)
  np.testing.assert_array_equal(tokens, [[[3, 4, 9, 9, 9, 9]]])


SAMPLED = DecodingOptions(
  max_length=5, temperature=0.8, top_k=4, num_return=3, seed=7
)


def sample(example_ids, options=SAMPLED):
  return jax.device_get(_sample(np.asarray(example_ids), options))


@functools.partial(jax.jit, static_argnames="options")
def _sample(example_ids_B, options):
  step = toy.Table(toy.random_table(0, length=5, vocabulary=6))
  first_B = jnp.zeros(len(example_ids_B), jnp.int32)
  return search(
    step, None, first_B, options=options, example_ids_B=example_ids_B
  )


@pytest.mark.slow
def test_draws_depend_on_the_example_and_not_on_its_batch():
  # Each alone among others in a batch of as many.
  alone = [sample([7, 8, number, 9]).tokens[2] for number in (3, 4, 90)]
  together = sample([90, 3, 5, 4]).tokens
  for row, expected in zip((1, 3, 0), alone, strict=True):
    np.testing.assert_array_equal(together[row], expected)
  # Other examples, other outputs of one example and other seeds: other draws.
  assert len({np.asarray(row).tobytes() for row in together}) > 1
  outputs = together.reshape(-1, 5)
  assert len({np.asarray(row).tobytes() for row in outputs}) > len(together)
  other = DecodingOptions(
    max_length=5, temperature=0.8, top_k=4, num_return=3, seed=8
  )
  assert np.any(sample([90, 3, 5, 4], other).tokens != together)


@pytest.mark.slow
def test_examples_are_numbered_from_zero_unless_told():
  step = toy.Table(toy.random_table(0, length=5, vocabulary=6))
  first_B = jnp.zeros(3, jnp.int32)
  unnumbered = functools.partial(search, step, None, options=SAMPLED)
  found = jax.jit(unnumbered)(first_B).tokens
  np.testing.assert_array_equal(found, sample([0, 1, 2]).tokens)


def test_log_likelihood_of_a_sample_is_by_the_model_itself():
  """Neither the temperature nor what was cut off is in it."""
  table = toy.random_table(0, length=5, vocabulary=6)
  outputs = sample([0, 1])
  for tokens, found in zip(
    np.asarray(outputs.tokens).reshape(-1, 5),
    np.asarray(outputs.log_likelihoods).reshape(-1),
    strict=True,
  ):
    made = tuple(tokens.tolist())
    made = made[: made.index(EOS) + 1] if EOS in made else made
    expected = sum(
      toy.log_probs(table, made[:i])[token] for i, token in enumerate(made)
    )
    assert found == pytest.approx(expected, abs=1e-5)
  np.testing.assert_array_equal(outputs.scores, outputs.log_likelihoods)


@pytest.mark.slow
@pytest.mark.parametrize(
  "options",
  [
    {},
    pytest.param({"num_beams": 2}, marks=pytest.mark.slow),
    {"num_beams": 2, "renormalize": True},
    {"num_beams": 2, "beam_rules": "transformers", "renormalize": True},
  ],
)
def test_where_nothing_is_allowed_there_is_no_output(options):
  """Three tokens, none twice, and the end only after five."""
  step = toy.Table(toy.random_table(0, length=6, vocabulary=4))
  options = DecodingOptions(
    max_length=6, no_repeat_ngram_size=1, min_length=6, **options
  )

  @jax.jit
  def run():
    return search(step, None, jnp.zeros(2, jnp.int32), options=options)

  np.testing.assert_array_equal(run().scores, -np.inf)
