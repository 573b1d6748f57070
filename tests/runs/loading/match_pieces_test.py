"""Embeddings of a new vocabulary that shares pieces with the old one."""

import pathlib

import numpy as np
import pytest
import sentencepiece

from tests import tiny_models
from transformer_zoo.checkpoints.checkpoint_sources import Source
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.runs.loading import restoration
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.training import state
from transformer_zoo.training.sharding import placement


def vocabulary(folder, name, words, size):
  sentencepiece.SentencePieceTrainer.Train(
    sentence_iterator=iter([" ".join(words)] * 50),
    model_prefix=str(folder / name),
    vocab_size=size,
    pad_id=0,
    eos_id=1,
    unk_id=2,
    bos_id=-1,
    hard_vocab_limit=False,
    minloglevel=2,
  )
  return Vocabulary(str(folder / f"{name}.model"), extra_ids=0)


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory):
  folder = tmp_path_factory.mktemp("vocabularies")
  return (
    vocabulary(folder, "old", ["red boat", "green car", "blue house"], 26),
    vocabulary(folder, "new", ["red boot", "grün wagen", "blau haus"], 30),
  )


def test_a_piece_of_both_keeps_its_row_and_others_begin_at_the_mean(
  vocabularies,
):
  before, after = vocabularies
  base, _ = tiny_models.build("t5_1_1", VOCAB_SIZE=32)
  model, _ = tiny_models.build("t5_1_1", VOCAB_SIZE=40)
  params = tiny_models.random_parameters(base)
  flat = placement.parameters_of(state.abstract_variables(base))
  tree = {}
  for name in flat:
    leaf = params
    for key in name.split("/"):
      leaf = leaf[key]
    tree[name] = Tensor.of(leaf)
  source = Source(pathlib.Path("base"), "the checkpoint 'base'", tree)
  boxed = state.abstract_variables(model)
  found = restoration.Restoration.find(
    source,
    boxed,
    restoration.Rules(resized={"vocabulary"}),
  )
  wanted = placement.parameters_of(boxed)
  matched, note = restoration.match_pieces(found, wanted, before, after)
  old, new = before.pieces(), after.pieces()
  shared = [piece for piece in new if piece in old and piece]
  assert 3 < len(shared) < len(new)
  assert note.startswith(
    f"{len(shared)} of {after.size} pieces keep their rows"
  )
  table = matched.assignment.tensors["token_embedder/embedding"].read()
  logits = matched.assignment.tensors["decoder/logits_dense/kernel"].read()
  assert table.shape == (40, 24) and logits.shape == (24, 40)
  before_table = params["token_embedder"]["embedding"]
  before_logits = params["decoder"]["logits_dense"]["kernel"]
  for place in range(40):
    piece = new[place] if place < len(new) else None
    if piece in shared:
      row = old.index(piece)
      expected = before_table[row], before_logits[:, row]
    else:
      expected = before_table.mean(0), before_logits.mean(1)
    np.testing.assert_allclose(table[place], expected[0], atol=1e-6)
    np.testing.assert_allclose(logits[:, place], expected[1], atol=1e-6)
