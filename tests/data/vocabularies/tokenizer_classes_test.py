"""Vocabularies that a class of `transformers` reads, by its rules.

The ids of each row are those of the class, with which
tests/oracles/pytorch/tokenizer_classes_test.py compares live.
"""

import json

import pytest

from tests import llama_model
from tests import tokenizer_directories
from transformer_zoo.checkpoints import tokenizer_files
from transformer_zoo.data.storage import folders
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

TEXT = "Pé  ``a'' 漢字\x07 (9.1<mask>"


@pytest.fixture(scope="module", name="prepared")
def prepare(tmp_path_factory):
  folder = tmp_path_factory.mktemp("prepared")
  tokenizer_directories.prepare(folder)
  return folder


def directory(prepared, folder, name, **files):
  tokenizer_directories.write(prepared, folder, name, **files)
  return folder


def pieces(vocabulary, text=TEXT):
  names = vocabulary.pieces()
  return " ".join(names[i] for i in vocabulary.encode_prompt(text))


@pytest.mark.parametrize(
  ("name", "options", "expected"),
  [
    (
      "BertTokenizer",
      {},
      "p ##e [UNK] [UNK] a ' ' 漢 字 ( 9 . 1 [UNK] [UNK] [UNK]",
    ),
    ("MPNetTokenizer", {}, "p ##e [UNK] [UNK] a ' ' 漢 字 ( 9 . 1 <mask>"),
    ("FunnelTokenizer", {}, "p ##e <unk> <unk> a ' ' 漢 字 ( 9 . 1 <mask>"),
    (
      "GPT2Tokenizer",
      {},
      "P Ã© Ġ Ġ ` ` a ' ' Ġ æ ¼ ¢ å Ń Ĺ ć Ġ ( 9 . 1 < m a s k >",
    ),
    (
      "Qwen2Tokenizer",
      {},
      "P Ã© Ġ Ġ ` ` a ' ' Ġ æ ¼ ¢ å Ń Ĺ ć Ġ ( 9 . 1 < m a s k >",
    ),
    (
      "RobertaTokenizer",
      {},
      "P Ã© Ġ Ġ ` ` a ' ' Ġ æ ¼ ¢ å Ń Ĺ ć Ġ ( 9 . 1 <mask>",
    ),
    (
      "DebertaTokenizer",
      {},
      "P Ã© Ġ Ġ ` ` a ' ' Ġ æ ¼ ¢ å Ń Ĺ ć Ġ ( 9 . 1 < m a s k >",
    ),
    (
      "OpenAIGPTTokenizer",
      {},
      "p e</w> <unk> <unk> a</w> '</w> '</w> 漢</w> 字</w> (</w> 9</w> "
      ".</w> 1</w> <unk> <unk> a s <unk> <unk>",
    ),
    (
      "AlbertTokenizer",
      {},
      '▁ p e ▁ " a " ▁ 漢 字 ( ▁ 9 . ▁ 1 <unk> a s <unk>',
    ),
    ("XLNetTokenizer", {}, '▁ P e ▁ " a " ▁ 漢 字 ▁ ( 9 . ▁ 1 <mask>'),
    (
      "DebertaV2Tokenizer",
      {},
      "▁ P é ▁ [UNK] a ' ' ▁ 漢 字 [UNK] ▁ ( 9 . 1 [UNK] a s [UNK]",
    ),
    (
      "PegasusTokenizer",
      {},
      "▁ P é ▁ <unk> a ' ' ▁ 漢 字 ▁ ( 9 . 1 <unk> a s <unk>",
    ),
    (
      "T5Tokenizer",
      {},
      "▁ P é ▁ <unk> a ' ' ▁ 漢 字 ▁ ( 9 . 1 <unk> a s <unk>",
    ),
    ("XLMRobertaTokenizer", {}, "▁ P é ▁ <unk> a ' ' ▁ 漢 字 ▁ ( 9 . 1 <mask>"),
    (
      "MBartTokenizer",
      {},
      "▁ P é ▁ <unk> a ' ' ▁ 漢 字 <unk> ▁ ( 9 . 1 <mask>",
    ),
    ("MBart50Tokenizer", {}, "▁ P é ▁ <unk> a ' ' ▁ 漢 字 ▁ ( 9 . 1 <mask>"),
    ("CamembertTokenizer", {}, "▁ P é ▁ <unk> a ' ' ▁ 漢 字 ▁ ( 9 . 1 <mask>"),
    (
      "BertTokenizer",
      {"do_lower_case": False},
      "P ##é [UNK] [UNK] a ' ' 漢 字 ( 9 . 1 [UNK] [UNK] [UNK]",
    ),
    (
      "BertTokenizer",
      {"strip_accents": False},
      "p ##é [UNK] [UNK] a ' ' 漢 字 ( 9 . 1 [UNK] [UNK] [UNK]",
    ),
    (
      "BertTokenizer",
      {"do_lower_case": False, "strip_accents": True},
      "P ##e [UNK] [UNK] a ' ' 漢 字 ( 9 . 1 [UNK] [UNK] [UNK]",
    ),
    (
      "BertTokenizer",
      {"tokenize_chinese_chars": False},
      "p ##e [UNK] [UNK] a ' ' [UNK] ( 9 . 1 [UNK] [UNK] [UNK]",
    ),
    (
      "FunnelTokenizer",
      {"clean_text": False},
      "p ##e <unk> <unk> a ' ' 漢 字 <unk> ( 9 . 1 <mask>",
    ),
    (
      "RobertaTokenizer",
      {"add_prefix_space": True},
      "Ġ P Ã© Ġ Ġ ` ` a ' ' Ġ æ ¼ ¢ å Ń Ĺ ć Ġ ( 9 . 1 <mask>",
    ),
    (
      "GPT2Tokenizer",
      {"add_prefix_space": True},
      "Ġ P Ã© Ġ Ġ ` ` a ' ' Ġ æ ¼ ¢ å Ń Ĺ ć Ġ ( 9 . 1 < m a s k >",
    ),
    (
      "AlbertTokenizer",
      {"do_lower_case": False},
      '▁ P e ▁ " a " ▁ 漢 字 ( ▁ 9 . ▁ 1 <unk> a s <unk>',
    ),
    (
      "AlbertTokenizer",
      {"keep_accents": True},
      '▁ p é ▁ " a " ▁ 漢 字 ( ▁ 9 . ▁ 1 <unk> a s <unk>',
    ),
    (
      "AlbertTokenizer",
      {"add_prefix_space": False},
      'p e " a " 漢 字 ( 9 . 1 <unk> a s <unk>',
    ),
    (
      "XLNetTokenizer",
      {"do_lower_case": True},
      '▁ p e ▁ " a " ▁ 漢 字 ▁ ( 9 . ▁ 1 <mask>',
    ),
    (
      "DebertaV2Tokenizer",
      {"do_lower_case": True},
      "▁ p é ▁ [UNK] a ' ' ▁ 漢 字 [UNK] ▁ ( 9 . 1 [UNK] a s [UNK]",
    ),
    (
      "DebertaV2Tokenizer",
      {"split_by_punct": True},
      "▁ P é ▁ ▁ [UNK] ▁ [UNK] ▁a ▁ ' ▁ ' ▁ 漢 字 [UNK] ▁ ▁ ( ▁ 9 ▁ . "
      "▁ 1 ▁ [UNK] ▁ [UNK] a s [UNK] ▁ [UNK]",
    ),
    (
      "DebertaV2Tokenizer",
      {"add_prefix_space": False},
      "▁ P é ▁ [UNK] a ' ' ▁ 漢 字 [UNK] ▁ ( 9 . 1 [UNK] a s [UNK]",
    ),
    (
      "XLMRobertaTokenizer",
      {"add_prefix_space": False},
      "P é <unk> a ' ' 漢 字 ( 9 . 1 <mask>",
    ),
    (
      "PegasusTokenizer",
      {"offset": 4},
      "▁ P é ▁ <unk> a ' ' ▁ 漢 字 ▁ ( 9 . 1 <unk> a s <unk>",
    ),
    (
      "BertTokenizer",
      {"additional_special_tokens": ["9."]},
      "p ##e [UNK] [UNK] a ' ' 漢 字 ( 9. 1 [UNK] [UNK] [UNK]",
    ),
    (
      "BertTokenizer",
      {"split_special_tokens": True},
      "p ##e [UNK] [UNK] a ' ' 漢 字 ( 9 . 1 [UNK] [UNK] [UNK]",
    ),
  ],
)
def test_ids_are_those_of_the_class(
  name, options, expected, prepared, tmp_path
):
  stated = {"tokenizer_class": name, **options}
  folder = directory(prepared, tmp_path / "a", name, tokenizer_config=stated)
  vocabulary = Vocabulary(folder)
  assert pieces(vocabulary) == expected
  # A copy beside prepared data says the same.
  stored = folders.copy_vocabulary(vocabulary, tmp_path / "stored")
  told = json.loads(json.dumps(manifest.vocabulary_to_json(stored)))
  again = manifest.vocabulary_from_json(told, tmp_path / "stored")
  assert again.encode(TEXT) == vocabulary.encode(TEXT)
  assert again.checksum == vocabulary.checksum
  assert not again.rules or pieces(again) == expected
  # So does a directory that is written of it.
  (tmp_path / "theirs").mkdir()
  tokenizer_files.write(vocabulary, tmp_path / "theirs")
  if name != "RobertaTokenizer":  # GPT-2's is the class of a language model.
    assert pieces(Vocabulary(tmp_path / "theirs")) == expected


