"""Masked language models: exact numbers, shares, special tokens, refusals."""

import json

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo import corruption
from transformer_zoo.corruption import FixedNumber
from transformer_zoo.corruption import Iid
from transformer_zoo.corruption import MaskedLanguageModel
from transformer_zoo.corruption import Masking
from transformer_zoo.corruption import NextTokens
from transformer_zoo.corruption import PreviousTokens
from transformer_zoo.corruption import RandomSpans
from transformer_zoo.corruption import Replacement
from transformer_zoo.corruption import WordSpans
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.noise_masks import Rows
from transformer_zoo.errors import UserError

BERT = vocabularies.bert()
ROWS = {"inputs": 128, "targets": 128}


def _make(corrupt, rows=40, length=126, vocabulary=BERT, seed=0):
  tokens = vocabularies.text(rows, length)
  made = corrupt(tokens, Draws(seed, np.arange(rows)), vocabulary)
  assert all(value.values.dtype == np.int32 for value in made.values())
  return tokens, {
    name: value.values.reshape(rows, -1) for name, value in made.items()
  }


def test_a_row_is_framed_and_the_targets_are_the_text():
  tokens, made = _make(MaskedLanguageModel())
  assert MaskedLanguageModel().raw_length(ROWS) == 126
  assert set(made) == {"inputs", "targets", "weights"}
  np.testing.assert_array_equal(made["targets"][:, 1:-1], tokens)
  for side in ("inputs", "targets"):
    assert (made[side][:, 0] == vocabularies.CLS).all()
    assert (made[side][:, -1] == vocabularies.SEP).all()
  assert set(np.unique(made["weights"]).tolist()) == {0, 1}
  assert not made["weights"][:, [0, -1]].any()
  seen = made["weights"] == 0
  assert (made["inputs"] == made["targets"])[seen].all()


def test_each_token_predicts_the_next_one():
  assert NextTokens().raw_length(ROWS) == 126
  assert NextTokens().check(ROWS, BERT) == 0
  tokens, made = _make(NextTokens())
  np.testing.assert_array_equal(made["inputs"][:, 1:-1], tokens)
  np.testing.assert_array_equal(made["targets"][:, :-1], made["inputs"][:, 1:])
  assert made["weights"][:, :-1].all() and not made["weights"][:, -1].any()


def test_each_token_predicts_the_one_before_it():
  tokens, made = _make(PreviousTokens())
  np.testing.assert_array_equal(made["inputs"][:, 1:-1], tokens)
  np.testing.assert_array_equal(made["targets"][:, 1:], made["inputs"][:, :-1])
  assert made["weights"][:, 1:].all() and not made["weights"][:, 0].any()


@pytest.mark.parametrize(
  "cls, sep, width", [(None, 3, 127), (2, None, 127), (None, None, 126)]
)
def test_special_tokens_are_those_of_the_vocabulary(cls, sep, width):
  vocabulary = vocabularies.bert(cls_id=cls, sep_id=sep)
  tokens, made = _make(MaskedLanguageModel(), vocabulary=vocabulary)
  assert made["targets"].shape == (40, width)
  before = int(cls is not None)
  np.testing.assert_array_equal(
    made["targets"][:, before : before + 126], tokens
  )


@pytest.mark.parametrize(
  "length, noise, number",
  [
    (128, FixedNumber(), 19),  # round(19.2)
    (512, FixedNumber(), 77),  # round(76.8)
    (128, FixedNumber(most=10), 10),
    (10, FixedNumber(0.25), 2),  # round(2.5), halves to even as in Python
    (4, FixedNumber(0.01), 1),
    (4, FixedNumber(1.0), 2),  # the special tokens stay
  ],
)
def test_exactly_so_many_are_hidden(length, noise, number):
  corrupt = MaskedLanguageModel(Masking(noise))
  _, made = _make(corrupt, length=length - 2)
  assert (made["weights"].sum(axis=1) == number).all()


