"""Files of a vocabulary that `AutoTokenizer` reads as a model was trained."""

import json
import pathlib

import pytest
import sentencepiece
import tokenizers
from tokenizers import models
from tokenizers import processors

from tests import tokenizer_directories
from transformer_zoo.checkpoints import tokenizer_files
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

MINIATURE = pathlib.Path(__file__).parents[2] / "tasks/miniature"
LINES = [f"a fine day number {i} in the house" for i in range(300)]
ROBERTAS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
# As LLaMA's was trained.
LLAMAS = {
  "model_type": "bpe",
  "byte_fallback": True,
  "normalization_rule_name": "identity",
  "remove_extra_whitespaces": False,
}


def written(vocabulary, folder, first_fed=None, **settings):
  """The tokenizer_config.json, and what was said."""
  folder.mkdir()
  said = tokenizer_files.write(
    vocabulary, folder, first_fed=first_fed, **settings
  )
  return json.loads((folder / "tokenizer_config.json").read_text()), said


def llama_model(folder, name):
  (folder / "text.txt").write_text("\n".join(LINES))
  sentencepiece.SentencePieceTrainer.Train(
    input=str(folder / "text.txt"),
    model_prefix=str(folder / name),
    vocab_size=330,
    minloglevel=2,
    **LLAMAS,
  )


def byte_bpe(folder, special):
  (folder / "text.txt").write_text("\n".join(LINES))
  trained = tokenizers.ByteLevelBPETokenizer()
  trained.train(
    [str(folder / "text.txt")],
    vocab_size=300,
    special_tokens=special,
    show_progress=False,
  )
  trained.save_model(str(folder))
  return Vocabulary(folder)


@pytest.mark.parametrize(
  ("special", "expected"),
  [
    (
      ROBERTAS,
      {
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "mask_token": "<mask>",
      },
    ),
    (
      ["<pad>", "</s>"],
      {
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "</s>",
        "bos_token": None,
        "cls_token": None,
        "sep_token": None,
        "mask_token": None,
      },
    ),
  ],
)
def test_special_pieces_of_a_byte_level_bpe_are_named(
  special, expected, tmp_path
):
  """Its class would add GPT-2's end to the pieces otherwise."""
  vocabulary = byte_bpe(tmp_path, special)
  config, said = written(vocabulary, tmp_path / "theirs")
  assert expected.items() <= config.items()
  assert config["tokenizer_class"] == "GPT2Tokenizer"
  assert said == ""
  again = Vocabulary(tmp_path / "theirs")
  for name in ("pad_id", "eos_id", "unk_id", "bos_id", "mask_id", "checksum"):
    assert getattr(again, name) == getattr(vocabulary, name), name
  assert tokenizer_files.start_id(tmp_path / "theirs") is None


def word_list(folder):
  folder.joinpath("vocab.txt").write_text(
    "\n".join(["[PAD]", "[UNK]", "[SEP]", "a", "fine", "day"])
  )
  return folder


@pytest.mark.parametrize("kind", ["byte_bpe", "wordpiece"])
def test_sentinels_go_along(kind, tmp_path):
  """No class of such files would add them; a tokenizer.json has them."""
  if kind == "byte_bpe":
    byte_bpe(tmp_path, ["<pad>", "</s>"])
    (tmp_path / "text.txt").unlink()
  else:
    word_list(tmp_path)
  vocabulary = Vocabulary(tmp_path, 3)
  config, said = written(vocabulary, tmp_path / "theirs")
  assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
  assert f"put id {vocabulary.eos_id} behind them" in said
  names = {path.name for path in (tmp_path / "theirs").iterdir()}
  assert names == {"tokenizer.json", "tokenizer_config.json"}
  again = Vocabulary(tmp_path / "theirs")
  text = "a fine <extra_id_0> day <extra_id_2>"
  theirs = tokenizers.Tokenizer.from_file(
    str(tmp_path / "theirs" / "tokenizer.json")
  )
  assert vocabulary.encode(text) == again.encode(text)
  assert vocabulary.encode(text) == theirs.encode(text).ids
  assert again.sentinel_ids.tolist() == vocabulary.sentinel_ids.tolist()
  for name in ("size", "pad_id", "eos_id", "unk_id"):
    assert getattr(again, name) == getattr(vocabulary, name), name


def test_a_sentencepiece_model_of_an_encoder_decoder(tmp_path):
  vocabulary = Vocabulary(MINIATURE / "vocabulary.model")
  config, said = written(vocabulary, tmp_path / "theirs")
  assert (config["tokenizer_class"], said) == ("T5Tokenizer", "")
  assert (config["pad_token"], config["eos_token"]) == ("<pad>", "</s>")
  assert "add_bos_token" not in config


