"""Special pieces that the files beside a vocabulary name, and no others."""

import json
import shutil

import pytest
import tokenizers
from tokenizers import models
from tokenizers import pre_tokenizers
from tokenizers import processors

from tests import unpadded_model
from transformer_zoo.data.storage import folders
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary


@pytest.fixture(scope="module", name="model")
def train_a_model_without_padding(tmp_path_factory):
  return unpadded_model.train(tmp_path_factory.mktemp("model"))


STATED = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0}


def vocabulary_beside(model, folder, **files):
  folder.mkdir()
  shutil.copy(model, folder / "spiece.model")
  for name, content in ({"tokenizer_config": STATED} | files).items():
    (folder / f"{name}.json").write_text(json.dumps(content))
  return Vocabulary(folder)


@pytest.mark.parametrize(
  ("files", "pad"),
  [
    ({}, 2),
    ({"tokenizer_config": {**STATED, "pad_token": "<s>"}}, 1),
    ({"special_tokens_map": {"pad_token": {"content": "<s>"}}}, 1),
    ({"special_tokens_map": {"pad_token": "not there"}}, 2),
    # An encoder-decoder's configuration, where nothing else says it.
    ({"config": {"is_encoder_decoder": True, "pad_token_id": 1}}, 1),
    ({"config": {"is_encoder_decoder": True, "pad_token_id": -1}}, 2),
    ({"config": {"is_encoder_decoder": True, "pad_token_id": None}}, 2),
    ({"config": {"pad_token_id": 1}}, 2),
    (
      {
        "config": {"is_encoder_decoder": True, "pad_token_id": 1},
        "special_tokens_map": {"pad_token": "<unk>"},
      },
      0,
    ),
  ],
)
def test_padding_of_a_model_without_it(files, pad, model, tmp_path):
  plain = Vocabulary(model, 0)
  found = vocabulary_beside(model, tmp_path / "theirs", **files)
  assert (found.pad_id, found.eos_id, found.bos_id) == (pad, 2, 1)
  assert (found.checksum == plain.checksum) == (pad == 2)
  # What prepared data copies says the same.
  stored = folders.copy_vocabulary(found, tmp_path / "stored")
  told = json.loads(json.dumps(manifest.vocabulary_to_json(stored)))
  again = manifest.vocabulary_from_json(told, tmp_path / "stored")
  assert (again.pad_id, again.checksum) == (pad, found.checksum)


def test_another_end_than_the_models_own(model, tmp_path):
  """A piece that the model itself would write out."""
  stated = {**STATED, "eos_token": "<end_of_turn>"}
  found = vocabulary_beside(model, tmp_path / "chat", tokenizer_config=stated)
  assert found.eos_id == 3
  ids = found.encode("a fine day")
  assert found.decode([*ids, 3, *ids]) == "a fine day"


def write_llamas(folder, *, rows=5, begin="<s>", special=True, **stated):
  """A tokenizer.json with <pad> behind the five ids of its model."""
  ids = {"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4}
  tokenizer = tokenizers.Tokenizer(models.WordLevel(ids, "<unk>"))
  tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
  add = tokenizer.add_special_tokens if special else tokenizer.add_tokens
  add(["<pad>"])
  tokenizer.post_processor = processors.TemplateProcessing(
    single=f"{begin} $A",
    special_tokens=[(begin, tokenizer.token_to_id(begin))],
  )
  folder.mkdir()
  tokenizer.save(str(folder / "tokenizer.json"))
  config = {"tokenizer_class": "LlamaTokenizer", "pad_token": "<pad>", **stated}
  (folder / "tokenizer_config.json").write_text(json.dumps(config))
  (folder / "config.json").write_text(json.dumps({"vocab_size": rows}))
  return Vocabulary(folder)


def test_a_special_piece_that_the_embedding_has_no_row_for(tmp_path):
  """Copies of Llama 2 pad with id 32,000 of 32,000 rows."""
  found = write_llamas(tmp_path / "theirs")
  assert (found.size, found.pad_id, found.eos_id) == (5, 2, 2)
  assert found.passed_over == ("<pad>",)
  assert found.encode_prompt("a <pad> b") == [3, 0, 4]
  stored = folders.copy_vocabulary(found, tmp_path / "stored")
  told = json.loads(json.dumps(manifest.vocabulary_to_json(stored)))
  again = manifest.vocabulary_from_json(told, tmp_path / "stored")
  assert (again.size, again.pad_id) == (5, 2)
  assert again.checksum == found.checksum


@pytest.mark.parametrize(
  "needed",
  [
    {"rows": 6},
    {"rows": 4},
    {"special": False},
    {"eos_token": "<pad>"},
    {"begin": "<pad>"},
  ],
)
def test_pieces_that_are_there_or_needed_stay(needed, tmp_path):
  found = write_llamas(tmp_path / "theirs", **needed)
  assert (found.size, found.pad_id, found.passed_over) == (6, 5, ())
