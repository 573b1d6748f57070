"""A small vocabulary of every kind."""

import random

import pytest
import tokenizers

from transformer_zoo.data.vocabularies import training
from transformer_zoo.data.vocabularies import Vocabulary

KINDS = ["unigram", "bpe", "wordpiece", "byte_bpe", "tokenizer_json", "bytes"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """Returns a vocabulary of each kind by name."""
  folder = tmp_path_factory.mktemp("kinds")
  rng = random.Random(0)
  letters = "abcdefghijklmnoprstuvwy"
  words = ["".join(rng.choices(letters, k=5)) for _ in range(900)]
  lines = [" ".join(["The", *rng.choices(words, k=9)]) for _ in range(400)]
  (folder / "text.txt").write_text("\n".join(lines))
  for kind in ("unigram", "bpe", "wordpiece", "byte_bpe"):
    training.train_vocabulary(
      [str(folder / "text.txt")], str(folder / kind), kind=kind, size=350
    )
  found = {
    kind: Vocabulary(folder / kind)
    for kind in ("unigram", "bpe", "wordpiece", "byte_bpe")
  }
  tokenizer = tokenizers.ByteLevelBPETokenizer(
    *(str(folder / "byte_bpe" / name) for name in ("vocab.json", "merges.txt"))
  )
  (folder / "json").mkdir()
  tokenizer.enable_padding()
  tokenizer.enable_truncation(3)
  tokenizer.save(str(folder / "json/tokenizer.json"))
  return found | {
    "tokenizer_json": Vocabulary(folder / "json", 20),
    "bytes": Vocabulary("bytes"),
  }


@pytest.fixture(params=KINDS)
def any_vocabulary(request, trained):
  return trained[request.param]
