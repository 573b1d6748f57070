"""Constraints against their definitions, over toy next-token functions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from tests.decoding import toy
from transformer_zoo.decoding import constraints
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.search import search
from transformer_zoo.errors import UserError

EOS = 1
LENGTH = 12
WAYS = [
  {},
  {"num_beams": 3, "num_return": 3},
  {"temperature": 1.0, "num_return": 4},
]
each_way = pytest.mark.parametrize("way", WAYS)


def table_of_all():
  table = toy.random_table(4, length=LENGTH, vocabulary=6)
  table[:, :, EOS] += 1.0
  return table


def run(way, **options):
  return _run(tuple(way.items()), tuple(options.items()))


@functools.cache  # Several tests read one search.
def _run(way, options):
  way, options = dict(way), dict(options)
  table = table_of_all()
  options = DecodingOptions(**{"max_length": LENGTH, **way, **options})

  @jax.jit
  def made(first_B):
    return search(toy.Table(table), None, first_B, options=options)

  outputs = made(np.arange(2, 7))
  return np.asarray(outputs.tokens), np.asarray(outputs.log_likelihoods)


def made_by(rows, ends=(EOS,)):
  """What each output has before the padding."""
  for row in rows.reshape(-1, rows.shape[-1]).tolist():
    places = [place for place, token in enumerate(row) if token in ends]
    yield row[: places[0] + 1] if places else row


def likelihood(first, made, begin=0, end=None):
  """Of the tokens from `begin` to `end`, by the table."""
  table, past = table_of_all(), [int(first), *made]
  total = 0.0
  for position in range(begin, len(made) if end is None else end):
    # The table is asked by position, and by the sum of all that was read.
    logits_V = table[position, sum(past[: position + 1]) % 6]
    total += logits_V[made[position]] - np.log(np.exp(logits_V).sum())
  return total


def ends_of(way):
  """Three ends that a free search comes upon."""
  free, _ = run(way)
  return (EOS, *sorted({*free.reshape(-1).tolist()} - {0, EOS})[:2])


@pytest.mark.slow
@each_way
def test_smallest_length_counts_the_end(way):
  ends = ends_of(way)
  free, _ = run(way)
  assert min(map(len, made_by(free))) < 5
  held, _ = run(way, end_ids=ends[1:], min_length=5)
  lengths = sorted(map(len, made_by(held, ends)))
  assert lengths[0] >= 5
  assert 5 in lengths


# Sizes at every position: test_forbidden_ngrams_at_every_position.
@pytest.mark.parametrize(
  ("way", "size"), list(zip(WAYS, (2, 3, 1), strict=True))
)
def test_no_ngram_comes_twice(way, size):
  def repeats(rows):
    count = 0
    for first, made in zip(
      np.repeat(np.arange(2, 7), rows.shape[1]), made_by(rows), strict=True
    ):
      # What is fed first is part of it.
      whole = [int(first), *made]
      grams = [tuple(whole[i : i + size]) for i in range(len(whole) - size + 1)]
      count += len(grams) - len(set(grams))
    return count

  # Four tokens are left: one without a repetition would be short.
  assert size == 3 or repeats(forced_end(way)[1][0]) > 0
  assert repeats(run(way, no_repeat_ngram_size=size)[0]) == 0


# What all outputs begin with; of it the end and another id are forbidden.
PREFIX = (5, EOS + 1, 4)


def forced_end(way):
  """A search with an end at last alone, and what it may not make before."""
  forbidden = ends_of(way)[:2]
  return forbidden, run(
    way, forced_end=True, forbidden_ids=forbidden, forced_prefix=PREFIX
  )


@each_way
def test_forbidden_ids_are_never_made(way):
  """But where they are forced, in the prefix."""
  (_, other), (held, _) = forced_end(way)
  free, _ = run(way)
  assert (free == other).any() and not (held[:, :, 3:] == other).any()


@each_way
def test_each_of_several_ends_ends(way):
  free, _ = run(way)
  ends = ends_of(way)
  tokens, _ = run(way, end_ids=ends[1:], min_length=5)
  seen = set()
  for row in tokens.reshape(-1, LENGTH).tolist():
    places = [n for n, token in enumerate(row) if token in ends]
    if places:
      seen.add(row[places[0]])
      assert places[0] >= 4 and not any(row[places[0] + 1 :])
  assert len(seen) > 1
  if way == {}:  # As far as the search for one end goes the same way.
    tokens, _ = run(way, end_ids=ends[1:])
    for row, other in zip(tokens[:, 0], free[:, 0], strict=True):
      place = np.argmax(np.isin(other, ends)) + 1
      np.testing.assert_array_equal(row[:place], other[:place])
      assert not row[place:].any()


def test_the_text_of_an_output_is_what_comes_before_an_end():
  options = DecodingOptions(end_ids=(7, 9))
  assert options.ends(eos_id=7) == (7, 9)
  assert options.before_end([3, 1, 9, 7, 0]) == [3, 1]
  assert options.before_end([3, 1]) == [3, 1]
  assert DecodingOptions().before_end([3, 9]) == [3, 9]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS[:2])
def test_without_an_end_outputs_are_as_long_as_allowed(way):
  table = toy.random_table(4, length=LENGTH, vocabulary=6)
  made = {}
  for least in (0, 5):  # Neither forbids the last of all tokens.
    options = DecodingOptions(**{**way, "max_length": LENGTH}, min_length=least)

    @jax.jit
    def endless(first_B, options=options):
      step = toy.Table(table)
      return search(step, None, first_B, options=options, eos_id=-1).tokens

    made[least] = np.asarray(endless(np.arange(2, 7)))
  np.testing.assert_array_equal(made[0], made[5])
  assert {EOS, 5} <= {*made[0].reshape(-1).tolist()}


def test_no_end_cannot_be_forced():
  with pytest.raises(UserError, match="the vocabulary has no EOS"):
    constraints.Constraints(DecodingOptions(forced_end=True), eos_id=-1)


@each_way
def test_a_forced_end_is_where_there_is_room_for_no_more(way):
  forbidden, (tokens, sums) = forced_end(way)
  assert (tokens[:, :, :3] == PREFIX).all()
  assert (tokens[:, :, -1] == EOS).all()
  assert (tokens[:, :, :-1] != EOS).all()
  for first, rows, found in zip(range(2, 7), tokens, sums, strict=True):
    for made, total in zip(rows.tolist(), found, strict=True):
      # What is forced costs nothing.
      expected = likelihood(first, made, begin=3, end=LENGTH - 1)
      assert total == pytest.approx(expected, rel=1e-5)
  if way == {}:
    table = table_of_all()
    table[:, :, list(forbidden)] = -np.inf
    for first, row in zip(range(2, 7), tokens[:, 0].tolist(), strict=True):
      for position in range(3, LENGTH - 1):
        read = sum([first, *row][: position + 1]) % 6
        assert row[position] == np.argmax(table[position, read])
  if "num_beams" in way:
    free, _ = run(
      way,
      max_length=LENGTH - 1,
      forbidden_ids=forbidden,
      forced_prefix=PREFIX,
    )
    np.testing.assert_array_equal(tokens[:, 0, :-1], free[:, 0])


@pytest.mark.parametrize("way", WAYS[1:])
def test_each_row_begins_with_its_own_prefix(way):
  forced = np.array(
    [[5, 3, 4], [-1, -1, -1], [2, -1, -1], [4, 3, -1], [4, 4, 4]], np.int32
  )
  common = (3,) if "temperature" in way else ()
  options = DecodingOptions(max_length=LENGTH, forced_prefix=common, **way)

  @jax.jit
  def begun(first_B, forced_BF):
    step = toy.Table(table_of_all())
    return search(step, None, first_B, options=options, forced_BF=forced_BF)

  found = jax.device_get(begun(np.arange(2, 7), forced))
  outputs = zip(
    range(2, 7),
    forced.tolist(),
    found.tokens,
    found.log_likelihoods,
    strict=True,
  )
  for first, ids, rows, sums in outputs:
    wanted = [*common, *(token for token in ids if token >= 0)]
    for made, total in zip(made_by(rows), sums, strict=True):
      assert made[: len(wanted)] == wanted
      expected = likelihood(first, made, begin=len(wanted))
      assert total == pytest.approx(expected, abs=1e-4)
  if not common:
    np.testing.assert_array_equal(found.tokens[1], run(way)[0][1])


def test_a_forced_token_comes_though_another_constraint_forbids_it():
  tokens, _ = run(
    {}, forced_prefix=(4, 4, 4), no_repeat_ngram_size=1, min_length=9
  )
  np.testing.assert_array_equal(tokens[:, 0, :3], np.full((5, 3), 4))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_forbidden_ngrams_at_every_position(size):
  random = np.random.RandomState(size)
  tokens = random.randint(0, 3, (2, 3, 9))
  for position in range(9):
    logits = np.asarray(
      programs.run(
        constraints.no_repeated_ngram,
        np.zeros((2, 3, 3), np.float32),
        tokens,
        np.asarray(position),
        size,
      )
    )
    for place in np.ndindex(2, 3):
      known = tokens[place][: position + 1].tolist()
      grams = {tuple(known[i : i + size]) for i in range(len(known) - size + 1)}
      last = known[len(known) - size + 1 :] if size > 1 else []
      forbidden = [
        (*last, token) in grams and len(last) == size - 1 for token in range(3)
      ]
      np.testing.assert_array_equal(np.isneginf(logits[place]), forbidden)


@pytest.mark.parametrize("prompt", [None, [[-1, 4, 2], [3, 3, 0]]])
def test_what_was_read_or_made_is_less_likely(prompt):
  """And nothing else, whatever is to be made or stands for no token."""
  penalty, known = 1.5, 2  # The first of them is what is fed first.
  options = DecodingOptions(repetition_penalty=penalty)
  random = np.random.RandomState(0)
  logits = random.standard_normal((2, 3, 6)).astype(np.float32)
  tokens = random.randint(0, 6, (2, 3, 5))

  @jax.jit
  def penalised(logits, tokens, position, prompt):
    constrain = constraints.Constraints(options, EOS, prompt)
    return constrain(logits, tokens, position)

  found = penalised(
    logits,
    tokens,
    np.asarray(known - 1),
    None if prompt is None else np.array(prompt),
  )
  expected = logits.copy()
  for row, output in np.ndindex(2, 3):
    seen = set(tokens[row, output, :known].tolist())
    if prompt is not None:
      seen |= set(prompt[row]) - {-1}
    for token in seen:
      value = expected[row, output, token]
      expected[row, output, token] = (
        value * penalty if value < 0 else value / penalty
      )
  np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_forced_tokens_of_language_models():
  """The first behind one token alone; the last is any token."""
  options = DecodingOptions(
    max_length=3, forced_prefix=(3,), forced_after_start=True, forced_last=5
  )
  constrain = constraints.Constraints(
    options, eos_id=1, prompt_BP=jnp.array([[-1, -1], [6, 7]])
  )
  allowed = []
  for position in range(3):
    logits_BWV = jnp.zeros((2, 1, 8))
    position = jnp.asarray(position)
    found_BWV = constrain(logits_BWV, jnp.zeros((2, 1, 4), int), position)
    allowed.append(np.isfinite(found_BWV[:, 0]).sum(axis=1).tolist())
    forced_B1 = np.broadcast_to(constrain.is_forced(position), (2, 1))
    assert (forced_B1[:, 0] == (np.array(allowed[-1]) == 1)).all()
  assert allowed == [[1, 8], [8, 8], [1, 1]]
  with pytest.raises(UserError, match="both say what the last token is"):
    DecodingOptions(forced_end=True, forced_last=5)
