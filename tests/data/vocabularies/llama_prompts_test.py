"""Prompts for a Llama, cut as `LlamaTokenizer` cuts them."""

import json
import shutil

import pytest

from tests import llama_model
from transformer_zoo.data.vocabularies import Vocabulary

LLAMA = {"tokenizer_class": "LlamaTokenizer"}


@pytest.fixture(scope="module", name="model")
def train_a_model(tmp_path_factory):
  return llama_model.train(tmp_path_factory.mktemp("model"))


def vocabulary_beside(model, folder, config):
  shutil.copy(model, folder / "tokenizer.model")
  if config:
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
  return Vocabulary(folder, 0)


@pytest.mark.parametrize(
  ("config", "text", "like"),
  [
    (LLAMA, " hello", "hello"),
    (LLAMA, "  hello", " hello"),
    (LLAMA, "hello  world", "hello  world"),
    ({**LLAMA, "legacy": True}, " hello", "hello"),
    # What no class reads.
    (None, " hello", " hello"),
  ],
)
def test_a_space_at_the_beginning(config, text, like, model, tmp_path):
  plain = Vocabulary(model, 0)
  found = vocabulary_beside(model, tmp_path, config)
  assert found.encode_prompt(text) == plain.encode(like)
  # A corpus is cut as SentencePiece cuts it.
  assert found.encode(text) == plain.encode(text)


@pytest.mark.parametrize(
  ("settings", "before", "behind"),
  [
    ({}, "▁hello", "world"),
    ({"legacy": True}, "▁hello", "▁world"),
    ({"add_prefix_space": False}, "hello", "world"),
  ],
)
def test_special_pieces_are_read(settings, before, behind, model, tmp_path):
  found = vocabulary_beside(model, tmp_path, {**LLAMA, **settings})
  ids = found.encode_prompt("hello</s><s>world")
  end = ids.index(2)
  assert ids[end : end + 2] == [2, 1]
  pieces = found.pieces()
  assert "".join(pieces[i] for i in ids[:end]) == before
  assert "".join(pieces[i] for i in ids[end + 2 :]) == behind
