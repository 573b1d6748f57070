"""Ids of directories against the classes of `transformers` 5, live.

Version 5 has one class for slow and fast files, so that `use_fast` says
nothing. Prompts are compared, where special pieces are read; in corpora they
are text here, so that no document can end itself.
"""

import json
import shutil

import pytest
import transformers

from tests import tokenizer_directories
from tests.oracles.pytorch.vocabularies_test import ODD
from transformer_zoo.data.features import forms
from transformer_zoo.data.vocabularies import Vocabulary

SPECIAL = (
  "Paris is the [MASK] of France. <mask>, <mask_2>!",
  "a </s> b<s>c<pad> <unk> d [SEP]e [CLS] f <sep>g<cls> en_XXh <extra_id_0>i.",
  "x<|endoftext|> y <new>Paris <n0>x",
)
TEXTS = (*ODD, *SPECIAL, " lead", "\u200b", "Berlin \u200e Paris", "a\u3000b")
OPTIONS = (
  {},
  {"do_lower_case": True},
  {"do_lower_case": False, "strip_accents": True},
  {"strip_accents": False, "tokenize_chinese_chars": False},
  {"keep_accents": True, "split_by_punct": True, "clean_text": False},
  {"add_prefix_space": True, "offset": 20, "remove_space": False},
  {"add_prefix_space": False, "legacy": False, "never_split": ["don't"]},
  {
    "additional_special_tokens": ["<new>", "Paris", "<extra_id_0>"],
    "mask_token": "<n0>",
  },
)
ADDED = {
  "model_specific_special_tokens": {"image_token": "<new>"},
  "added_tokens_decoder": {
    "400": {
      "content": "<n0>",
      "lstrip": True,
      "normalized": True,
      "rstrip": False,
      "single_word": False,
      "special": False,
    }
  },
}
# Words that normalise to nothing, alone and beside others.
WORDS = (
  ["Berlin", "\u200e", "Paris", "is"],
  ["\u200e", "a", "\u200e"],
  ["x", "\x07", "\x07", "y", "漢"],
)


@pytest.fixture(scope="module", name="prepared")
def prepare(tmp_path_factory):
  folder = tmp_path_factory.mktemp("prepared")
  tokenizer_directories.prepare(folder)
  return folder


def assert_equal(folder, name):
  theirs = getattr(transformers, name).from_pretrained(folder)
  ours = Vocabulary(folder)
  assert ours.size == len(theirs)
  for role in ("pad", "eos", "unk", "bos", "cls", "sep", "mask"):
    i = getattr(theirs, f"{role}_token_id")
    # GPT-2's unknown piece is its end.
    if i is not None and (role, i) != ("unk", theirs.eos_token_id):
      assert getattr(ours, f"{role}_id") == i, role
  for text in TEXTS:
    ids = theirs.encode(text, add_special_tokens=False)
    assert ours.encode_prompt(text) == ids, text
  return theirs, ours


@pytest.mark.parametrize("name", tokenizer_directories.CLASSES)
def test_slow_files(name, prepared, tmp_path):
  for number, options in enumerate((*OPTIONS, ADDED)):
    stated = {"tokenizer_class": name, **options}
    tokenizer_directories.write(
      prepared, tmp_path / str(number), name, tokenizer_config=stated
    )
    assert_equal(tmp_path / str(number), name)
  files = {
    "special_tokens_map": {"mask_token": {"content": "<new>", "lstrip": True}},
    "added_tokens": {"<n0>": 400, "<new>": 401},
  }
  tokenizer_directories.write(prepared, tmp_path / "more", name, **files)
  named = tmp_path / "more" / "tokenizer_config.json"
  named.write_text(json.dumps({"tokenizer_class": name}))
  assert_equal(tmp_path / "more", name)


@pytest.mark.parametrize("name", tokenizer_directories.CLASSES)
def test_fast_files(name, prepared, tmp_path):
  """The options decide, whatever rules tokenizer.json has."""
  tokenizer_directories.write(
    prepared,
    tmp_path / "slow",
    name,
    tokenizer_config={"tokenizer_class": name},
  )
  theirs = getattr(transformers, name).from_pretrained(tmp_path / "slow")
  theirs.save_pretrained(tmp_path / "fast")
  for number, options in enumerate(OPTIONS[:-1]):
    folder = tmp_path / str(number)
    shutil.copytree(tmp_path / "fast", folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **options}))
    assert_equal(folder, name)
  slow, fast = Vocabulary(tmp_path / "slow"), Vocabulary(tmp_path / "fast")
  if name != "T5Tokenizer":  # SentencePiece puts no space behind a sentinel.
    assert slow.encode_batch(TEXTS) == fast.encode_batch(TEXTS)


@pytest.mark.parametrize(
  ("name", "model_type"),
  [
    ("AlbertTokenizer", "albert"),
    ("BertTokenizer", "electra"),
    ("DebertaV2Tokenizer", "deberta-v2"),
    ("GPT2Tokenizer", "gpt_neo"),
    ("MBartTokenizer", "mbart"),
    ("OpenAIGPTTokenizer", "openai-gpt"),
    ("Qwen2Tokenizer", "qwen2"),
    ("Qwen2Tokenizer", "qwen3"),
    ("RobertaTokenizer", "bart"),
    ("T5Tokenizer", "mt5"),
    ("XLMRobertaTokenizer", "xlm-roberta"),
    ("XLNetTokenizer", "xlnet"),
  ],
)
def test_the_class_is_the_one_that_is_chosen(
  name, model_type, prepared, tmp_path
):
  folder = tmp_path / "a"
  config = {"model_type": model_type}
  tokenizer_directories.write(prepared, folder, name, config=config)
  theirs = transformers.AutoTokenizer.from_pretrained(folder)
  assert type(theirs).__name__ == name
  ours = Vocabulary(folder)
  for text in TEXTS:
    ids = theirs.encode(text, add_special_tokens=False)
    assert ours.encode_prompt(text) == ids, text


@pytest.mark.parametrize(
  "name", ["AlbertTokenizer", "BertTokenizer", "XLMRobertaTokenizer"]
)
def test_the_first_piece_of_each_word(name, prepared, tmp_path):
  folder = tmp_path / "a"
  stated = {"tokenizer_class": name}
  tokenizer_directories.write(prepared, folder, name, tokenizer_config=stated)
  theirs = getattr(transformers, name).from_pretrained(folder)
  ours = Vocabulary(folder)
  for words in WORDS:
    read = theirs(words, is_split_into_words=True, add_special_tokens=False)
    owners = read.word_ids()
    expected = [
      owners.index(i) if i in owners else -1 for i in range(len(words))
    ]
    ids, places = ours.encode_with_places(" ".join(words))
    assert ids.tolist() == read.input_ids
    assert forms.first_pieces(words, places).tolist() == expected
