"""Pairs of segments: what they are made of, and how often of what."""

import collections

import numpy as np
import pytest

from tests.corruption import documents
from tests.corruption import vocabulary
from transformer_zoo import corruption as corruptions
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masked_lm import Masking
from transformer_zoo.corruption.sentences import segment_pairs
from transformer_zoo.corruption.sentences.documents import cut
from transformer_zoo.corruption.sentences.sentence_pairs import NextSentence
from transformer_zoo.corruption.sentences.sentence_pairs import SentenceOrder
from transformer_zoo.corruption.sentences.sentence_pairs import SentencePair
from transformer_zoo.errors import UserError

LENGTH = 48
OBJECTIVES = (
  NextSentence(),
  NextSentence(separators=2),
  SentencePair(),
  SentenceOrder(),
)
DRAWN = 100_000


def examples_of(objective, text, chunks=None, keys=None, vocab=None):
  """Examples of some chunks of a text, all by default."""
  starts, ends = cut(text, objective.chunking(LENGTH))
  chunks = np.arange(len(starts)) if chunks is None else chunks
  keys = np.arange(len(chunks)) if keys is None else keys
  return objective(
    text,
    starts[chunks],
    ends[chunks],
    LENGTH,
    Draws(5, keys),
    vocab or documents.vocabulary_of(text),
  )


def segments_of(examples):
  """The places of A and B of each example, by the token types."""
  pairs = []
  for row, types in zip(
    examples["targets"].rows(), examples["token_types"].rows(), strict=True
  ):
    pairs.append([documents.places_of(row[types == side]) for side in (0, 1)])
  return pairs


@pytest.fixture(scope="module")
def text():
  return documents.text_of(documents.draw_documents(0))


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_rows_are_framed_pairs_with_token_types(objective, text):
  examples = examples_of(objective, text)
  sizes = examples["targets"].lengths
  assert sizes.max() == LENGTH  # and no row is longer
  between = [vocabulary.SEP] * objective.separators
  for row, types in zip(
    examples["targets"].rows(), examples["token_types"].rows(), strict=True
  ):
    assert row[0] == vocabulary.CLS
    assert (np.diff(types) >= 0).all()
    first, second = row[types == 0], row[types == 1]
    assert first[-len(between) :].tolist() == between
    assert second[-1] == vocabulary.SEP
    for tokens in (first[1 : -len(between)], second[:-1]):
      assert (np.diff(tokens) == 1).all()  # a stretch of the text
      assert len(tokens) and tokens[0] >= documents.FIRST
  for name in ("inputs", "weights", "token_types"):
    np.testing.assert_array_equal(examples[name].lengths, sizes)


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_special_tokens_are_never_hidden(objective, text):
  examples = examples_of(objective, text)
  hidden = examples["weights"].values == 1
  targets, inputs = examples["targets"].values, examples["inputs"].values
  assert (targets[hidden] >= documents.FIRST).all()
  np.testing.assert_array_equal(targets[~hidden], inputs[~hidden])
  assert 0.1 < hidden.mean() < 0.2


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_labels_tell_where_the_second_segment_is_from(objective, text):
  examples = examples_of(objective, text)
  labels = examples[objective.label].values
  assert set(labels) == {0, 1}
  for (first, second), label in zip(segments_of(examples), labels, strict=True):
    place = np.array([first[0], second[0]])
    own, other = text.documents_of(text.sentences_at(place))
    if objective.label == "sentence_order":
      assert own == other
      assert (first[-1] < second[0]) == (label == 0)
    else:
      assert (own == other) == (label == 0)
      if label == 0:
        assert first[-1] < second[0]
    for segment in (first, second):  # no segment is of two documents
      found = text.documents_of(text.sentences_at(segment))
      assert len(set(found.tolist())) == 1


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_an_example_knows_nothing_of_its_batch(objective, text):
  number = len(cut(text, objective.chunking(LENGTH))[0])
  chunks = np.random.default_rng(0).permutation(number)
  together = examples_of(objective, text, chunks, chunks + 7)
  for some in (slice(0, 1), slice(3, 11)):
    apart = examples_of(objective, text, chunks[some], chunks[some] + 7)
    for name, feature in apart.items():
      expected = [row.tolist() for row in together[name].rows()[some]]
      assert [row.tolist() for row in feature.rows()] == expected


def test_another_key_draws_another_pair(text):
  pairs = [
    segments_of(examples_of(NextSentence(), text, [4], [key]))[0]
    for key in range(50)
  ]
  assert len({(a[0], a[-1], b[0], b[-1]) for a, b in pairs}) > 20


def assert_share(count, number, share):
  """Within five standard deviations."""
  spread = np.sqrt(number * share * (1 - share))
  assert abs(count - number * share) <= 5 * spread + 1e-9


