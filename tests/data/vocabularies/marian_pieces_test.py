"""Marian's vocabularies: two SentencePiece models over one vocab.json."""

import json
import pickle
import shutil
import types

import numpy as np
import pytest
import sentencepiece
import seqio

from tasks import vocabulary as task_vocabularies
from tasks.your_data.text_to_text import TextToTextTask
from tests import marian_vocabulary
from tests.data.vocabularies.comparison import assert_is_one_of_seqio
from tests.data.vocabularies.comparison import TEXTS
from tests.marian_vocabulary import SOURCES
from tests.marian_vocabulary import TARGETS
from transformer_zoo.data.loader import loader
from transformer_zoo.data.prepare.preparation import prepare
from transformer_zoo.data.storage import folders
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("marian")
  marian_vocabulary.write(folder)
  return folder


@pytest.fixture(scope="module")
def ids(folder):
  return json.loads((folder / "vocab.json").read_text(encoding="utf-8"))


@pytest.fixture
def copy(folder, tmp_path):
  return shutil.copytree(folder, tmp_path / "copy")


def pieces(folder, name, text):
  model = sentencepiece.SentencePieceProcessor(model_file=str(folder / name))
  return model.EncodeAsPieces(text)


@pytest.mark.parametrize(
  "name", ["", *"source.spm target.spm vocab.json".split()]
)
def test_the_folder_or_any_of_its_files(name, folder, ids):
  vocabulary = Vocabulary(folder / name)
  assert vocabulary.kind == "marian"
  assert (vocabulary.eos_id, vocabulary.unk_id) == (0, 1)
  assert vocabulary.pad_id == len(ids) - 1 == vocabulary.size - 1
  assert vocabulary.bos_id is None
  assert vocabulary.extra_ids == 0
  assert vocabulary.checksum == Vocabulary(folder).checksum


def test_each_side_is_cut_by_its_own_model(folder, ids):
  vocabulary = Vocabulary(folder)
  for text in SOURCES + TARGETS:
    for encode, name in (
      (vocabulary.encode, "source.spm"),
      (vocabulary.encode_targets, "target.spm"),
    ):
      expected = [ids.get(piece, 1) for piece in pieces(folder, name, text)]
      assert encode(text) == expected
  text = TARGETS[0]
  assert vocabulary.encode(text) != vocabulary.encode_targets(text)
  assert Vocabulary("bytes").encode_targets("a") == [100]


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"sp_model_kwargs": {"alpha": 0.1}}, "cut here without sampling"),
    ({"separate_vocabs": True}, "only Marian vocabularies whose two languages"),
    ({"fold": "no"}, "has fold='no', which is not known here"),
  ],
)
def test_options_that_are_not_followed(options, message, copy):
  options = {"tokenizer_class": "MarianTokenizer", **options}
  (copy / "tokenizer_config.json").write_text(json.dumps(options))
  with pytest.raises(UserError, match=message):
    Vocabulary(copy).check()


def test_special_pieces_are_read_in_prompts_alone(folder, ids):
  vocabulary = Vocabulary(folder)
  text = "a</s>b"
  assert ids["</s>"] not in vocabulary.encode(text)
  assert vocabulary.encode_prompt(text) == [
    *vocabulary.encode("a"),
    ids["</s>"],
    *vocabulary.encode("b"),
  ]


def test_batches(folder):
  vocabulary = Vocabulary(folder)
  expected = [vocabulary.encode(text) for text in TEXTS]
  assert vocabulary.encode_batch(TEXTS) == expected
  arrays = vocabulary.encode_arrays(TEXTS)
  assert [array.tolist() for array in arrays] == expected
  assert {array.dtype for array in arrays} == {np.dtype(np.int32)}


def test_a_language_code_is_one_piece_at_the_beginning(folder, ids):
  vocabulary = Vocabulary(folder)
  text = SOURCES[0]
  for code in marian_vocabulary.CODES:
    expected = [ids[code], *vocabulary.encode(text)]
    assert vocabulary.encode(f"{code} {text}") == expected
  assert vocabulary.encode(">>nowhere<<") == [vocabulary.unk_id]
  for other in (f"a {code}", ">>fra", "<<fra>>"):
    assert not set(map(ids.get, marian_vocabulary.CODES)) & set(
      vocabulary.encode(other)
    )


def test_what_is_unknown(folder, ids):
  vocabulary = Vocabulary(folder)
  for text in ("漢字", "house", "</s>", "<pad>", "<unk>"):
    found = vocabulary.encode(text)
    assert vocabulary.unk_id in found
    assert not {vocabulary.eos_id, vocabulary.pad_id} & {*found}
  assert vocabulary.encode("") == []
  assert vocabulary.decode([ids["▁la"], 1, ids["▁la"]]) == "la la"
  assert vocabulary.decode([len(ids) + 7]) == ""


@pytest.mark.parametrize("text", TARGETS)
def test_targets_come_back(text, folder):
  vocabulary = Vocabulary(folder)
  written = vocabulary.encode_targets(text)
  row = [vocabulary.pad_id, *written, vocabulary.eos_id, *written]
  assert vocabulary.decode(row) == text


def test_pieces_of_the_source_come_back(folder, ids):
  """As they are: target.spm lacks them."""
  vocabulary = Vocabulary(folder)
  assert vocabulary.decode([ids["▁the"], ids["▁la"]]) == "the la"
  assert vocabulary.word_starts[ids["▁the"]]
  assert not vocabulary.word_starts[ids["s"]]


