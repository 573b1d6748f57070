"""A tiny vocabulary, and prepared tasks written without SeqIO."""

import functools
import random

import numpy as np
import pytest
import sentencepiece

from tests import prepared_splits
from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.corruption import to_spec
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "dogs", "bark", "Ünï"]


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory):
  """A SentencePiece model of 100 pieces, and 30 sentinels."""
  folder = tmp_path_factory.mktemp("vocabulary")
  rng = random.Random(0)
  lines = [" ".join(rng.choices(WORDS, k=12)) + "." for _ in range(300)]
  sentencepiece.SentencePieceTrainer.Train(
    sentence_iterator=iter(lines),
    model_prefix=str(folder / "tiny"),
    vocab_size=60,
    pad_id=0,
    eos_id=1,
    unk_id=2,
    bos_id=-1,
    hard_vocab_limit=False,
    minloglevel=2,
  )
  return Vocabulary(str(folder / "tiny.model"), extra_ids=30)


@pytest.fixture(scope="session")
def make_task_in(vocabulary):
  """Returns a function that writes a prepared task into a folder."""

  def make(
    parent,
    name,
    examples,
    *,
    kind="examples",
    eos_after_trim=True,
    split="train",
  ):
    folder = parent / name
    folder.mkdir()
    (parent / "vocabularies").mkdir(exist_ok=True)
    path = parent / "vocabularies" / "tiny.model"
    path.write_bytes(open(vocabulary.path, "rb").read())
    task = manifest.PreparedTask(
      name=name,
      folder=str(folder),
      kind=kind,
      features=("inputs", "targets"),
      vocabulary=Vocabulary(str(path), vocabulary.extra_ids),
      eos_after_trim=eos_after_trim,
      corruption=to_spec(SpanCorruption()) if kind == "tokens" else None,
      corruption_seed=0,
      splits={},
      scoring=None,
      definition="",
    )
    task.splits[split] = prepared_splits.write_split(
      examples, split, task, folder
    )
    manifest.save_task(task, folder)
    return task

  return make


@pytest.fixture
def make_task(make_task_in, tmp_path):
  """Returns a function that writes a prepared task."""
  return functools.partial(make_task_in, tmp_path)


@pytest.fixture(scope="session")
def short_examples():
  """Returns a function that draws examples whose first input id names them."""

  def draw(number, seed=0, first=0):
    rng = np.random.default_rng(seed)
    examples = []
    for i in range(number):
      # Two base-40 digits above the special ids tell the examples apart.
      name = [3 + (first + i) // 40, 3 + (first + i) % 40]
      body = rng.integers(3, 43, rng.integers(1, 9))
      target = rng.integers(3, 43, rng.integers(1, 4))
      examples.append(
        {
          "inputs": np.array([*name, *body, 1], np.int32),
          "targets": np.array([*name, *target, 1], np.int32),
          "idx": np.int32(first + i),
          "inputs_pretokenized": f"text {first + i}".encode(),
        }
      )
    return examples

  return draw


@pytest.fixture(scope="session")
def stream():
  """Returns a function that draws documents of an unlabelled task."""

  def draw(number, seed=0):
    rng = np.random.default_rng(seed)
    return [
      {"targets": rng.integers(3, 43, rng.integers(50, 900)).astype(np.int32)}
      for _ in range(number)
    ]

  return draw