def test_random_rounding_has_the_rate_on_average():
  noise = FixedNumber(0.15, random_rounding=True)
  numbers = noise(Draws(0, np.arange(100_000)), 50).sum(axis=1)
  assert set(numbers.tolist()) == {7, 8}
  assert numbers.mean() == pytest.approx(7.5, abs=0.006)


def test_all_choices_of_places_are_equally_likely():
  masks = FixedNumber(0.4)(Draws(0, np.arange(100_000)), 5)
  chosen, counts = np.unique(masks, axis=0, return_counts=True)
  assert len(chosen) == 10
  assert ((counts - 10_000) ** 2 / 10_000).sum() < 27.9  # 99.9 %, 9 degrees


# Devlin et al. 2019, table 8, and ELECTRA's generator: mask, random, kept.
@pytest.mark.parametrize(
  "shares",
  [
    (0.8, 0.1, 0.1),
    (1.0, 0.0, 0.0),
    (0.8, 0.2, 0.0),
    (0.8, 0.0, 0.2),
    (0.0, 0.8, 0.2),
    (0.0, 1.0, 0.0),
    (0.85, 0.0, 0.15),
  ],
)
def test_shares_of_masked_random_and_kept(shares):
  # A vocabulary so large that a random token is never the same.
  vocabulary = vocabularies.bert(size=10**6, mask_id=999_999)
  tokens = np.full((1000, 120), 7, np.int32)
  hidden = np.ones(tokens.shape, bool)
  hidden[:, :20] = False
  replaced = Replacement(*shares)(
    tokens, hidden, Draws(1, np.arange(1000)), vocabulary
  )
  assert (replaced[~hidden] == 7).all()
  seen = replaced[hidden]
  counts = np.array([np.sum(seen == 999_999), 0, np.sum(seen == 7)], np.float64)
  counts[1] = seen.size - counts.sum()
  expected = seen.size * np.array(shares)
  assert (counts[expected == 0] == 0).all()
  there = expected > 0
  chi_square = (counts - expected)[there] ** 2 / expected[there]
  assert chi_square.sum() < 13.8  # 99.9 % at 2 degrees of freedom


def test_random_tokens_are_uniform_over_the_text_ids():
  vocabulary = vocabularies.bert(size=56)
  tokens = np.full((1000, 100), 7, np.int32)
  replaced = Replacement(0.0, 1.0, 0.0)(
    tokens, np.ones(tokens.shape, bool), Draws(0, np.arange(1000)), vocabulary
  )
  counts = np.bincount(replaced.ravel(), minlength=56)
  assert not counts[: vocabularies.FIRST].any()
  expected = 100_000 / 51
  chi_square = ((counts[5:] - expected) ** 2 / expected).sum()
  assert chi_square < 86.7  # 99.9 % at 50 degrees of freedom


def test_spans_are_replaced_as_one():
  tokens = vocabularies.text(2000, 60)
  hidden = RandomSpans(0.3, 4)(Draws(0, np.arange(2000)), 60)
  replaced = Replacement(per_span=True)(
    tokens, hidden, Draws(5, np.arange(2000)), BERT
  )
  kinds = np.where(replaced == vocabularies.MASK, 0, 1 + (replaced != tokens))
  opens = hidden & ~np.pad(hidden, ((0, 0), (1, 0)))[:, :-1]
  first = kinds[opens]
  lengths = np.diff(np.append(np.flatnonzero(opens[hidden]), hidden.sum()))
  # A random token is by chance the same as it was.
  assert np.mean(kinds[hidden] == np.repeat(first, lengths)) > 0.999
  shares = np.bincount(first, minlength=3) / len(first)
  np.testing.assert_allclose(shares, (0.8, 0.1, 0.1), atol=0.01)


