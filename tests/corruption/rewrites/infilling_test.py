"""BART's noise on tokens: budgets, Poisson lengths, overlaps, insertions."""

import math

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo.corruption import TextInfilling
from transformer_zoo.corruption import TokenDeletion
from transformer_zoo.corruption import TokenMasking
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.rewrites import infilling
from transformer_zoo.errors import UserError

BERT = vocabularies.bert()
MASK = vocabularies.MASK
TOKENS = TextInfilling(whole_words=False)


def _texts(*lengths):
  """Returns texts of ascending, different ids."""
  return Ragged.of([np.arange(10, 10 + length) for length in lengths])


def _draws(text, seed=0):
  return Draws(seed, np.arange(len(text.lengths)))


def test_masking_is_exact_and_keeps_places():
  text = _texts(100, 7, 0, 1)
  noisy = TokenMasking(0.15)(text, _draws(text), BERT)
  for before, after in zip(text.rows(), noisy.rows(), strict=True):
    masked = after == MASK
    assert masked.sum() == math.ceil(len(before) * 0.15)
    assert (before == after)[~masked].all()


def test_deletion_is_exact_and_keeps_the_order():
  text = _texts(100, 7, 0, 1)
  noisy = TokenDeletion(0.3)(text, _draws(text), BERT)
  assert noisy.lengths.tolist() == [70, 4, 0, 0]
  for row in noisy.rows():
    assert (np.diff(row) > 0).all()


@pytest.mark.parametrize("noise", [TokenMasking(0.4), TokenDeletion(0.4)])
def test_every_choice_of_tokens_is_equally_likely(noise):
  text = Ragged.full(np.tile(np.arange(10, 15, dtype=np.int32), (100_000, 1)))
  noisy = noise(text, _draws(text), BERT).values.reshape(100_000, -1)
  _, counts = np.unique(noisy, axis=0, return_counts=True)
  assert len(counts) == 10
  assert ((counts - 10_000) ** 2 / 10_000).sum() < 27.9  # 99.9 %, 9 degrees


@pytest.mark.parametrize("mean", [0.5, 3.0, 3.5])
def test_span_lengths_are_poisson_and_use_up_the_budget(mean):
  rows, words = 1000, 1000
  noise = TextInfilling(0.3, mean)
  spans, empty = noise._span_lengths(
    np.full(rows, words), Draws(0, np.arange(rows))
  )
  totals = np.array([row.sum() for row in spans.rows()])
  assert (totals == 300).all()
  numbers = spans.lengths + empty
  assert numbers.sum() > 80_000
  # The last span of a row is cut to fit.
  counts = np.bincount(spans.values, minlength=20)[:12].astype(float)
  counts[0] = empty.sum()
  lengths = np.arange(12)
  chances = [math.exp(-mean) * mean**k / math.factorial(k) for k in lengths]
  shares = counts / numbers.sum()
  np.testing.assert_allclose(shares, chances, atol=0.006)
  # On average: 300 words in spans of `mean`, and what the cut one wastes.
  assert numbers.mean() == pytest.approx(300 / mean, rel=0.02)


def test_poisson_lengths_before_the_cut():
  # All spans of a row but the one that was cut, in 100,000 rows of one budget.
  noise = TextInfilling(0.3)
  uniform = Draws(1, np.arange(1000)).uniform(100).ravel()
  lengths = np.searchsorted(noise._cumulative(), uniform, side="right")
  expected = 100_000 * np.array(
    [math.exp(-3) * 3**k / math.factorial(k) for k in range(10)]
  )
  counts = np.bincount(lengths, minlength=10)[:10]
  assert ((counts - expected) ** 2 / expected).sum() < 29.6  # 10 degrees


@pytest.mark.parametrize("words", [0, 1, 2, 3, 10])
def test_small_budgets_are_met(words):
  rows = 2000
  noise = TextInfilling(0.3, 0.1)  # mostly empty spans
  spans, empty = noise._span_lengths(
    np.full(rows, words), Draws(0, np.arange(rows))
  )
  totals = np.array([row.sum() for row in spans.rows()])
  assert (totals == math.ceil(words * 0.3)).all()
  assert (empty == 0).all() == (words == 0)


def _plainly(text, begins, ends):
  """Returns the text with each span replaced, spans one after the other."""
  hidden, first = set(), set()
  for begin, end in zip(begins, ends, strict=True):
    first.add(begin)
    hidden.update(range(begin + 1, end))
  return [
    MASK if place in first else token
    for place, token in enumerate(text.tolist())
    if place not in hidden
  ]