@pytest.mark.parametrize(
  ("model_type", "name"),
  [
    ("albert", "AlbertTokenizer"),
    ("bart", "RobertaTokenizer"),
    ("distilbert", "BertTokenizer"),
    ("electra", "BertTokenizer"),
    ("deberta", "DebertaTokenizer"),
    ("deberta-v2", "DebertaV2Tokenizer"),
    ("mbart", "MBartTokenizer"),
    ("mpnet", "MPNetTokenizer"),
    ("openai-gpt", "OpenAIGPTTokenizer"),
    ("qwen2", "Qwen2Tokenizer"),
    ("qwen3", "Qwen2Tokenizer"),
    ("xlm-roberta", "XLMRobertaTokenizer"),
    ("xlnet", "XLNetTokenizer"),
  ],
)
def test_a_model_without_a_named_class_has_its_own(
  model_type, name, prepared, tmp_path
):
  named = directory(
    prepared, tmp_path / "a", name, tokenizer_config={"tokenizer_class": name}
  )
  implied = directory(
    prepared, tmp_path / "b", name, config={"model_type": model_type}
  )
  first, second = Vocabulary(named), Vocabulary(implied)
  assert pieces(first) == pieces(second)
  assert first.pieces() == second.pieces()
  assert first.encode(TEXT) == second.encode(TEXT)


