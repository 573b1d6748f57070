"""Rows of sentences: each sentence once, in order, with separators."""

import numpy as np
import pytest

from tests.corruption import documents
from tests.corruption import vocabulary
from transformer_zoo import corruption as corruptions
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.sentences.documents import cut
from transformer_zoo.corruption.sentences.sentence_packing import DocSentences
from transformer_zoo.corruption.sentences.sentence_packing import FullSentences
from transformer_zoo.errors import UserError

LENGTH = 32
OBJECTIVES = (FullSentences(), DocSentences())


def examples_of(objective, text, chunks=slice(None), vocab=None):
  starts, ends = cut(text, objective.chunking(LENGTH))
  keys = np.arange(len(starts))[chunks]
  return objective(
    text,
    starts[chunks],
    ends[chunks],
    LENGTH,
    Draws(5, keys),
    vocab or documents.vocabulary_of(text),
  )


@pytest.fixture(params=range(3))
def text(request):
  return documents.text_of(documents.draw_documents(request.param))


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_every_token_is_in_one_row_of_an_epoch(objective, text):
  rows = examples_of(objective, text)["targets"].rows()
  places = np.concatenate([documents.places_of(row) for row in rows])
  np.testing.assert_array_equal(places, np.arange(text.ends[-1]))


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_rows_are_no_longer_than_told(objective, text):
  starts, ends = cut(text, objective.chunking(LENGTH))
  sizes = examples_of(objective, text)["inputs"].lengths
  assert sizes.max() == LENGTH
  told = objective.lengths(text, starts, ends, LENGTH)
  np.testing.assert_array_equal(sizes, told)


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_a_separator_stands_behind_each_document_of_a_row(objective, text):
  crossed = 0
  for row in examples_of(objective, text)["targets"].rows():
    assert row[0] == vocabulary.CLS
    assert row[-1] == vocabulary.SEP
    parts = np.split(row[1:], np.flatnonzero(row[1:] == vocabulary.SEP) + 1)
    assert not parts.pop().size  # nothing behind the last separator
    found = []
    for part in parts:
      places = documents.places_of(part)
      assert len(places) == len(part) - 1  # and there is some text
      owners = text.documents_of(text.sentences_at(places))
      assert owners[0] == owners[-1]
      found.append(owners[0])
    assert found == list(range(found[0], found[0] + len(found)))
    crossed += len(found) > 1
  assert bool(crossed) == objective.crossing


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_a_row_ends_with_a_sentence_unless_that_is_longer(objective, text):
  for row in examples_of(objective, text)["targets"].rows():
    last = documents.places_of(row)[-1]
    if last + 1 not in text.ends:
      assert len(row) == LENGTH
      sentence = text.sentences_at(np.array([last]))
      size = (text.ends[sentence] - text.starts(sentence))[0]
      assert size > LENGTH - 2


def test_full_rows_are_fuller(text):
  full, short = (
    len(examples_of(objective, text)["inputs"].lengths)
    for objective in OBJECTIVES
  )
  assert full < short


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_special_tokens_are_never_hidden(objective, text):
  examples = examples_of(objective, text)
  hidden = examples["weights"].values == 1
  assert (examples["targets"].values[hidden] >= documents.FIRST).all()
  assert 0.1 < hidden.mean() < 0.2
  assert set(examples) == {"inputs", "targets", "weights"}


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_an_example_knows_nothing_of_its_batch(objective, text):
  together = examples_of(objective, text)
  for some in (slice(0, 1), slice(3, 11)):
    apart = examples_of(objective, text, some)
    for name, feature in apart.items():
      expected = [row.tolist() for row in together[name].rows()[some]]
      assert [row.tolist() for row in feature.rows()] == expected


def test_thousands_of_sentences_of_one_token():
  text = documents.text_of([[1] * 5000, [1] * 3])
  rows = examples_of(FullSentences(), text)["targets"].rows()
  assert [len(row) for row in rows[:-1]] == [LENGTH] * (len(rows) - 1)
  short = examples_of(DocSentences(), text)["targets"].rows()
  assert len(short[-1]) == 5


def test_a_vocabulary_without_special_tokens(text):
  vocab = documents.vocabulary_of(
    text, cls_id=None, sep_id=None, eos_id=1, mask_id=4
  )
  rows = examples_of(FullSentences(), text, vocab=vocab)["targets"].rows()
  for row in rows:
    assert row[0] >= documents.FIRST
    assert row[-1] == 1
  places = np.concatenate([documents.places_of(row) for row in rows])
  np.testing.assert_array_equal(places, np.arange(text.ends[-1]))


def test_bad_fields_and_lengths_are_refused():
  with pytest.raises(UserError) as error:
    FullSentences(masking=None)
  assert str(error.value) == (
    "FullSentences.masking is None; it must be @Masking()."
  )
  vocab = vocabulary.bert()
  assert DocSentences().check({"inputs": 4, "targets": 4}, vocab) == 0.0
  with pytest.raises(UserError, match="Inputs of 3 tokens are too short"):
    DocSentences().check({"inputs": 3, "targets": 3}, vocab)


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_specs(objective):
  assert corruptions.from_spec(corruptions.to_spec(objective)) == objective
