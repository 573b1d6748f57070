"""Ids of our vocabularies against the tokenizers of `transformers`, live.

Those read special pieces in a text as such, ours as text; no text here has one.
The `tokenizers` library writes a capital sigma at the end of a word small as σ,
Python (and the slow BERT tokenizer) as ς; no text here has that either.
"""

import gzip
import itertools
import json
import shutil

import numpy as np
import pytest
import sentencepiece
import transformers
from transformers.models.bert.tokenization_bert_legacy import (
  BertTokenizerLegacy,
)

from tests import llama_model
from tests import marian_vocabulary
from transformer_zoo.checkpoints import tokenizer_files
from transformer_zoo.conversion import exported_directory
from transformer_zoo.data.vocabularies import training
from transformer_zoo.data.vocabularies import Vocabulary

ODD = [
  "",
  "Naïve café: e\u0301, Å, ﬁ, ½, ™ and “quotes” — ``these'' too…",
  "emoji 🙂👩‍👩‍👧 🇩🇪; 漢字とかな 한국어 ภาษาไทย العربية Ελληνικά",
  "control \x07\x1f, zero\u200bwidth, soft\u00adhyphen, no\u00a0break",
  "  many   spaces \t tabs\n lines \r\n",
  "don't we're 3.14e-7 $x_1^2$ https://a.b/c?d=e (1,000) C++",
  "ALL CAPITALS, İstanbul, ẞ, ǅ",
]


@pytest.fixture(scope="module")
def texts(shared_data):
  path = shared_data / "text/wikipedia/validation.jsonl.gz"
  with gzip.open(path, "rt", encoding="utf-8") as rows:
    documents = [json.loads(row)["text"] for row in rows]
  paragraphs = [line for text in documents for line in text.split("\n") if line]
  return ODD + paragraphs[::4]


def assert_equal(vocabulary, tokenizer, texts):
  for text, ids in zip(texts, vocabulary.encode_batch(texts), strict=True):
    assert ids == tokenizer.encode(text, add_special_tokens=False), text


def assert_special_ids_equal(vocabulary, tokenizer, names):
  for name in names.split():
    theirs = getattr(tokenizer, f"{name}_token_id")
    assert getattr(vocabulary, f"{name}_id") == theirs, name


@pytest.mark.parametrize("lower_case", [True, False])
@pytest.mark.parametrize(
  "make", [BertTokenizerLegacy, transformers.BertTokenizer]
)
def test_bert(make, lower_case, shared_data, texts):
  path = str(shared_data / "vocab/bert_uncased_30522/vocab.txt")
  vocabulary = Vocabulary(path, lower_case=lower_case)
  tokenizer = make(path, do_lower_case=lower_case)
  assert_equal(vocabulary, tokenizer, texts)
  assert_special_ids_equal(vocabulary, tokenizer, "pad unk cls sep mask")


def test_gpt2(shared_data, texts):
  folder = shared_data / "vocab/gpt2_50257"
  vocabulary = Vocabulary(folder)
  tokenizer = transformers.GPT2Tokenizer(
    str(folder / "vocab.json"), str(folder / "merges.txt")
  )
  assert_equal(vocabulary, tokenizer, texts)
  assert_special_ids_equal(vocabulary, tokenizer, "bos eos")
  for text in texts:
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_roberta(shared_data, texts, tmp_path):
  corpus = str(shared_data / "text/c4_sample/validation.jsonl.gz")
  training.train_vocabulary(
    [corpus], str(tmp_path / "v"), kind="byte_bpe", size=2_000
  )
  vocabulary = Vocabulary(tmp_path / "v")
  tokenizer = transformers.RobertaTokenizer(
    str(tmp_path / "v/vocab.json"), str(tmp_path / "v/merges.txt")
  )
  assert_equal(vocabulary, tokenizer, texts)
  names = "pad eos unk bos cls sep mask"
  assert_special_ids_equal(vocabulary, tokenizer, names)


def test_byt5(texts):
  vocabulary = Vocabulary("bytes")
  tokenizer = transformers.ByT5Tokenizer()
  assert_equal(vocabulary, tokenizer, texts)
  assert_special_ids_equal(vocabulary, tokenizer, "pad eos unk")
  assert vocabulary.size == len(tokenizer)


def test_t5(shared_data, texts, tmp_path):
  file = shared_data / "vocab/t5_cc_all_32000/sentencepiece.model"
  shutil.copyfile(file, tmp_path / "spiece.model")
  vocabulary = Vocabulary(file)
  tokenizer = transformers.T5Tokenizer.from_pretrained(tmp_path)
  model = sentencepiece.SentencePieceProcessor(model_file=str(file))
  ties = 0
  for text in texts:
    ours = vocabulary.encode(text)
    theirs = tokenizer.encode(text, add_special_tokens=False)
    if ours != theirs:  # two ways to cut a text may be equally likely
      likelihoods = [sum(map(model.GetScore, ids)) for ids in (ours, theirs)]
      assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-6), text
      ties += 1
  assert ties < 3
  assert_special_ids_equal(vocabulary, tokenizer, "pad eos unk")
  sentinels = [f"<extra_id_{i}>" for i in range(100)]
  ids = tokenizer.convert_tokens_to_ids(sentinels)
  assert vocabulary.sentinel_ids.tolist() == ids


