import pathlib
import pickle

import numpy as np
import pytest

from transformer_zoo.data import vocabularies
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

TEXTS = [
  "the cat sat on a mat.",
  "",
  "  spaces \n and\ttabs ",
  "Ünï unseen 漢字 ∑",
  "<extra_id_0> cat <extra_id_1> mat",
  "a<extra_id_3>",
]


def assert_equals_seqio(vocabulary, texts):
  theirs = vocabulary.to_seqio()
  assert vocabulary.size == theirs.vocab_size
  for text in texts:
    ids = vocabulary.encode(text)
    assert ids == list(theirs.encode(text))
    assert ids == theirs.encode_tf(text).numpy().tolist()
    sentinels = vocabulary.sentinel_ids
    for sequence in (
      ids,
      [*ids, 1, *ids],
      [0, *ids, 0],
      [int(sentinels[0]), *ids, int(sentinels[1])],
      [vocabulary.size + 27, *ids],
    ):
      assert vocabulary.decode(sequence) == theirs.decode(sequence)


def test_equals_seqio(vocabulary):
  assert_equals_seqio(vocabulary, TEXTS)


def test_t5_vocabulary_equals_seqio(shared_data):
  path = shared_data / "vocab/t5_cc_all_32000/sentencepiece.model"
  vocabulary = Vocabulary(str(path))
  assert vocabulary.size == 32100
  assert vocabulary.sentinel_ids[[0, 1, 99]].tolist() == [32099, 32098, 32000]
  ids = vocabulary.encode("translate English to German: That is good.")
  assert ids == [13959, 1566, 12, 2968, 10, 466, 19, 207, 5]
  assert_equals_seqio(vocabulary, TEXTS)


def test_sentinels_are_written_out(vocabulary):
  ids = [int(vocabulary.sentinel_ids[0]), *vocabulary.encode("cat")]
  assert vocabulary.decode(ids) == "<extra_id_0> cat"
  assert vocabulary.sentinel_ids.dtype == np.int32
  assert vocabulary.sentinel_ids[0] == vocabulary.size - 1


def test_decode_stops_at_eos(vocabulary):
  ids = vocabulary.encode("the cat")
  assert vocabulary.decode(np.array([*ids, 1, *ids])) == "the cat"


def test_survives_pickling(vocabulary):
  copy = pickle.loads(pickle.dumps(vocabulary))
  assert copy == vocabulary
  assert copy.encode("the cat") == vocabulary.encode("the cat")


def test_is_read_at_first_use_only():
  vocabulary = Vocabulary("/absent/sentencepiece.model")
  with pytest.raises(UserError, match="/absent/sentencepiece.model' cannot be"):
    vocabulary.encode("x")


def test_damaged_file_is_named(tmp_path):
  path = tmp_path / "bad.model"
  path.write_bytes(b"not a model")
  with pytest.raises(
    UserError, match="bad.model' is not a SentencePiece model"
  ):
    _ = Vocabulary(str(path)).size


def test_rewritten_file_is_another_vocabulary(tmp_path, vocabulary):
  path = tmp_path / "copy.model"
  path.write_text("[UNK]\nword\n")
  copy = Vocabulary(path, 30)
  before, size = copy.checksum, copy.size
  path.write_bytes(pathlib.Path(vocabulary.path).read_bytes())
  assert copy.checksum == vocabulary.checksum != before
  assert Vocabulary(path, 30).size == vocabulary.size != size


def test_other_kinds_are_refused():
  with pytest.raises(
    UserError, match="object is neither SentencePiece nor WordPiece"
  ):
    vocabularies.from_seqio(object())
