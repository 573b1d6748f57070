"""Chunks of sentences against a plain reading of the rules."""

import numpy as np
import pytest

from tests.corruption import documents
from transformer_zoo.corruption.sentences import documents as sentences
from transformer_zoo.corruption.sentences.documents import Chunking
from transformer_zoo.corruption.sentences.documents import cut


def reaching(text_documents, chunking):
  """BERT's chunks, sentence by sentence: (start, end) of each."""
  chunks, place = [], 0
  for document in text_documents:
    current = []
    for number, length in enumerate(document):
      current.append(length)
      full = sum(current) >= chunking.length and len(current) >= chunking.fewest
      last = number == len(document) - 1
      if full or last or len(current) == chunking.most:
        if chunking.incomplete or len(current) >= chunking.fewest:
          chunks.append((place, place + sum(current)))
        place += sum(current)
        current = []
  return chunks


def fitting(text_documents, chunking):
  """RoBERTa's rows, sentence by sentence: (start, end) of each."""
  chunks, start, place, used = [], 0, 0, 0

  def close():
    nonlocal start, used
    if place > start:
      chunks.append((start, place))
    start, used = place, 0

  for number, document in enumerate(text_documents):
    for length in document:
      if used and used + length > chunking.length:
        close()
      while used + length > chunking.length:
        place += chunking.length
        length -= chunking.length
        close()
      place, used = place + length, used + length
    if not chunking.crossing:
      close()
    elif number < len(text_documents) - 1:
      used += 1  # a separator, where another sentence follows
  close()
  return chunks


def cut_pairs(text, chunking):
  starts, ends = cut(text, chunking)
  assert starts.dtype == ends.dtype == np.int64
  return list(zip(starts.tolist(), ends.tolist(), strict=True))


REACHING = (
  Chunking(25, reaching=True),
  Chunking(1, reaching=True),
  Chunking(1000, reaching=True),
  Chunking(25, reaching=True, fewest=2, incomplete=False),
  Chunking(25, reaching=True, fewest=2, most=2),
)


@pytest.mark.parametrize("chunking", REACHING, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_chunks_that_reach_a_length(chunking, seed):
  drawn = documents.draw_documents(seed)
  chunks = cut_pairs(documents.text_of(drawn), chunking)
  assert chunks == reaching(drawn, chunking)


@pytest.mark.parametrize("length", [1, 2, 25, 64, 1000])
@pytest.mark.parametrize("crossing", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_chunks_that_fit_a_length(length, crossing, seed):
  drawn = documents.draw_documents(seed)
  chunking = Chunking(length, crossing=crossing)
  chunks = cut_pairs(documents.text_of(drawn), chunking)
  assert chunks == fitting(drawn, chunking)
  total = sum(map(sum, drawn))
  assert [start for start, _ in chunks] == [0, *(e for _, e in chunks[:-1])]
  assert chunks[-1][1] == total  # every token is in one chunk


@pytest.mark.parametrize(
  "chunking", [*REACHING, Chunking(25), Chunking(25, crossing=True)], ids=str
)
@pytest.mark.parametrize("block", [1, 7])
def test_the_block_that_is_looked_at_changes_nothing(
  chunking, block, monkeypatch
):
  text = documents.text_of(documents.draw_documents(0))
  chunks = cut_pairs(text, chunking)
  monkeypatch.setattr(sentences, "_BLOCK", block)
  assert cut_pairs(text, chunking) == chunks


@pytest.mark.parametrize(
  ("drawn", "chunking", "expected"),
  [
    ([[5]], Chunking(25, reaching=True), [(0, 5)]),
    ([[5]], Chunking(3), [(0, 3), (3, 5)]),
    ([[9]], Chunking(3), [(0, 3), (3, 6), (6, 9)]),
    # The end of a long sentence shares its row.
    ([[5, 1]], Chunking(3), [(0, 3), (3, 6)]),
    ([[5], [1]], Chunking(3), [(0, 3), (3, 5), (5, 6)]),
    # Two tokens, a separator, one token: four, with a separator counted.
    ([[5], [1]], Chunking(3, crossing=True), [(0, 3), (3, 5), (5, 6)]),
    ([[6], [1]], Chunking(4, crossing=True), [(0, 4), (4, 7)]),
    ([[1], [1], [1], [1]], Chunking(3, crossing=True), [(0, 2), (2, 4)]),
    (
      [[5]],
      Chunking(3, reaching=True, fewest=2, incomplete=False),
      [],
    ),
  ],
)
def test_small_texts(drawn, chunking, expected):
  assert cut_pairs(documents.text_of(drawn), chunking) == expected


def test_no_text():
  text = sentences.Sentences(
    np.zeros(0, np.int64), np.zeros(1, np.int64), lambda starts, sizes: None
  )
  for chunking in (Chunking(5), Chunking(5, reaching=True)):
    assert cut_pairs(text, chunking) == []


def test_a_token_is_found_in_its_sentence_and_document():
  drawn = documents.draw_documents(1)
  text = documents.text_of(drawn)
  owners = [
    (number, sentence)
    for number, document in enumerate(drawn)
    for sentence, length in enumerate(document)
    for _ in range(length)
  ]
  found = text.sentences_at(np.arange(len(owners)))
  of = text.documents_of(found)
  within = found - text.first_sentences[of]
  assert list(zip(of.tolist(), within.tolist(), strict=True)) == owners
  np.testing.assert_array_equal(
    text.starts(np.arange(len(text.ends))),
    np.concatenate([[0], text.ends[:-1]]),
  )
