"""Vectors of directories of sentence-transformers, read and written, live."""

import pathlib
import shutil

import numpy as np
import pytest
import sentence_transformers
from sentence_transformers.sentence_transformer import modules
import torch
import transformers

import tasks
from tests.oracles.pytorch import encoders_test as directories
import transformer_zoo
from transformer_zoo.cli import main as cli

MINIATURE = pathlib.Path(tasks.__file__).parent / "miniature"
TOLERANCE = 2e-6
TEXTS = [*directories.random_texts(6), "a fine day", "a fine day in the house"]
WIDTH = 30  # Of `encoders.CONFIGS`.


def saved(folder, name, save, pool, *behind):
  """Writes a directory of theirs; returns its model."""
  if name == "t5":
    save(folder / "encoder")
  else:
    directories.saved(folder / "encoder", name, save)
  model = sentence_transformers.SentenceTransformer(
    modules=[
      modules.Transformer(str(folder / "encoder")),
      modules.Pooling(WIDTH, pool),
      *behind,
    ],
    prompts={"query": "fine "},
  )
  model.save(str(folder / "theirs"))
  return model


def save_t5(folder):
  """Writes the encoder of a T5 with a vocabulary of T5's kind."""
  folder.mkdir()
  shutil.copy(MINIATURE / "vocabulary.model", folder / "spiece.model")
  tokenizer = transformers.AutoTokenizer.from_pretrained(
    folder, tokenizer_type="t5"
  )
  tokenizer.save_pretrained(folder)
  torch.manual_seed(0)
  config = transformers.T5Config(
    **{"vocab_size": len(tokenizer), "d_model": WIDTH, "d_kv": 8, "d_ff": 16},
    **{"num_heads": 2, "num_layers": 1, "feed_forward_proj": "gated-gelu"},
  )
  transformers.T5EncoderModel(config).save_pretrained(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "save", "pool", "dense"),
  [
    ("bert", directories.save_word_list, "mean", torch.nn.Tanh()),
    ("roberta", directories.save_byte_bpe, "cls", None),
    ("bert", directories.save_word_list, "lasttoken", torch.nn.Identity()),
    ("t5", save_t5, "mean", torch.nn.Identity()),
  ],
)
def test_vectors_there_and_back(name, save, pool, dense, tmp_path, report):
  behind = [modules.Normalize()]
  if dense is not None:
    torch.manual_seed(1)
    # Vectors that are not normalized have numbers above 1.
    last = behind if pool == "mean" else []
    behind = [modules.Dense(WIDTH, 5, activation_function=dense), *last]
  theirs = saved(tmp_path, name, save, pool, *behind)
  expected = theirs.encode(TEXTS)
  ours = transformer_zoo.load(tmp_path / "theirs")
  differences = {"read": ours.embed(TEXTS) - expected}
  assert cli.main(["convert", str(tmp_path / "theirs"), f"{tmp_path}/run"]) == 0
  assert cli.main(["convert", f"{tmp_path}/run", f"{tmp_path}/back"]) == 0
  run = transformer_zoo.load(tmp_path / "run")
  differences["run"] = run.embed(TEXTS) - expected
  differences["prompt"] = run.embed(TEXTS, prompt="query") - theirs.encode(
    TEXTS, prompt_name="query"
  )
  back = sentence_transformers.SentenceTransformer(str(tmp_path / "back"))
  assert back.prompts == theirs.prompts
  differences["written"] = back.encode(TEXTS) - expected
  scale = max(np.abs(expected).max(), 1)
  for what, difference in differences.items():
    report(what, np.abs(difference).max() / scale)
    assert np.abs(difference).max() < TOLERANCE * scale, what