@pytest.mark.parametrize(
  "noise",
  [
    FixedNumber(),
    FixedNumber(random_rounding=True),
    Iid(),
    RandomSpans(),
    WordSpans(),
    WordSpans(weights=(6, 3, 2), most=20),
  ],
)
def test_special_tokens_stay_and_rows_are_their_own(noise):
  tokens = vocabularies.text(9, 64, words=True)
  tokens[:, [0, 30, -1]] = vocabularies.SEP
  tokens[4, 40:] = vocabularies.PAD
  masking = Masking(noise, Replacement(1.0, 0.0, 0.0))
  inputs, hidden = masking(tokens, Draws(2, np.arange(9)), BERT)
  assert not hidden[tokens < vocabularies.FIRST].any()
  assert hidden.any(axis=1).all()
  for row in (0, 4, 8):
    alone = masking(tokens[row : row + 1], Draws(2, [row]), BERT)
    np.testing.assert_array_equal(alone[0][0], inputs[row])
    np.testing.assert_array_equal(alone[1][0], hidden[row])


def test_a_padded_row_hides_a_share_of_its_own_tokens():
  tokens = vocabularies.text(3, 100)
  tokens[1, 40:] = vocabularies.PAD
  masks = FixedNumber(0.2)(Draws(0, np.arange(3)), 100, Rows(tokens, BERT))
  assert masks.sum(axis=1).tolist() == [20, 8, 20]


def test_the_mask_of_t5_is_a_sentinel():
  corrupt = MaskedLanguageModel(Masking(replacement=Replacement(1.0, 0, 0)))
  tokens, made = _make(corrupt, vocabulary=vocabularies.t5())
  assert made["inputs"].shape == tokens.shape
  assert (made["inputs"][made["weights"] == 1] == 999).all()


@pytest.mark.parametrize(
  "corrupt, lengths, vocabulary, message",
  [
    (
      MaskedLanguageModel(),
      {"inputs": 128, "targets": 114},
      BERT,
      "inputs and targets are of one length; they are 128 and 114",
    ),
    (
      MaskedLanguageModel(),
      {"inputs": 3, "targets": 3},
      BERT,
      "Inputs of 3 tokens are too short for an encoder's example; give them at "
      "least 4",
    ),
    (
      MaskedLanguageModel(),
      ROWS,
      vocabularies.bert(mask_id=None),
      "Replacement hides tokens behind a mask, and the vocabulary has neither",
    ),
    (
      MaskedLanguageModel(Masking(WordSpans())),
      ROWS,
      vocabularies.bert(word_starts=None),
      "shows where words begin",
    ),
  ],
)
def test_check_refuses(corrupt, lengths, vocabulary, message):
  with pytest.raises(UserError, match=message):
    corrupt.check(lengths, vocabulary)


def test_check_accepts():
  assert MaskedLanguageModel().check(ROWS, BERT) == 0
  random = Masking(replacement=Replacement(0.0, 1.0, 0.0))
  MaskedLanguageModel(random).check(ROWS, vocabularies.bert(mask_id=None))


@pytest.mark.parametrize(
  "make, message",
  [
    (lambda: Replacement(0.8, 0.1, 0.2), r"shares \(0.8, 0.1, 0.2\) of masked"),
    (lambda: Replacement(1.2, -0.2, 0.0), "must not be negative and add up"),
    (lambda: Masking(0.15), "Masking.noise is 0.15; it must be a noise mask"),
    (lambda: Masking(replacement=0.8), "Masking.replacement is 0.8; it must"),
    (lambda: FixedNumber(most=0.5), "FixedNumber.most is 0.5; it must be a"),
    (lambda: FixedNumber(1.5), "FixedNumber.noise_density is 1.5"),
  ],
)
def test_fields_are_checked(make, message):
  with pytest.raises(UserError, match=message):
    make()


def test_spec_goes_through_json():
  corrupt = MaskedLanguageModel(
    Masking(WordSpans(weights=(6, 3, 2)), Replacement(per_span=True))
  )
  spec = json.loads(json.dumps(corruption.to_spec(corrupt)))
  assert corruption.from_spec(spec) == corrupt
