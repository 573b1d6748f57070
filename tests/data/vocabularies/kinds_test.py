"""Properties of vocabularies of every kind."""

import concurrent.futures
import multiprocessing
import pickle

import numpy as np
import pytest
import tensorflow as tf

from tests.data.vocabularies.comparison import assert_is_one_of_seqio
from tests.data.vocabularies.comparison import TEXTS
from transformer_zoo.data.vocabularies import Vocabulary


def test_is_one_of_seqio(any_vocabulary):
  assert_is_one_of_seqio(any_vocabulary, TEXTS)


def test_many_texts_in_one_tensor(trained):
  for kind in ("wordpiece", "byte_bpe"):
    vocabulary = trained[kind]
    ragged = vocabulary.to_seqio().encode_tf(tf.constant(TEXTS))
    assert ragged.to_list() == vocabulary.encode_batch(TEXTS)
    arrays = vocabulary.encode_arrays(TEXTS)
    assert [array.tolist() for array in arrays] == ragged.to_list()
    assert {array.dtype for array in arrays} == {np.dtype(np.int32)}
    texts = vocabulary.to_seqio().decode_tf(ragged).numpy()
    assert [text.decode() for text in texts] == [
      vocabulary.decode(ids) for ids in vocabulary.encode_batch(TEXTS)
    ]


@pytest.mark.parametrize("kind", ["byte_bpe", "tokenizer_json", "bytes"])
def test_every_text_comes_back(kind, trained):
  vocabulary = trained[kind]
  for text in TEXTS:
    if "<extra_id" not in text:  # bytes do not write sentinels
      assert vocabulary.decode(vocabulary.encode(text)) == text


@pytest.mark.parametrize("kind", ["unigram", "bpe", "wordpiece"])
def test_plain_text_comes_back(kind, trained):
  vocabulary = trained[kind]
  text = "The cat had a good name"
  assert vocabulary.decode(vocabulary.encode(text)) == text


def test_specials_in_a_text_are_text(any_vocabulary):
  vocabulary = any_vocabulary
  ids = vocabulary.encode("[CLS] </s> <|endoftext|> <pad> <s> [SEP]")
  special = {vocabulary.pad_id, vocabulary.eos_id, vocabulary.bos_id}
  assert special.isdisjoint(ids)


def test_decode_ends_at_eos_and_leaves_padding_out(any_vocabulary):
  vocabulary = any_vocabulary
  text = "The cat"
  ids = [vocabulary.pad_id, *vocabulary.encode(text)]
  if vocabulary.pad_id == vocabulary.eos_id:
    ids = ids[1:]
  ended = np.array([*ids, vocabulary.eos_id, *ids], np.int32)
  assert vocabulary.decode(ended) == text


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe"])
def test_sentinels_follow_the_pieces(kind, trained):
  plain = trained[kind]
  vocabulary = Vocabulary(plain.path, extra_ids=20)
  assert vocabulary.size == plain.size + 20
  assert vocabulary.sentinel_ids.tolist() == list(
    range(vocabulary.size - 1, plain.size - 1, -1)
  )
  ids = vocabulary.encode("<extra_id_0> The <extra_id_19>")
  assert (ids[0], ids[-1]) == (vocabulary.size - 1, plain.size)
  assert (
    vocabulary.decode(ids).split() == "<extra_id_0> The <extra_id_19>".split()
  )
  assert plain.sentinel_ids.shape == (0,)
  assert_is_one_of_seqio(vocabulary, TEXTS)


def test_bytes_are_byt5s():
  vocabulary = Vocabulary("bytes")
  assert vocabulary.encode("aé") == [97 + 3, 0xC3 + 3, 0xA9 + 3]
  assert vocabulary.size == 384
  assert vocabulary.sentinel_ids[[0, 124]].tolist() == [383, 259]
  assert vocabulary.decode([100, 255, 383, 2, 100]) == "aa"
  reused = Vocabulary("bytes", extra_ids=0)
  assert reused.size == 259
  assert reused.sentinel_ids[[0, 1, 99]].tolist() == [258, 257, 159]


def test_pickled_and_shared(any_vocabulary):
  vocabulary = any_vocabulary
  expected = [vocabulary.encode(text) for text in TEXTS]
  copy = pickle.loads(pickle.dumps(vocabulary))
  assert copy == vocabulary and hash(copy) == hash(vocabulary)
  with concurrent.futures.ThreadPoolExecutor(4) as threads:
    assert list(threads.map(copy.encode, TEXTS * 4)) == expected * 4


def test_in_other_processes(trained):
  vocabulary = trained["byte_bpe"]
  vocabulary.encode_batch(TEXTS)  # the library has threads by now
  context = multiprocessing.get_context("spawn")
  with concurrent.futures.ProcessPoolExecutor(1, context) as processes:
    found = list(processes.map(vocabulary.encode, TEXTS))
  assert found == [vocabulary.encode(text) for text in TEXTS]


def test_equal_by_what_they_are(trained):
  path = trained["unigram"].path
  assert Vocabulary(path) == Vocabulary(path, 100) != Vocabulary(path, 10)
  assert Vocabulary(path, lower_case=True) != Vocabulary(path)
  checksums = {
    Vocabulary(path).checksum,
    Vocabulary(path, lower_case=True).checksum,
    *(trained[kind].checksum for kind in trained if kind != "unigram"),
  }
  assert len(checksums) == 7
  assert Vocabulary("absent") == Vocabulary("absent") != Vocabulary("other")
