"""Vocabularies of every kind in prepared folders and in batches."""

import json
import shutil

import numpy as np
import pytest
import seqio

from tasks import vocabulary as task_vocabularies
from tasks.corpora.unlabelled_text import register_text_task
from tasks.your_data.text_to_text import TextToTextTask
from transformer_zoo.data.loader import loader
from transformer_zoo.data.prepare.preparation import prepare
from transformer_zoo.data.storage import folders
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary

LENGTHS = {"inputs": 24, "targets": 24}
ROWS = [f"the number {i}\tafter {i} goes {i + 1}" for i in range(20)]


@pytest.fixture
def registered():
  """The names of tasks, which are forgotten after the test."""
  names = []
  yield names
  for name in names:
    seqio.TaskRegistry.remove(name)


def properties(vocabulary):
  names = "kind size extra_ids lower_case checksum pad_id eos_id unk_id mask_id"
  return [getattr(vocabulary, name) for name in names.split()]


def test_stored_and_told(any_vocabulary, tmp_path):
  before = properties(any_vocabulary)
  stored = folders.copy_vocabulary(
    any_vocabulary, tmp_path / "here" / "vocabularies"
  )
  told = json.loads(json.dumps(manifest.vocabulary_to_json(stored)))
  assert str(tmp_path) not in json.dumps(told)
  shutil.copytree(tmp_path, tmp_path / "there", dirs_exist_ok=True)
  shutil.rmtree(tmp_path / "here", ignore_errors=True)
  folder = tmp_path / "there" / "here" / "vocabularies"
  found = manifest.vocabulary_from_json(told, folder)
  assert properties(found) == properties(any_vocabulary) == before
  assert found == folders.copy_vocabulary(any_vocabulary, folder)


def test_the_case_is_stored(tmp_path):
  (tmp_path / "vocab.txt").write_text("[UNK]\nthe\nThe\n")
  (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
  stored = folders.copy_vocabulary(Vocabulary(tmp_path), tmp_path / "stored")
  told = manifest.vocabulary_to_json(stored)
  assert manifest.vocabulary_from_json(told, tmp_path / "stored").encode(
    "The"
  ) == [1]


def test_what_older_manifests_say(vocabulary, tmp_path):
  stored = folders.copy_vocabulary(vocabulary, tmp_path)
  told = manifest.vocabulary_to_json(stored)
  del told["kind"], told["lower_case"]
  assert manifest.vocabulary_from_json(told, tmp_path).encode("a cat") == (
    vocabulary.encode("a cat")
  )


def text_to_text_batch(vocabulary, registered, tmp_path):
  """Returns a prepared task, moved away, and its validation batch."""
  (tmp_path / "rows.tsv").write_text("\n".join(["x\ty", *ROWS]))
  name = "vocabulary_text_to_text"
  TextToTextTask.from_tsv(
    name,
    splits={"validation": str(tmp_path / "rows.tsv")},
    inputs="{x}",
    targets="{y}",
    vocabulary=vocabulary.path,
    extra_ids=vocabulary.extra_ids,
  )
  registered.append(name)
  prepare(name, prepared_dir=tmp_path / "prepared")
  shutil.move(tmp_path / "prepared", tmp_path / "moved")
  (task,) = manifest.load(name, tmp_path / "moved").tasks
  batches = loader.evaluation_batches(
    task,
    split="validation",
    lengths={"inputs": 80, "targets": 80},
    batch_size=20,
  )
  batch, _ = next(iter(batches))
  return task, batch


def test_rows_become_batches(any_vocabulary, registered, tmp_path):
  task, batch = text_to_text_batch(any_vocabulary, registered, tmp_path)
  vocabulary = task.vocabulary
  assert properties(vocabulary) == properties(any_vocabulary)
  if any_vocabulary.kind != "bytes":
    assert vocabulary.path.startswith(str(tmp_path / "moved"))
  weights = batch["decoder_loss_weights"].astype(bool)
  targets = batch["decoder_target_tokens"]
  assert (targets[~weights] == vocabulary.pad_id).all()
  for row, filled, text in zip(targets, weights, ROWS, strict=True):
    ids = row[filled].tolist()
    answer = text.split("\t")[1]
    assert ids == [*vocabulary.encode(answer), vocabulary.eos_id]


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "bytes", "bpe"])
def test_spans_are_corrupted(kind, trained, registered, tmp_path):
  (tmp_path / "text.txt").write_text("\n".join(ROWS * 4))
  name = f"vocabulary_spans_{kind}"
  features = task_vocabularies.features(trained[kind].path, extra_ids=20)
  register_text_task(
    name, {"train": str(tmp_path / "text.txt")}, output_features=features
  )
  registered.append(name)
  mixture = prepare(name, prepared_dir=tmp_path / "prepared")
  vocabulary = mixture.tasks[0].vocabulary
  batches = loader.training_batches(
    mixture, split="train", lengths=LENGTHS, batch_size=8, seed=0
  )
  batch = next(batches)
  first = vocabulary.sentinel_ids[0]
  assert (np.sum(batch["encoder_input_tokens"] == first, axis=1) == 1).all()
  assert (batch["decoder_target_tokens"][:, 0] == first).all()
  ends = batch["encoder_input_tokens"][:, -1]
  assert (ends == vocabulary.eos_id).all()


def test_one_vocabulary_under_several_settings(trained):
  first, second = (
    task_vocabularies.FileVocabulary(trained["bpe"].path, extra_ids)
    for extra_ids in (10, 20)
  )
  assert first != second
  assert first == task_vocabularies.FileVocabulary(trained["bpe"].path, 10)
  assert first.encode("the") == second.encode("the")
