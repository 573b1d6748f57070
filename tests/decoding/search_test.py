"""Greedy search over toy next-token functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.decoding import search

EOS = 1


def follow(table, calls=None):
  """After token t comes table[t]; the cache counts the steps."""
  table = jnp.asarray(table)

  def next_logits(tokens_B1, position, cache):
    if calls is not None:
      jax.debug.callback(lambda p: calls.append(int(p)), position)
    cache = jnp.asarray(0) if cache is None else cache + 1
    logits = jax.nn.one_hot(table[tokens_B1[:, 0]], table.shape[0])
    # A cache that loses step ends the row at once.
    lost = jax.nn.one_hot(jnp.full_like(tokens_B1[:, 0], EOS), table.shape[0])
    return jnp.where(cache == position, logits, lost), cache

  return next_logits


def test_follows_the_likeliest_token_until_eos_then_pads():
  # 0 -> 3 -> 2 -> 4 -> 1
  tokens = search.greedy(follow([3, 0, 4, 2, 1]), batch_size=2, max_length=7)
  np.testing.assert_array_equal(tokens, [[3, 2, 4, 1, 0, 0, 0]] * 2)
  assert tokens.dtype == jnp.int32


def test_stops_when_every_row_has_ended():
  calls = []
  search.greedy(
    follow([3, 0, 4, 2, 1], calls), batch_size=2, max_length=50
  ).block_until_ready()
  jax.effects_barrier()
  assert sorted(calls) == [0, 1, 2, 3]


@pytest.mark.parametrize("max_length", [1, 2, 5])
def test_never_makes_more_than_max_length(max_length):
  tokens = search.greedy(follow([2, 0, 2]), batch_size=1, max_length=max_length)
  np.testing.assert_array_equal(tokens, [[2] * max_length])


def test_rows_end_apart_and_an_ended_row_stays_ended():
  ends_at = jnp.asarray([0, 2, 9])

  def next_logits(tokens_B1, position, cache):
    choice = jnp.where(position == ends_at, EOS, 2)
    return jax.nn.one_hot(choice, 3), cache

  # A row that ended is not ended again, whatever the model says.
  tokens = search.greedy(
    lambda t, p, c: (next_logits(t, p, c)[0], jnp.asarray(0)),
    batch_size=3,
    max_length=5,
  )
  np.testing.assert_array_equal(
    tokens, [[1, 0, 0, 0, 0], [2, 2, 1, 0, 0], [2, 2, 2, 2, 2]]
  )


def test_special_ids_are_settings():
  tokens = search.greedy(
    follow([0, 0, 3, 4, 2]),
    batch_size=1,
    max_length=6,
    start_id=2,
    eos_id=4,
    pad_id=9,
  )
  np.testing.assert_array_equal(tokens, [[3, 4, 9, 9, 9, 9]])
