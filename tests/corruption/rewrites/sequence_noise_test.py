"""BART's noise on whole sequences: sentences, rotation, the combination."""

import collections
import json
import math

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo import corruption
from transformer_zoo.corruption import DocumentRotation
from transformer_zoo.corruption import SentencePermutation
from transformer_zoo.corruption import SequenceNoise
from transformer_zoo.corruption import TextInfilling
from transformer_zoo.corruption import TokenDeletion
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.errors import UserError

BERT = vocabularies.bert()
STOP = vocabularies.FULL_STOP


def _noisy(noise, *texts, seed=0):
  text = Ragged.of([np.array(text) for text in texts])
  noisy = noise(text, Draws(seed, np.arange(len(texts))), BERT)
  assert noisy.lengths.tolist() == [len(text) for text in texts]
  return [row.tolist() for row in noisy.rows()]


def test_sentences_end_with_full_stops_and_move_as_a_whole():
  # A run of full stops ends one sentence; the last part is one too.
  sentences = [[10, STOP], [20, 21, STOP, STOP, STOP], [30], [40, 41]]
  text = [*sentences[0], *sentences[1], *sentences[2], STOP, *sentences[3]]
  whole = {"10 5", "20 21 5 5 5", "30 5", "40 41"}
  seen = set()
  for row in _noisy(SentencePermutation(), *[text] * 200):
    left, found = " ".join(map(str, row)), []
    while left:
      (first,) = [s for s in whole if (left + " ").startswith(s + " ")]
      found.append(first)
      left = left[len(first) :].strip()
    assert sorted(found) == sorted(whole)
    seen.add(tuple(found))
  assert len(seen) == math.factorial(4)


def test_all_orders_of_sentences_are_equally_likely():
  rows = 100_000
  text = np.tile([10, STOP, 20, 21, STOP, 30], (rows, 1)).astype(np.int32)
  noisy = SentencePermutation()(
    Ragged.full(text), Draws(0, np.arange(rows)), BERT
  )
  counts = collections.Counter(map(tuple, noisy.values.reshape(rows, 6)))
  assert len(counts) == 6
  chi_square = sum((n - rows / 6) ** 2 / (rows / 6) for n in counts.values())
  assert chi_square < 20.5  # 99.9 % at 5 degrees of freedom


def test_a_share_of_the_sentences_changes_places():
  text = [token for i in range(10) for token in (10 + i, STOP)]
  moved = [
    sum(row[2 * i] != 10 + i for i in range(10))
    for row in _noisy(SentencePermutation(0.25), *[text] * 300)
  ]
  # ceil(2.5) of them, of which chance may leave one or all in place.
  assert set(moved) == {0, 2, 3}


def test_other_marks_end_sentences_too():
  vocabulary = vocabularies.bert(encode=lambda text: [{"!": 7}.get(text, 8)])
  noise = SentencePermutation(full_stops=("!",))
  text = Ragged.of([np.array([10, 7, 20, 8, 30, STOP])])
  orders = {
    tuple(noise(text, Draws(seed, [0]), vocabulary).values.tolist())
    for seed in range(60)
  }
  assert len(orders) == 6  # [10 7], [20 8] as after a word, [30 .]


def test_texts_without_full_stops_and_empty_ones_stay():
  assert _noisy(SentencePermutation(), [10, 11], [], [STOP]) == [
    *([10, 11], [], [STOP])
  ]
  assert _noisy(DocumentRotation(), [], [9]) == [[], [9]]


def test_rotation_begins_at_a_uniform_token():
  rows = 100_000
  text = np.tile(np.arange(10, 15, dtype=np.int32), (rows, 1))
  noisy = DocumentRotation()(Ragged.full(text), Draws(0, np.arange(rows)), BERT)
  made = noisy.values.reshape(rows, 5)
  np.testing.assert_array_equal((made - made[:, :1]) % 5, text - 10)
  counts = np.bincount(made[:, 0] - 10)
  assert ((counts - 20_000) ** 2 / 20_000).sum() < 18.5  # 4 degrees
  seldom = DocumentRotation(0.25)(
    Ragged.full(text), Draws(0, np.arange(rows)), BERT
  )
  same = (seldom.values.reshape(rows, 5) == text).all(axis=1).mean()
  assert same == pytest.approx(0.75 + 0.25 / 5, abs=0.006)


def test_noises_follow_each_other_and_the_targets_are_the_text():
  tokens = vocabularies.text(20, 200, words=True)
  tokens[:, ::17] = STOP
  corrupt = SequenceNoise((SentencePermutation(), TextInfilling(0.3)))
  made = corrupt(tokens, Draws(0, np.arange(20)), BERT)
  np.testing.assert_array_equal(made["targets"].values, tokens.ravel())
  for inputs, text in zip(made["inputs"].rows(), tokens, strict=True):
    kept = collections.Counter(inputs[inputs != vocabularies.MASK].tolist())
    assert kept <= collections.Counter(text.tolist())
    assert kept.total() > 100
    stops = text[np.flatnonzero(text == STOP)[:-1] + 1]
    order = [token for token in inputs.tolist() if token in set(stops)]
    assert order != [t for t in stops.tolist() if t in order] or len(order) < 5


@pytest.mark.parametrize(
  "noise", [SentencePermutation(), SentencePermutation(0.5), DocumentRotation()]
)
def test_a_text_knows_nothing_of_the_others(noise):
  texts = [vocabularies.text(1, length)[0] for length in (50, 300, 3)]
  for text in texts:
    text[::4] = STOP
  together = noise(Ragged.of(texts), Draws(1, np.arange(3)), BERT).rows()
  for row, text in enumerate(texts):
    alone = noise(Ragged.of([text]), Draws(1, [row]), BERT)
    np.testing.assert_array_equal(alone.values, together[row])


def test_lengths():
  lengths = {"inputs": 512, "targets": 512}
  corrupt = SequenceNoise((TextInfilling(),))
  assert corrupt.raw_length(lengths) == 511
  assert corrupt.check(lengths, BERT) == 0
  with pytest.raises(
    UserError, match=r"Sequence noise on 511 tokens leaves inputs of 3\d\d tok"
  ):
    corrupt.check({"inputs": 300, "targets": 512}, BERT)
  assert 0.1 < corrupt.check({"inputs": 400, "targets": 512}, BERT) < 0.9
  half = SequenceNoise((TokenDeletion(0.5),))
  assert half.check({"inputs": 256, "targets": 512}, BERT) == 0
  with pytest.raises(UserError, match="Targets of 2 tokens are too short"):
    corrupt.check({"inputs": 512, "targets": 2}, BERT)
  with pytest.raises(UserError, match="TextInfilling hides tokens behind a m"):
    corrupt.check(lengths, vocabularies.bert(mask_id=None))


@pytest.mark.parametrize(
  "make, message",
  [
    (lambda: SequenceNoise(()), r"noises is \(\); it must be one or more"),
    (lambda: SequenceNoise((0.3,)), r"noises is \(0.3,\); it must be one"),
    (lambda: SentencePermutation(1.5), "SentencePermutation.share is 1.5"),
    (lambda: DocumentRotation(0), "DocumentRotation.chance is 0; it must"),
  ],
)
def test_fields_are_checked(make, message):
  with pytest.raises(UserError, match=message):
    make()


def test_spec_goes_through_json():
  corrupt = SequenceNoise((SentencePermutation(), TextInfilling(0.35, 3.5)))
  spec = json.loads(json.dumps(corruption.to_spec(corrupt)))
  assert corruption.from_spec(spec) == corrupt