@pytest.mark.parametrize(
  ("options", "lower_case", "says"),
  [
    ({}, None, False),
    ({}, True, True),
    ({"model_type": "bpe"}, None, True),
    ({"unk_id": 3, "bos_id": 2}, None, True),
    ({"remove_extra_whitespaces": False}, None, True),
  ],
)
def test_what_t5s_class_cuts_otherwise_is_told(
  options, lower_case, says, tmp_path
):
  (tmp_path / "text.txt").write_text("\n".join(LINES))
  sentencepiece.SentencePieceTrainer.Train(
    input=str(tmp_path / "text.txt"),
    model_prefix=str(tmp_path / "t5"),
    **{"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, **options},
    vocab_size=60,
    hard_vocab_limit=False,
    minloglevel=2,
  )
  vocabulary = Vocabulary(tmp_path / "t5.model", 0, lower_case)
  config, said = written(vocabulary, tmp_path / "theirs")
  assert config["tokenizer_class"] == "T5Tokenizer"
  assert said == says * (
    "its T5Tokenizer cuts texts in another way than this model was trained on: "
    "give the model the ids of spiece.model as the sentencepiece package has "
    "them"
  )


def test_a_sentencepiece_model_of_a_language_model(tmp_path):
  """T5's class would end every prompt."""
  vocabulary = Vocabulary(MINIATURE / "vocabulary.model")
  _, said = written(vocabulary, tmp_path / "theirs", first_fed=0)
  assert said == (
    "its T5Tokenizer reads prompts in another way than this model was trained "
    "on: call it with add_special_tokens=False and put id 0 before them"
  )
  # Read here, a prompt begins as it did in training.
  assert tokenizer_files.start_id(tmp_path / "theirs") == 0


@pytest.mark.parametrize(("first", "piece"), [(1, "<s>"), (0, "<unk>")])
def test_a_model_like_llamas_of_a_language_model(first, piece, tmp_path):
  llama_model(tmp_path, "llama")
  vocabulary = Vocabulary(tmp_path / "llama.model", 0)
  config, said = written(vocabulary, tmp_path / "theirs", first_fed=first)
  assert said == ""
  assert (tmp_path / "theirs/tokenizer.model").is_file()
  expected = {
    "tokenizer_class": "LlamaTokenizer",
    "add_bos_token": True,
    "add_eos_token": False,
    "bos_token": piece,
    "eos_token": "</s>",
  }
  assert expected.items() <= config.items()
  assert tokenizer_files.start_id(tmp_path / "theirs") == first
  again = Vocabulary(tmp_path / "theirs")
  assert (again.kind, again.size) == ("sentencepiece", vocabulary.size)
  sentinels = Vocabulary(tmp_path / "llama.model", 9)
  config, _ = written(sentinels, tmp_path / "more", first_fed=first)
  assert config["tokenizer_class"] == "T5Tokenizer"


def test_a_tokenizer_json_that_begins_as_in_training(tmp_path):
  ids = {"a": 0, "<s>": 1, "</s>": 2}
  tokenizer = tokenizers.Tokenizer(models.WordLevel(ids, "a"))
  tokenizer.post_processor = processors.TemplateProcessing(
    single="<s> $A", special_tokens=[("<s>", 1)]
  )
  tokenizer.save(str(tmp_path / "tokenizer.json"))
  for first, is_right in ((1, True), (2, False), (None, False)):
    vocabulary = Vocabulary(tmp_path / "tokenizer.json")
    _, said = written(vocabulary, tmp_path / f"theirs{first}", first)
    assert (said == "") == is_right


@pytest.mark.parametrize("model", [models.WordLevel, models.BPE])
def test_a_tokenizer_json_without_the_letter_a(model, tmp_path):
  """Nor anything that stands for it, as one of nucleotides."""
  ids = {piece: i for i, piece in enumerate(["<s>", *"ACGT"])}
  tokenizer = tokenizers.Tokenizer(
    models.BPE(ids, []) if model is models.BPE else model(ids)
  )
  tokenizer.post_processor = processors.TemplateProcessing(
    single="<s> $A", special_tokens=[("<s>", 0)]
  )
  tokenizer.save(str(tmp_path / "tokenizer.json"))
  assert tokenizer_files.start_id(tmp_path) == 0


@pytest.mark.parametrize(
  ("stated", "begins"),
  [
    ({"tokenizer_class": "LlamaTokenizer"}, True),
    ({"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}, True),
    ({"tokenizer_class": "LlamaTokenizer", "add_bos_token": False}, False),
    ({"tokenizer_class": "LLaMATokenizer"}, True),
    ({"tokenizer_class": "T5Tokenizer"}, False),
    ({}, False),
  ],
)
def test_whether_a_tokenizer_without_json_begins_with_bos(
  stated, begins, tmp_path
):
  ids = ROBERTAS
  vocabulary = byte_bpe(tmp_path, ids)
  (tmp_path / "tokenizer_config.json").write_text(json.dumps(stated))
  expected = vocabulary.bos_id if begins else None
  assert tokenizer_files.start_id(tmp_path) == expected


@pytest.mark.parametrize(
  ("model", "begins"),
  [
    ({"model_type": "llama"}, True),
    ({"model_type": "mistral"}, True),
    ({"model_type": "t5"}, False),
    ({"model_type": "llama", "tokenizer_class": "T5Tokenizer"}, False),
  ],
)
def test_a_model_file_alone_is_read_as_by_the_models_own_class(
  model, begins, tmp_path
):
  llama_model(tmp_path, "tokenizer")
  (tmp_path / "config.json").write_text(json.dumps(model))
  assert Vocabulary(tmp_path).bos_id == 1
  assert tokenizer_files.start_id(tmp_path) == (1 if begins else None)


def test_a_directory_of_byt5_has_no_file_and_a_vocabulary(tmp_path):
  """As Google's: config.json alone names the class."""
  (tmp_path / "config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
  assert tokenizer_files.vocabulary(tmp_path).kind == "bytes"
  (tmp_path / "tokenizer_config.json").write_text('{"extra_ids": 125}')
  assert tokenizer_files.vocabulary(tmp_path).kind == "bytes"
  assert Vocabulary(str(tmp_path)).size == 384


def test_texts_of_encoders_stand_between_their_pieces(tmp_path):
  """RoBERTa's class puts them there, and a tokenizer.json may not."""
  vocabulary = byte_bpe(tmp_path, ROBERTAS)
  (tmp_path / "theirs").mkdir()
  assert not tokenizer_files.write(
    vocabulary, tmp_path / "theirs", of_encoder=True
  )
  config = json.loads((tmp_path / "theirs/tokenizer_config.json").read_text())
  assert config["tokenizer_class"] == "RobertaTokenizer"
  words = {word: i for i, word in enumerate(["[CLS]", "[SEP]", "[UNK]", "a"])}
  tokenizer = tokenizers.Tokenizer(models.WordLevel(words, "[UNK]"))
  tokenizer.save(str(tmp_path / "tokenizer.json"))
  (tmp_path / "other").mkdir()
  said = tokenizer_files.write(
    Vocabulary(tmp_path / "tokenizer.json"), tmp_path / "other", of_encoder=True
  )
  assert said == (
    "its PreTrainedTokenizerFast reads inputs in another way than this model "
    "was trained on: call it with add_special_tokens=False and put id 0 before "
    "them and id 1 behind them"
  )


@pytest.mark.parametrize(
  ("name", "config", "start", "end"),
  [
    ("MBartTokenizer", {}, None, "en_XX"),
    ("MBartTokenizer", {"src_lang": "de_DE"}, None, "de_DE"),
    ("MBart50Tokenizer", {"src_lang": "uk_UA"}, "uk_UA", None),
    ("BartTokenizer", {}, "<s>", None),
    ("T5Tokenizer", {}, None, None),
  ],
)
def test_what_classes_put_around_inputs(name, config, start, end, tmp_path):
  (tmp_path / "prepared").mkdir()
  tokenizer_directories.prepare(tmp_path / "prepared")
  folder = tmp_path / "theirs"
  config = {"tokenizer_class": name, **config}
  tokenizer_directories.write(
    tmp_path / "prepared", folder, name, tokenizer_config=config
  )
  pieces = Vocabulary(folder).pieces()
  for expected, found in (
    (start, tokenizer_files.start_id(folder)),
    (end, tokenizer_files.end_id(folder)),
  ):
    assert found == (None if expected is None else pieces.index(expected))
  _, said = written(
    Vocabulary(folder),
    tmp_path / "ours",
    begin_id=tokenizer_files.start_id(folder),
    end_id=tokenizer_files.end_id(folder),
  )
  assert said == ""


def test_an_mbart_that_another_tokenizer_reads(tmp_path):
  (tmp_path / "config.json").write_text('{"model_type": "mbart"}')
  ids = {"a": 0, "<s>": 1, "</s>": 2}
  tokenizers.Tokenizer(models.WordLevel(ids, "a")).save(
    str(tmp_path / "tokenizer.json")
  )
  assert tokenizer_files.end_id(tmp_path) is None
  assert not tokenizer_files.is_mbarts(tmp_path)


def test_a_language_that_is_no_piece(tmp_path):
  (tmp_path / "prepared").mkdir()
  tokenizer_directories.prepare(tmp_path / "prepared")
  folder = tmp_path / "theirs"
  tokenizer_directories.write(
    tmp_path / "prepared",
    folder,
    "MBartTokenizer",
    tokenizer_config={"tokenizer_class": "MBartTokenizer", "src_lang": "xx"},
  )
  with pytest.raises(UserError, match="src_lang='xx' in .* is no piece of the"):
    tokenizer_files.end_id(folder)