def test_stored_and_pickled(folder, tmp_path):
  vocabulary = Vocabulary(folder)
  stored = folders.copy_vocabulary(vocabulary, tmp_path)
  told = json.loads(json.dumps(manifest.vocabulary_to_json(stored)))
  found = manifest.vocabulary_from_json(told, tmp_path)
  for other in (found, pickle.loads(pickle.dumps(vocabulary))):
    assert other.checksum == vocabulary.checksum
    assert other.encode_batch(TEXTS) == vocabulary.encode_batch(TEXTS)


def test_other_files_are_another_vocabulary(folder, copy):
  shutil.copy(copy / "source.spm", copy / "target.spm")
  assert Vocabulary(copy).checksum != Vocabulary(folder).checksum


def test_merges_make_it_a_byte_level_bpe(copy):
  (copy / "merges.txt").write_text("#version: 0.2\n")
  assert Vocabulary(copy / "vocab.json").kind == "byte_bpe"


@pytest.mark.parametrize(
  ("name", "content", "sentence"),
  [
    ("target.spm", None, "a third of a Marian .*target.spm' is missing"),
    ("source.spm", b"\nno model", "source.spm' is not a SentencePiece model"),
    ("vocab.json", b"[1", "vocab.json' is no JSON"),
    ("vocab.json", b'{"a": "b"}', "has a='b'; it takes a whole number"),
    ("vocab.json", b'{"</s>": 0}', "vocab.json' lacks <pad>, <unk>"),
    ("target_vocab.json", b"{}", "numbers the pieces of targets by themselves"),
  ],
)
def test_what_is_no_such_vocabulary(name, content, sentence, copy):
  if content is None:
    (copy / name).unlink()
  else:
    (copy / name).write_bytes(content)
  with pytest.raises(UserError, match=sentence):
    Vocabulary(copy).check()


def test_what_it_cannot_do(folder):
  with pytest.raises(
    UserError, match="extra_ids=3: a Marian vocabulary has no"
  ):
    Vocabulary(folder, 3).check()
  with pytest.raises(UserError, match="lower_case is for WordPiece"):
    Vocabulary(folder, lower_case=True).check()


def test_features_of_seqio(folder):
  vocabulary = Vocabulary(folder)
  assert_is_one_of_seqio(vocabulary, TEXTS)
  features = task_vocabularies.features(str(folder))
  for feature, encode in (
    ("inputs", vocabulary.encode),
    ("targets", vocabulary.encode_targets),
  ):
    theirs = features[feature].vocabulary
    for text in SOURCES + TARGETS:
      assert theirs.encode(text) == encode(text)
      assert theirs.encode_tf(text).numpy().tolist() == encode(text)
    assert theirs == task_vocabularies.features(str(folder))[feature].vocabulary
  assert features["inputs"].vocabulary != features["targets"].vocabulary
  assert vocabulary.to_seqio() != vocabulary.to_seqio(of_targets=True)


def test_targets_that_a_task_would_cut_as_inputs_are_refused(folder, tmp_path):
  both = dict.fromkeys(
    ("inputs", "targets"), seqio.Feature(Vocabulary(folder).to_seqio())
  )
  task = types.SimpleNamespace(name="translate", output_features=both)
  with pytest.raises(UserError) as error:
    folders.store_vocabulary(task, tmp_path)
  assert str(error.value) == (
    "Task 'translate' would cut its targets by source.spm, the pieces of what "
    "is read; give the feature 'targets' the vocabulary "
    "Vocabulary(path).to_seqio(of_targets=True), or take both features from "
    "tasks.vocabulary.features(path)."
  )
  of_targets = seqio.Feature(Vocabulary(folder).to_seqio(of_targets=True))
  task.output_features = {**both, "targets": of_targets}
  stored = folders.store_vocabulary(task, tmp_path)
  assert stored.checksum == Vocabulary(folder).checksum


def test_a_task_is_prepared(folder, tmp_path):
  rows = [f"{x}\t{y}" for x, y in zip(SOURCES, TARGETS, strict=True)]
  (tmp_path / "rows.tsv").write_text("\n".join(["x\ty", *rows]))
  name = "marian_text_to_text"
  TextToTextTask.from_tsv(
    name,
    splits={"validation": str(tmp_path / "rows.tsv")},
    inputs="{x}",
    targets="{y}",
    vocabulary=str(folder),
  )
  try:
    prepare(name, prepared_dir=tmp_path / "prepared")
  finally:
    seqio.TaskRegistry.remove(name)
  (task,) = manifest.load(name, tmp_path / "prepared").tasks
  assert task.vocabulary.checksum == Vocabulary(folder).checksum
  batches = loader.evaluation_batches(
    task,
    split="validation",
    lengths={"inputs": 64, "targets": 64},
    batch_size=len(rows),
  )
  batch, _ = next(iter(batches))
  for key, texts, encode in (
    ("encoder_input_tokens", SOURCES, task.vocabulary.encode),
    ("decoder_target_tokens", TARGETS, task.vocabulary.encode_targets),
  ):
    for row, text in zip(batch[key], texts, strict=True):
      expected = [*encode(text), task.vocabulary.eos_id]
      assert row[: len(expected)].tolist() == expected