def assert_even(values, choices):
  counts = collections.Counter(values.tolist())
  assert set(counts) == set(choices)
  for count in counts.values():
    assert_share(count, len(values), 1 / len(counts))


def draw_often(objective, text, chunk):
  """The segments of one chunk, drawn 100,000 times."""
  starts, ends = cut(text, objective.chunking(LENGTH))
  return objective._draw(
    text,
    np.full(DRAWN, starts[chunk]),
    np.full(DRAWN, ends[chunk]),
    objective._room(LENGTH),
    Draws(9, np.arange(DRAWN)),
  )


# One chunk of six sentences of 5 tokens, documents of 1 to 4 sentences, and a
# last one that ends before B is as long as wanted.
FEW = [[5] * 6, [7], [4, 4], [6, 6, 6], [30, 30, 30, 30], [2, 3]]


def test_next_sentence_draws():
  objective = NextSentence(short_probability=0.0)
  text = documents.text_of(FEW)
  pair = draw_often(objective, text, 0)
  assert_share(pair.labels.sum(), DRAWN, 0.5)
  # A ends after any sentence but the last.
  assert_even(pair.lengths[0], [5, 10, 15, 20, 25])
  is_next = pair.labels == 0
  np.testing.assert_array_equal(
    pair.starts[1][is_next], pair.lengths[0][is_next]
  )
  np.testing.assert_array_equal(pair.lengths[:, is_next].sum(axis=0), 30)
  starts = pair.starts[1][~is_next]
  sentences = text.sentences_at(starts)
  np.testing.assert_array_equal(text.starts(sentences), starts)
  others = text.documents_of(sentences)
  assert_even(others, range(1, 6))  # not its own document
  for other in range(1, 6):
    # Any sentence of that document may be the first of B.
    within = sentences[others == other] - text.first_sentences[other]
    assert_even(within, range(len(FEW[other])))
  # B ends with the sentence that makes it as long as wanted, or its document.
  wanted = objective._room(LENGTH) - pair.lengths[0][~is_next]
  for start, length, aim in zip(
    starts[:2000], pair.lengths[1][~is_next], wanted, strict=False
  ):
    sentence = int(text.sentences_at(start))
    document = int(text.documents_of(sentence))
    expected = 0
    for number in range(sentence, text.first_sentences[document + 1]):
      expected += int(np.diff(text.ends, prepend=0)[number])
      if expected >= aim:
        break
    assert length == expected


def test_a_chunk_of_one_sentence_gets_a_random_next():
  text = documents.text_of([[5], *FEW])
  for objective in (NextSentence(), SentencePair()):
    assert draw_often(objective, text, 0).labels.all()


def test_sentence_pairs_are_of_one_sentence_each():
  text = documents.text_of(FEW)
  pair = draw_often(SentencePair(), text, 0)
  assert_share(pair.labels.sum(), DRAWN, 0.5)
  assert (pair.lengths[0] == 5).all()
  is_next = pair.labels == 0
  assert (pair.lengths[1][is_next] == 5).all()
  sentences = text.sentences_at(pair.starts[1][~is_next])
  np.testing.assert_array_equal(
    text.ends[sentences] - text.starts(sentences), pair.lengths[1][~is_next]
  )
  assert_even(text.documents_of(sentences), range(1, 6))
  starts, ends = cut(text, SentencePair().chunking(LENGTH))
  assert (starts[:4].tolist(), ends[:4].tolist()) == (
    [0, 10, 20, 30],
    [10, 20, 30, 37],
  )


def test_sentence_order_swaps_consecutive_segments():
  objective = SentenceOrder(short_probability=0.0)
  pair = draw_often(objective, documents.text_of(FEW), 0)
  assert_share(pair.labels.sum(), DRAWN, 0.5)
  swapped = pair.labels == 1
  earlier = np.where(swapped, pair.starts[1], pair.starts[0])
  assert (earlier == 0).all()
  later = np.where(swapped, pair.starts[0], pair.starts[1])
  np.testing.assert_array_equal(
    later, np.where(swapped, pair.lengths[1], pair.lengths[0])
  )
  assert_even(later, [5, 10, 15, 20, 25])
  np.testing.assert_array_equal(pair.lengths.sum(axis=0), 30)


def test_short_examples_aim_at_any_length():
  aims = segment_pairs.draw_aims(45, 0.1, Draws(0, np.arange(DRAWN)))
  short = aims[aims < 45]
  # A short one may aim at the full length too.
  assert_share(len(short), DRAWN, 0.1 * 43 / 44)
  assert_even(short, range(2, 45))
  none = segment_pairs.draw_aims(45, 0.0, Draws(0, np.arange(1000)))
  assert (none == 45).all()