@pytest.mark.parametrize(
  ("name", "options"),
  [
    ("BertTokenizer", {"do_basic_tokenize": False, "never_split": ["naïve"]}),
    ("XLNetTokenizer", {"remove_space": False, "keep_accents": True}),
    ("AlbertTokenizer", {"sp_model_kwargs": {"enable_sampling": True}}),
    ("RobertaTokenizer", {"errors": "strict", "do_lower_case": True}),
    ("T5Tokenizer", {"legacy": False, "add_prefix_space": False}),
    ("DebertaV2Tokenizer", {"vocab_type": "spm", "an_option": None}),
  ],
)
def test_options_without_effect(name, options, prepared, tmp_path):
  found = []
  for folder, more in (("a", {}), ("b", options)):
    stated = {"tokenizer_class": name, **more}
    directory(prepared, tmp_path / folder, name, tokenizer_config=stated)
    found.append(Vocabulary(tmp_path / folder).encode_prompt(TEXT))
  assert found[0] == found[1]


@pytest.mark.parametrize(
  ("name", "files", "expected"),
  [
    ("BertTokenizer", {"added_tokens": {"<new>": 400}}, "<new> e"),
    (
      "XLMRobertaTokenizer",
      {"added_tokens": {"<new>": 400}},
      "<new> ▁ é",
    ),
    (
      "T5Tokenizer",
      {
        "tokenizer_config": {
          "additional_special_tokens": ["<new>", "<extra_id_0>"],
          "extra_ids": 1,
        }
      },
      "<new> ▁ é",
    ),
    (
      "RobertaTokenizer",
      {"special_tokens_map": {"mask_token": {"content": "<new>"}}},
      "<new> Ã©",
    ),
  ],
)
def test_pieces_that_files_add(name, files, expected, prepared, tmp_path):
  stated = {"tokenizer_class": name, **files.pop("tokenizer_config", {})}
  plain = directory(
    prepared, tmp_path / "a", name, tokenizer_config=stated | {"extra_ids": 1}
  )
  rows = Vocabulary(plain).size
  more = directory(
    prepared, tmp_path / "b", name, tokenizer_config=stated, **files
  )
  vocabulary = Vocabulary(more)
  text = "<new>é"
  assert pieces(vocabulary, text) == expected
  (more / "config.json").write_text(json.dumps({"vocab_size": rows}))
  left_out = Vocabulary(more)
  if name == "T5Tokenizer":
    rows = vocabulary.size
    assert left_out.size == vocabulary.size
  else:
    assert left_out.size == rows
  given = "added_tokens" in files
  assert left_out.passed_over == (("<new>",) if given else ())
  if given:
    (told,) = tokenizer_files.unread_pieces(more)
    assert told.startswith("1 piece (<new>) of ")