def test_albert(shared_data, texts, tmp_path):
  # Theirs cuts words otherwise than SentencePiece; what it reads is compared.
  file = shared_data / "vocab/albert_30k/spiece.model"
  shutil.copyfile(file, tmp_path / "spiece.model")
  tokenizer = transformers.AlbertTokenizer.from_pretrained(tmp_path)
  read = tokenizer.backend_tokenizer.normalizer.normalize_str
  cased, uncased = Vocabulary(file), Vocabulary(file, lower_case=True)
  assert uncased.encode_batch(texts) == cased.encode_batch(
    list(map(read, texts))
  )
  assert_special_ids_equal(uncased, tokenizer, "pad eos unk cls sep mask")


def assert_marian_equal(folder, texts):
  """Sides, codes and decoding, where no text has a special piece in it."""
  vocabulary = Vocabulary(folder)
  tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
  codes = tokenizer.supported_language_codes
  assert_equal(vocabulary, tokenizer, texts)
  coded = [f"{code} {text}" for code in codes for text in texts]
  assert_equal(vocabulary, tokenizer, [*coded, *codes, ">>nowhere<< a", ">>a"])
  for text in (
    "a</s> b",
    "<pad> <unk>c",
    f"a</s>{codes[0]} b" if codes else "",
  ):
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert vocabulary.encode_prompt(text) == ids
  theirs = tokenizer(text_target=texts, add_special_tokens=False).input_ids
  assert [vocabulary.encode_targets(text) for text in texts] == theirs
  random = np.random.RandomState(0)
  drawn = random.randint(0, vocabulary.size, [200, 12])
  drawn = drawn[(drawn != vocabulary.eos_id).all(1)].tolist()
  for ids in [*theirs, *vocabulary.encode_batch(texts), *drawn]:
    decoded = tokenizer.decode(ids, skip_special_tokens=True)
    assert vocabulary.decode(ids) == decoded
  assert_special_ids_equal(vocabulary, tokenizer, "pad eos unk")
  assert vocabulary.size == len(tokenizer)


def test_marian(texts, tmp_path):
  marian_vocabulary.write(tmp_path)
  own = marian_vocabulary.SOURCES + marian_vocabulary.TARGETS
  assert_marian_equal(tmp_path, own + texts)


@pytest.mark.parametrize(
  "settings",
  [{}, {"legacy": True}, {"legacy": False}, {"add_prefix_space": False}],
)
@pytest.mark.parametrize("model_type", ["llama", "gpt2", "mistral"])
@pytest.mark.parametrize("has_json", [False, True])
def test_prompts_of_a_llama(settings, model_type, has_json, tmp_path):
  if model_type == "mistral" and not has_json:
    pytest.skip("`transformers` puts no space before a text there")
  llama_model.train(tmp_path)
  (tmp_path / "text.txt").unlink()
  config = {"tokenizer_class": "LlamaTokenizer", **settings}
  (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
  model = {"model_type": model_type, "vocab_size": 330}
  (tmp_path / "config.json").write_text(json.dumps(model))
  if has_json:
    theirs = transformers.LlamaTokenizer.from_pretrained(tmp_path)
    content = json.loads(theirs.backend_tokenizer.to_str())
    content["pre_tokenizer"] = None  # As Llama 2 was published.
    content["normalizer"] = {
      "type": "Sequence",
      "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
      ],
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
  theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
  ours = Vocabulary(tmp_path)
  for text in [
    "hello",
    " hello",
    "  hello",
    " ",
    "▁hello",
    " \n hello",
    "hello  world </s><s>[INST] the fox",
    "</s>hello<unk>world 日本",
  ]:
    ids = theirs.encode(text, add_special_tokens=False)
    assert ours.encode_prompt(text) == ids


@pytest.mark.parametrize(
  ("files", "model_type", "first_fed"),
  [
    ("byte_bpe", "marian", None),
    ("llama", "t5", None),
    *itertools.product(
      ("byte_bpe", "llama"),
      ("gpt2", "llama", "mistral", "olmo2", "qwen2", "qwen3"),
      (0,),
    ),
  ],
)
def test_exported_prompts(files, model_type, first_fed, shared_data, tmp_path):
  """Around a text stands what the model was trained with."""
  path, theirs = shared_data / "vocab/gpt2_50257", tmp_path / "theirs"
  if files == "llama":
    path = llama_model.train(tmp_path)
  theirs.mkdir()
  vocabulary = Vocabulary(path, 0)
  said = tokenizer_files.write(vocabulary, theirs, first_fed=first_fed)
  content = {"model_type": model_type, "vocab_size": vocabulary.size}
  (theirs / "config.json").write_text(json.dumps(content))
  kind = transformers.AutoTokenizer
  if named := exported_directory.tokenizer_to_name(theirs):
    name = json.loads((theirs / "tokenizer_config.json").read_text())
    assert f"transformers.{name['tokenizer_class']}.from_pretrained" in named
    kind = getattr(transformers, name["tokenizer_class"])
  ids = vocabulary.encode("hello, world")
  ids = [*ids, vocabulary.eos_id] if first_fed is None else [first_fed, *ids]
  assert said == ""
  assert kind.from_pretrained(theirs).encode("hello, world") == ids
