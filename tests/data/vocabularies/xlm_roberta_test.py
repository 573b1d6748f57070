"""XLM-RoBERTa's SentencePiece model, whose ids are fairseq's.

tests/oracles/pytorch/encoders_test.py compares with its class.
"""

import json

import pytest
import sentencepiece

from transformer_zoo.data.storage import folders
from transformer_zoo.data.vocabularies import Vocabulary

NAME = "sentencepiece.bpe.model"
LINES = [f"a fine day number {i} in the house" for i in range(300)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
  """The model in a folder that names no class."""
  folder = tmp_path_factory.mktemp("plain")
  sentencepiece.SentencePieceTrainer.Train(
    sentence_iterator=iter(LINES),
    model_prefix=str(folder / "sentencepiece.bpe"),
    vocab_size=40,
    hard_vocab_limit=False,
    minloglevel=2,
  )
  return folder


@pytest.mark.parametrize(
  ("file", "content"),
  [
    ("config.json", {"model_type": "xlm-roberta"}),
    ("tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer"}),
  ],
)
def test_ids_are_those_of_fairseq(plain, file, content, tmp_path):
  (tmp_path / NAME).write_bytes((plain / NAME).read_bytes())
  (tmp_path / file).write_text(json.dumps(content))
  own, theirs = Vocabulary(plain / NAME, 0), Vocabulary(tmp_path)
  first = ["<s>", "<pad>", "</s>", "<unk>"]
  assert theirs.pieces() == [*first, *own.pieces()[3:], "<mask>"]
  assert (theirs.pad_id, theirs.unk_id) == (1, 3)
  assert (theirs.cls_id, theirs.sep_id, theirs.eos_id) == (0, 2, 2)
  assert theirs.mask_id == theirs.size - 1
  assert not theirs.extra_ids
  text = "a fine house"
  assert theirs.encode(text) == [i + 1 for i in own.encode(text)]
  ids = [theirs.cls_id, *theirs.encode(text), theirs.sep_id, theirs.pad_id]
  assert theirs.decode(ids[1:]) == theirs.decode(ids) == text
  assert theirs.unk_id in theirs.encode("漢")
  assert theirs.checksum != own.checksum
  stored = folders.copy_vocabulary(theirs, tmp_path / "prepared")
  assert stored.pieces() == theirs.pieces()


def test_other_directories_keep_their_ids(plain, tmp_path):
  (tmp_path / NAME).write_bytes((plain / NAME).read_bytes())
  (tmp_path / "config.json").write_text('{"model_type": "gemma"}')
  own, theirs = Vocabulary(plain / NAME, 0), Vocabulary(tmp_path, 0)
  assert theirs.pieces() == own.pieces()