def test_special_pieces_of_a_unigram_model_are_text_in_corpora(
  prepared, tmp_path
):
  """Its model has pieces for them; no document can end itself."""
  name = "XLMRobertaTokenizer"
  stated = {"tokenizer_class": name}
  folder = directory(prepared, tmp_path / "a", name, tokenizer_config=stated)
  vocabulary = Vocabulary(folder)
  text = "a</s><s> <mask><pad>"
  special = {*range(3), vocabulary.mask_id}
  for ids in (
    vocabulary.encode(text),
    *vocabulary.encode_batch([text]),
    vocabulary.encode_with_places(text)[0].tolist(),
  ):
    assert special.isdisjoint(ids)
  assert special <= {*vocabulary.encode_prompt(text)}


@pytest.mark.parametrize(
  ("name", "config", "message"),
  [
    (
      "T5Tokenizer",
      {"tokenizer_class": "GemmaTokenizer"},
      r"tokenizer_config.json' names the class GemmaTokenizer, whose rules "
      r"\(case, accents, spaces, special pieces\) are not known here",
    ),
    (
      "T5Tokenizer",
      {"tokenizer_class": "BertTokenizerFast"},
      "names BertTokenizer, which reads a WordPiece model, and the vocabulary "
      "beside it is a Unigram one",
    ),
    (
      "AlbertTokenizer",
      {"tokenizer_class": "AlbertTokenizer", "word_case": "fold"},
      "has word_case='fold', which is not known here and may change how texts "
      "are cut",
    ),
    (
      "T5Tokenizer",
      {"tokenizer_class": "T5Tokenizer", "cut": [1]},
      r"has cut=\[1\], which is not known here",
    ),
    (
      "BertTokenizer",
      {"keep_case": True},
      "has keep_case=True, which is not known here",
    ),
    (
      "BertTokenizer",
      {"added_tokens_decoder": {"a": {"content": "<a>"}}},
      "has 'a' in added_tokens_decoder, which is no id",
    ),
    (
      "BertTokenizer",
      {"extra_special_tokens": {"image_token": 5}},
      "has extra_special_tokens",
    ),
    (
      "DebertaV2Tokenizer",
      {"tokenizer_class": "DebertaV2Tokenizer", "split_by_punct": "no"},
      "has split_by_punct='no'; it takes true or false",
    ),
  ],
)
def test_what_is_not_known_is_refused(
  name, config, message, prepared, tmp_path
):
  folder = directory(prepared, tmp_path / "a", name, tokenizer_config=config)
  with pytest.raises(UserError, match=message):
    Vocabulary(folder).check()


def test_a_model_of_another_kind(tmp_path):
  path = llama_model.train(tmp_path)
  config = {"tokenizer_class": "AlbertTokenizer"}
  (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
  with pytest.raises(UserError, match="no unigram model, and AlbertTokenizer"):
    Vocabulary(path).check()


def test_the_case_of_a_class_without_this_option(prepared, tmp_path):
  name = "XLMRobertaTokenizer"
  stated = {"tokenizer_class": name}
  folder = directory(prepared, tmp_path / "a", name, tokenizer_config=stated)
  with pytest.raises(UserError, match="XLMRobertaTokenizer has no such option"):
    Vocabulary(folder, lower_case=True).check()
  plain = Vocabulary(folder, lower_case=False)
  assert plain.encode("a") == Vocabulary(folder).encode("a")


def test_a_file_beside_is_read_again_when_it_changes(prepared, tmp_path):
  folder = directory(
    prepared,
    tmp_path / "a",
    "BertTokenizer",
    tokenizer_config={"do_lower_case": True},
  )
  assert pieces(Vocabulary(folder), "Paris") == "paris"
  (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
  assert pieces(Vocabulary(folder), "Paris") == "Paris"


def test_seqio_cuts_no_texts_of_a_class(prepared, tmp_path, monkeypatch):
  """SeqIO's vocabulary reads the model alone, as that of T5's tasks."""
  import seqio

  from tasks import vocabulary as task_vocabularies
  from transformer_zoo.data import vocabularies

  config = {"model_type": "albert"}
  folder = directory(prepared, tmp_path / "a", "AlbertTokenizer", config=config)
  path = str(folder / "spiece.model")
  message = "name AlbertTokenizer, which cuts texts by rules that SeqIO's"
  with pytest.raises(UserError, match=message):
    vocabularies.from_seqio(seqio.SentencePieceVocabulary(path, 0))
  monkeypatch.setenv("ZOO_VOCABULARY", path)
  with pytest.raises(UserError, match=message):
    task_vocabularies.T5Vocabulary().encode("Paris")
  for_forms = task_vocabularies.EncoderVocabulary()
  assert for_forms.encode("Paris") == Vocabulary(folder).encode("paris")
