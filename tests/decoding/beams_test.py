"""Beam search against enumeration and against a search with plain lists."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.decoding import toy
from transformer_zoo.decoding import beams
from transformer_zoo.decoding import constraints
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.search import search

EOS = 1


def run(table, **options):
  return run_jitted(table, DecodingOptions(max_length=len(table), **options))


def run_jitted(table, options, first_B=(0, 0), eos_id=EOS):
  first_B = np.array(first_B, np.int32)
  return jax.device_get(_run(table, options, first_B, eos_id))


@functools.partial(jax.jit, static_argnames=("options", "eos_id"))
def _run(table, options, first_B, eos_id):
  return search(toy.Table(table), None, first_B, options=options, eos_id=eos_id)


def brevity(alpha):
  return lambda length: ((5 + length) / 6) ** alpha


@pytest.mark.parametrize("seed", range(5))
def test_enough_beams_find_the_best_of_all_outputs(seed):
  """Every output, its score computed from the definition."""
  alpha = 0.6
  table = toy.random_table(seed, length=4, vocabulary=3, sharpness=2.0)
  # The live beams are at most the prefixes without EOS.
  outputs = run(table, num_beams=16, num_return=16, alpha=alpha)
  ended = [pair for pair in toy.all_outputs(table, 4) if pair[0][-1] == EOS]
  expected = sorted(
    ((total / brevity(alpha)(len(made)), made) for made, total in ended),
    reverse=True,
  )
  # 15 outputs end: 1, 2, 4 and 8 of lengths 1 to 4. After them come the others.
  assert len(expected) == 15
  found = np.asarray(outputs.tokens)
  np.testing.assert_array_equal(found[0], found[1])
  np.testing.assert_array_equal(
    found[0, :15], toy.padded([made for _, made in expected], 4)
  )
  np.testing.assert_allclose(
    outputs.scores[0, :15], [score for score, _ in expected], rtol=1e-5
  )
  others = max(
    pair[::-1] for pair in toy.all_outputs(table, 4) if pair[0][-1] != EOS
  )
  np.testing.assert_array_equal(found[0, 15], others[1])
  np.testing.assert_allclose(outputs.log_likelihoods[0, 15], others[0], 1e-5)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
  ("width", "alpha"), [(2, -0.5), (4, 0.0), (4, 0.6), (4, 2.0)]
)
def test_equals_a_search_with_lists(seed, width, alpha):
  """That one never stops early: stopping may not change what is found."""
  table = toy.random_table(seed, length=7, vocabulary=9, sharpness=2.0)
  table[:, :, EOS] += 1.0
  outputs = run(table, num_beams=width, num_return=width, alpha=alpha)
  expected = toy.beam_search(table, 7, width, brevity(alpha))
  np.testing.assert_array_equal(
    outputs.tokens[0], toy.padded([made for _, made in expected], 7)
  )
  np.testing.assert_allclose(
    outputs.scores[0], [score for score, _ in expected], rtol=1e-5
  )


def test_default_is_the_penalty_of_t5():
  table = toy.random_table(1, length=7, vocabulary=9, sharpness=2.0)
  found = run(table, num_beams=4, num_return=4, beam_rules="t5x")
  expected = toy.beam_search(table, 7, 4, brevity(0.6))
  np.testing.assert_allclose(
    found.scores[0], [score for score, _ in expected], rtol=1e-5
  )


def test_fewer_returns_are_the_first_of_more():
  table = toy.random_table(2, length=7, vocabulary=9, sharpness=2.0)
  many = run(table, num_beams=4, num_return=4, beam_rules="t5x")
  few = run(table, num_beams=4, num_return=2, beam_rules="t5x")
  np.testing.assert_array_equal(many.tokens[:, :2], few.tokens)
  assert np.all(np.diff(many.scores, axis=1) <= 0)


def test_a_beam_of_one_is_greedy():
  """The search itself with one beam, not only the option."""
  options = DecodingOptions(
    max_length=8, beam_rules="transformers", early_stopping=True
  )

  @jax.jit
  def one_beam(table):
    return beams.beam_search(
      toy.Table(table),
      None,
      jnp.zeros(2, jnp.int32),
      options=options,
      constrain=constraints.Constraints(options, EOS),
      limits_B=jnp.full(2, 8),
      pad_id=0,
    )

  for seed in range(20):
    table = toy.random_table(seed, length=8, vocabulary=7)
    table[:, :, EOS] += 0.7
    one, greedy = one_beam(table), run(table)
    np.testing.assert_array_equal(one.tokens, greedy.tokens)
    np.testing.assert_allclose(
      one.log_likelihoods, greedy.log_likelihoods, rtol=1e-5
    )


@pytest.mark.slow
def test_a_row_is_searched_no_further_than_its_limit():
  """As if that were all the room there is; the other row goes on."""
  table = toy.random_table(3, length=6, vocabulary=5)
  options = {"num_beams": 2, "num_return": 2, "alpha": 0.0}

  @jax.jit
  def limited(limits_B):
    return search(
      toy.Table(table),
      None,
      jnp.zeros(2, jnp.int32),
      options=DecodingOptions(max_length=6, **options),
      limits_B=limits_B,
    )

  some = jax.device_get(limited(np.array([2, 6])))
  short, whole = run(table[:2], **options), run(table, **options)
  np.testing.assert_array_equal(some.tokens[0, :, :2], short.tokens[0])
  np.testing.assert_array_equal(some.tokens[0, :, 2:], 0)
  np.testing.assert_array_equal(some.tokens[1], whole.tokens[1])


@pytest.mark.slow
def test_renormalized_beams_are_those_of_a_model_without_the_forbidden():
  table = toy.random_table(4, length=7, vocabulary=9, sharpness=2.0)
  options = {"num_beams": 3, "num_return": 3, "forbidden_ids": (5, 6)}
  renormalized = run(table, renormalize=True, **options)
  never = table.copy()
  never[:, :, [5, 6]] = -1e9
  expected = run(never, **options)
  np.testing.assert_array_equal(renormalized.tokens, expected.tokens)
  np.testing.assert_allclose(renormalized.scores, expected.scores, rtol=1e-5)
  assert np.all(renormalized.scores > run(table, **options).scores)


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["t5x", "transformers"])
def test_log_likelihoods_are_those_of_the_model(rules):
  """Whatever the beams are ordered by."""
  table = toy.random_table(5, length=7, vocabulary=9, sharpness=2.0)
  found = run(
    table,
    num_beams=4,
    num_return=4,
    beam_rules=rules,
    forbidden_ids=(5,),
    forced_prefix=(3,),
    renormalize=True,
    repetition_penalty=1.7,
  )
  for tokens_L, likelihood in zip(
    found.tokens[0].tolist(), found.log_likelihoods[0], strict=True
  ):
    made = tokens_L[: tokens_L.index(EOS) + 1 if EOS in tokens_L else None]
    expected = sum(
      toy.log_probs(table, made[:i])[made[i]] for i in range(1, len(made))
    )
    np.testing.assert_allclose(likelihood, expected, rtol=1e-5)


@pytest.mark.slow
def test_stops_when_no_beam_can_get_better():
  # EOS is nearly certain from the second token on.
  table = toy.random_table(0, length=30, vocabulary=6)
  table[1:, :, EOS] += 20.0
  calls = []
  options = DecodingOptions(max_length=30, num_beams=4)
  step = toy.Table(table, calls)
  run = jax.jit(functools.partial(search, step, None, options=options))
  run(np.zeros(2, np.int32)).tokens.block_until_ready()
  jax.effects_barrier()
  assert max(calls) < 5


@pytest.mark.slow
def test_rows_do_not_change_each_other():
  """A row that could stop is not changed by one that goes on."""
  table = toy.random_table(3, length=8, vocabulary=7, sharpness=2.0)
  table[:, :, EOS] += 1.5
  for keywords in (
    {},
    {"beam_rules": "transformers"},
    {"beam_rules": "transformers", "early_stopping": True},
  ):
    options = DecodingOptions(max_length=8, num_beams=3, **keywords)
    first = np.arange(7)
    together = run_jitted(table, options, first)
    for row in range(7):
      # All rows alike: one program, and none goes on for longer.
      alone = run_jitted(table, options, np.full(7, row))
      np.testing.assert_array_equal(alone.tokens[0], together.tokens[row])
      np.testing.assert_array_equal(alone.scores[0], together.scores[row])


@pytest.mark.parametrize("rules", ["t5x", "transformers"])
@pytest.mark.parametrize("eos_id", [EOS, 8])
def test_logits_that_are_no_numbers_give_no_scores(rules, eos_id):
  """Whether a beam ends at once, as the best of equal ones, or none does."""
  options = DecodingOptions(max_length=4, num_beams=4, beam_rules=rules)
  found = run_jitted(np.full((4, 9, 9), np.nan), options, eos_id=eos_id)
  assert np.isnan(found.scores).all()
