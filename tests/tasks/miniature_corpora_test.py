"""Larger corpora of the miniature world hold the smaller ones."""

import seqio

from tasks import miniature_corpora
from tasks.miniature import source

FIRST, HELD_OUT = source.NUM_DOCUMENTS.values()


def texts(task_source, split):
  dataset = task_source.get_dataset(split, shuffle=False)
  return [row["text"].decode() for row in dataset.as_numpy_iterator()]


def test_training_documents_go_on_behind_the_held_out_ones(monkeypatch):
  monkeypatch.setitem(source.NUM_DOCUMENTS, "train", 30)
  monkeypatch.setitem(source.NUM_DOCUMENTS, "validation", 5)
  smaller = source.corpus_source("chronicle")
  larger = miniature_corpora.corpus_source(50)
  train, held_out = (texts(larger, s) for s in ("train", "validation"))
  assert train[:30] == texts(smaller, "train")
  assert held_out == texts(smaller, "validation")
  assert len(train) == 50
  assert not set(train[30:]) & {*train[:30], *held_out}
  few = miniature_corpora.corpus_source(20)
  assert texts(few, "train") == train[:20]
  assert texts(few, "validation") == held_out


def test_sizes_and_fingerprints_differ():
  names = ("mini_corpus_25k", "mini_corpus", "mini_corpus_200k")
  tasks = [seqio.TaskRegistry.get(name) for name in names]
  sizes = [task.source.num_input_examples("train") for task in tasks]
  assert sizes == [FIRST // 4, FIRST, 2 * FIRST]
  assert len({task.source.fingerprint() for task in tasks}) == 3