def test_spans_leave_one_mask_each_and_run_into_each_other(monkeypatch):
  text = _texts(200, 30, 1)
  seen = []
  place = infilling._places

  def spied(*arguments):
    seen.append(place(*arguments))
    return seen[-1]

  monkeypatch.setattr(infilling, "_places", spied)
  # Spans are so dense that many overlap.
  noise = TextInfilling(0.8, 6.0, whole_words=False)
  noisy = noise(text, _draws(text), BERT)
  (begins, ends), row_ends = seen[0], np.cumsum(text.lengths)
  assert (begins < ends).all() and len(set(begins)) == len(begins)
  assert (np.searchsorted(row_ends, begins, "right")
          == np.searchsorted(row_ends, ends - 1, "right")).all()  # fmt: skip
  expected = _plainly(text.values, begins, ends)
  # Empty spans insert more masks, anywhere.
  actual = noisy.values.tolist()
  assert [t for t in actual if t != MASK] == [t for t in expected if t != MASK]
  assert 0 <= actual.count(MASK) - expected.count(MASK) < 10


def test_what_is_left_is_in_order_and_words_go_as_a_whole():
  text = Ragged.full(np.tile([6, 601, 602], (50, 40)).astype(np.int32))
  noisy = TextInfilling(0.3)(text, _draws(text), BERT)
  for row in noisy.rows():
    kept = row[row != MASK]
    assert (kept.reshape(-1, 3) == [6, 601, 602]).all()
    # 12 of 40 words at most, fewer where spans overlap.
    assert 28 * 3 <= len(kept) <= 34 * 3


def test_spans_begin_everywhere_and_end_with_the_text():
  rows, length = 20_000, 20
  text = Ragged.full(np.tile(np.arange(10, 30, dtype=np.int32), (rows, 1)))
  noise = TextInfilling(0.05, 3.0, whole_words=False)  # one span of one token
  noisy = noise(text, _draws(text), BERT)
  assert (noisy.lengths >= length).all()
  inserted = noisy.lengths - length
  # A row draws until a span is not empty: geometric, e^-3 of them empty.
  assert np.mean(inserted > 0) == pytest.approx(math.exp(-3), abs=0.006)
  left = np.zeros((rows, length), bool)
  words = noisy.values != MASK
  owners = np.repeat(np.arange(rows), noisy.lengths)
  left[owners[words], noisy.values[words] - 10] = True
  gone = left.argmin(axis=1)
  assert not left[np.arange(rows), gone].any()
  counts = np.bincount(gone, minlength=length)
  assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # 99.9 %, 19 degrees


def test_insertions_are_uniform():
  rows = 100_000
  text = Ragged.full(np.tile(np.arange(10, 14, dtype=np.int32), (rows, 1)))
  noisy = TOKENS._with_insertions(
    text,
    np.zeros(4 * rows, bool),
    np.ones(rows, np.int64),
    Draws(0, np.arange(rows)),
    BERT,
  )
  made = noisy.values.reshape(rows, 5)
  assert ((made != MASK).sum(axis=1) == 4).all()
  counts = np.bincount((made == MASK).argmax(axis=1), minlength=5)
  assert ((counts - 20_000) ** 2 / 20_000).sum() < 18.5  # 4 degrees


def test_some_masks_are_random_tokens():
  text = _texts(*[500] * 200)
  noise = TextInfilling(0.3, whole_words=False, random_share=0.1)
  noisy = noise(text, _draws(text), vocabularies.bert(size=10**6))
  random = noisy.values > 2000
  masks = noisy.values == MASK
  share = random.sum() / (random.sum() + masks.sum())
  assert share == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
  "noise",
  [
    TokenMasking(),
    TokenDeletion(),
    TextInfilling(),
    TextInfilling(0.5, 1.0, whole_words=False, random_share=0.3),
  ],
)
def test_a_text_knows_nothing_of_the_others(noise):
  texts = [
    vocabularies.text(1, length, words=True)[0] for length in (50, 300, 3, 9)
  ]
  together = noise(Ragged.of(texts), Draws(1, np.arange(4)), BERT).rows()
  for row, text in enumerate(texts):
    alone = noise(Ragged.of([text]), Draws(1, [row]), BERT)
    np.testing.assert_array_equal(alone.values, together[row])


@pytest.mark.parametrize(
  "make, message",
  [
    (lambda: TokenMasking(0.0), "TokenMasking.noise_density is 0.0"),
    (lambda: TextInfilling(0.3, 0.0), "mean_span_length is 0.0; it must be a"),
    (lambda: TextInfilling(random_share=2), "random_share is 2; it must be a"),
  ],
)
def test_fields_are_checked(make, message):
  with pytest.raises(UserError, match=message):
    make()