def test_a_short_example_has_the_first_sentences_of_its_chunk():
  objective = NextSentence(short_probability=1.0, random_probability=0.0)
  text = documents.text_of([[5] * 9, [5]])
  pair = draw_often(objective, text, 0)
  assert (pair.starts[0] == 0).all()
  # Aims of 2 to 45: two sentences at least, and those that reach the aim.
  counts = collections.Counter(pair.lengths.sum(axis=0).tolist())
  assert set(counts) == set(range(10, 50, 5))
  assert_share(counts[10], DRAWN, 9 / 44)
  assert_share(counts[45], DRAWN, 5 / 44)


def test_longer_segments_are_shortened_at_both_ends():
  for first, second, most, left in [
    (30, 10, 20, (10, 10)),
    (30, 3, 20, (17, 3)),
    (3, 30, 20, (3, 17)),
    (30, 30, 21, (11, 10)),
    (5, 6, 20, (5, 6)),
    (1, 1000, 4, (1, 3)),
    (2, 2, 3, (2, 1)),
  ]:
    lengths = np.tile([[first], [second]], DRAWN // 10)
    fronts, stay = segment_pairs.shortened(
      lengths, most, Draws(0, np.arange(DRAWN // 10))
    )
    assert stay[:, 0].tolist() == list(left)
    assert (stay == stay[:, :1]).all()
    for front, removed in zip(fronts, (lengths - stay)[:, 0], strict=True):
      assert (front >= 0).all() and (front <= removed).all()
      # A coin for each token: mean n / 2, variance n / 4.
      spread = np.sqrt(removed / 4 / len(front))
      assert abs(front.mean() - removed / 2) <= 5 * spread + 1e-9
      assert abs(front.var() - removed / 4) <= 0.1 * removed / 4 + 1e-9


def shorten_one_by_one(first, second, most):
  """What BERT's loop leaves of two lengths."""
  while first + second > most:
    if first > second:
      first -= 1
    else:
      second -= 1
  return first, second


def test_lengths_after_shortening_equal_those_of_a_loop():
  lengths = np.random.default_rng(0).integers(1, 60, (2, 500))
  draws = Draws(0, np.arange(500))
  for most in (2, 3, 20, 45):
    _, stay = segment_pairs.shortened(lengths, most, draws)
    expected = [shorten_one_by_one(a, b, most) for a, b in lengths.T]
    assert [tuple(pair) for pair in stay.T] == expected


def test_segments_of_any_length_are_shortened():
  """A sentence of a million tokens needs no million coins."""
  lengths = np.array([[1_000_000, 3], [5, 900_000]])
  fronts, stay = segment_pairs.shortened(lengths, 45, Draws(0, np.arange(2)))
  assert stay.tolist() == [[40, 3], [5, 42]]
  assert abs(fronts[0, 0] - 500_000) < 1000
  assert abs(fronts[1, 1] - 450_000) < 1000


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_a_vocabulary_without_special_tokens(objective, text):
  """T5's: EOS separates, and nothing stands in front."""
  size = documents.FIRST + int(text.ends[-1])
  vocab = documents.vocabulary_of(
    text, cls_id=None, sep_id=None, eos_id=1, mask_id=4
  )
  assert vocab.size == size
  examples = examples_of(objective, text, vocab=vocab)
  for row, types in zip(
    examples["targets"].rows(), examples["token_types"].rows(), strict=True
  ):
    assert row[0] >= documents.FIRST
    assert row[types == 0][-objective.separators :].tolist() == (
      [1] * objective.separators
    )
    assert row[-1] == 1


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_specs(objective):
  assert corruptions.from_spec(corruptions.to_spec(objective)) == objective


def test_bad_fields_are_refused():
  with pytest.raises(UserError) as error:
    NextSentence(random_probability=1.5)
  assert str(error.value) == (
    "NextSentence.random_probability is 1.5; a probability lies between 0 and "
    "1."
  )
  with pytest.raises(UserError) as error:
    SentencePair(separators=0)
  assert str(error.value) == (
    "SentencePair.separators is 0; segments have 1 (BERT) or 2 (RoBERTa) "
    "between them."
  )
  with pytest.raises(UserError) as error:
    SentenceOrder(masking=0.15)
  assert str(error.value) == (
    "SentenceOrder.masking is 0.15; it must be @Masking()."
  )


def test_lengths_are_checked():
  objective, vocab = NextSentence(Masking()), vocabulary.bert()
  assert objective.check({"inputs": 5, "targets": 5}, vocab) == 0.0
  with pytest.raises(UserError, match="Inputs of 4 tokens are too short"):
    objective.check({"inputs": 4, "targets": 4}, vocab)
  with pytest.raises(UserError, match="they are 8 and 9"):
    objective.check({"inputs": 8, "targets": 9}, vocab)
  with pytest.raises(UserError, match="neither a mask token nor sentinels"):
    objective.check({"inputs": 8, "targets": 8}, vocabulary.bert(mask_id=None))
