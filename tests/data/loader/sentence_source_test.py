"""Sentences of prepared text, from files to batches."""

import numpy as np
import pytest

from tests.corruption import documents
from transformer_zoo.corruption.masked_lm import Masking
from transformer_zoo.corruption.sentences.sentence_packing import DocSentences
from transformer_zoo.corruption.sentences.sentence_packing import FullSentences
from transformer_zoo.corruption.sentences.sentence_pairs import NextSentence
from transformer_zoo.corruption.sentences.sentence_pairs import SentenceOrder
from transformer_zoo.corruption.sentences.sentence_pairs import SentencePair
from transformer_zoo.data.features.converters import Encoder
from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader import packing as row_packing
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.loader.sentence_source import SentenceSource
from transformer_zoo.data.prepare import sentences
from transformer_zoo.data.prepare import shards
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage.manifest import PreparedMixture
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

LENGTHS = {"inputs": 48, "targets": 48}
PAIRS = (NextSentence(), SentencePair(), SentenceOrder())
PACKINGS = (FullSentences(), DocSentences())


def name_of(objective):
  return type(objective).__name__


def examples_of(lengths, seed=0):
  """Documents with the given sentences, of random tokens."""
  rng = np.random.default_rng(seed)
  return [
    {
      "targets": rng.integers(3, 43, sum(some)).astype(np.int32),
      shards.SENTENCE_LENGTHS: np.array(some, np.int32),
    }
    for some in lengths
  ]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
  """Counts rows a few windows at a time, as tiny tasks need no more."""
  monkeypatch.setattr(row_packing, "_GROUP", 4)


@pytest.fixture(scope="module")
def drawn():
  """Sentence lengths of documents, and texts and sentences without tokens."""
  some = documents.draw_documents(0)
  return [[], *some[:5], [], [0, 4, 0, 0, 5, 0], [0], *some[5:], []]


@pytest.fixture(scope="module")
def task(make_task_in, drawn, tmp_path_factory):
  folder = tmp_path_factory.mktemp("prepared")
  return make_task_in(folder, "text", examples_of(drawn), kind="tokens")


def mixture_of(task):
  return PreparedMixture("text", (task,), (1.0,))


def batches_of(task, objective, number, start_step=0, **kwargs):
  arguments = {
    "split": "train",
    "lengths": LENGTHS,
    "batch_size": 8,
    "seed": 3,
    "converter": Encoder(),
    "corruption": objective,
  } | kwargs
  batches = loader.open_batches(mixture_of(task), **arguments)
  return [batches[start_step + step] for step in range(number)]


def assert_same(batches, others):
  for batch, other in zip(batches, others, strict=True):
    assert batch.keys() == other.keys()
    for key, value in batch.items():
      np.testing.assert_array_equal(value, other[key], key)


@pytest.mark.parametrize("objective", PACKINGS, ids=name_of)
def test_an_epoch_of_packed_sentences_is_the_text(task, drawn, objective):
  source = SentenceSource(task, "train", LENGTHS, objective)
  everything = np.arange(source.num_examples)
  read = source.read(everything, 0, everything)
  eos = task.vocabulary.eos_id
  ids = read.features["targets"].values
  text = np.concatenate([e["targets"] for e in examples_of(drawn)])
  np.testing.assert_array_equal(ids[ids != eos], text)
  lengths = read.features["inputs"].lengths
  # There is no [CLS] in this vocabulary, and room is left for one.
  told = source.lengths(everything)
  np.testing.assert_array_equal(told[:, 0], lengths + 1)
  assert told.dtype == np.int32 and told.max() == 48
  assert read.texts == [{}] * source.num_examples


@pytest.mark.parametrize("objective", PAIRS, ids=name_of)
def test_pairs_have_a_row_each(task, objective):
  source = SentenceSource(task, "train", LENGTHS, objective)
  everything = np.arange(source.num_examples)
  assert (source.lengths(everything) == 48).all()
  read = source.read(everything, 0, everything).features
  assert read[objective.label].lengths.tolist() == [1] * source.num_examples
  assert read["inputs"].lengths.max() == 47  # without [CLS]


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("objective", PAIRS + PACKINGS, ids=name_of)
def test_batches_are_the_same_on_any_processes_and_resumed(
  task, objective, packing
):
  whole = batches_of(task, objective, 8, packing=packing)
  resumed = batches_of(task, objective, 3, packing=packing, start_step=5)
  assert_same(whole[5:], resumed)
  shares = [
    batches_of(task, objective, 8, packing=packing, shares=(i,), num_shares=4)
    for i in range(4)
  ]
  together = [
    {key: np.concatenate([some[key] for some in step]) for key in step[0]}
    for step in zip(*shares, strict=True)
  ]
  assert_same(whole, together)


@pytest.mark.parametrize("objective", PAIRS, ids=name_of)
def test_keys_of_a_batch_of_pairs(task, objective):
  (batch,) = batches_of(task, objective, 1, packing=False)
  shapes = Encoder().shapes(LENGTHS, 8, packing=False)
  assert {key: value.shape for key, value in batch.items()} == shapes
  assert set(batch[objective.label]) <= {0, 1}


def test_short_documents_share_rows_where_they_are_packed(make_task):
  """Segments of their own stand side by side where a document ends early."""
  lengths = [[6, 7]] * 300
  task = make_task("short", examples_of(lengths), kind="tokens")
  packed = batches_of(task, DocSentences(), 5, packing=True)
  apart = batches_of(task, DocSentences(), 5, packing=False)
  filled = [
    np.mean([np.mean(b["encoder_target_tokens"] > 0) for b in batches])
    for batches in (packed, apart)
  ]
  assert filled[0] == 3 * 14 / 48
  assert filled[1] == 14 / 48
  segments = packed[0]["encoder_segment_ids"]
  assert segments.max() == 3
  ends = packed[0]["encoder_target_tokens"] == task.vocabulary.eos_id
  assert (segments[ends].reshape(8, 3) == [1, 2, 3]).all()


def test_dynamic_and_static_masking(task):
  """Another epoch has other masks; with one copy it has the same."""
  num_examples = SentenceSource(
    task, "train", LENGTHS, FullSentences()
  ).num_examples
  steps = -(-2 * num_examples // 8)

  def of_epochs(**kwargs):
    batches = batches_of(task, FullSentences(), steps, packing=False, **kwargs)
    inputs, targets = (
      np.concatenate([b[f"encoder_{side}_tokens"] for b in batches])
      for side in ("input", "target")
    )
    seen = {}
    for some, target in zip(inputs, targets, strict=True):
      seen.setdefault(target.tobytes(), set()).add(some.tobytes())
    assert len(seen) == num_examples
    return max(len(masks) for masks in seen.values())

  assert of_epochs() > 1
  assert of_epochs(static_copies=1) == 1


def test_validation_has_every_example_once(task):
  split = EvaluationSplit(
    task, "train", LENGTHS, 8, corruption=FullSentences(), converter=Encoder()
  )
  source = SentenceSource(task, "train", LENGTHS, FullSentences())
  places = [batch.places for batch in split]
  assert sorted(np.concatenate(places)) == list(range(source.num_examples))


def test_only_the_first_tokens(make_task):
  lengths = [[5, 5], [5, 5], [5, 5]]
  task = make_task("three", examples_of(lengths), kind="tokens")

  def text_of(max_tokens):
    source = SentenceSource(
      task, "train", LENGTHS, DocSentences(), max_tokens=max_tokens
    )
    everything = np.arange(source.num_examples)
    return source.read(everything, 0, everything).features["targets"].lengths

  assert text_of(None).tolist() == [11, 11, 11]
  assert text_of(20).tolist() == [11, 11]
  assert text_of(19).tolist() == [11, 6]  # whole sentences only
  with pytest.raises(UserError, match="max_tokens is 31, but split 'train'"):
    text_of(31)


def test_text_without_sentences_is_refused(make_task, stream):
  task = make_task("text", stream(3), kind="tokens")
  with pytest.raises(UserError) as error:
    SentenceSource(task, "train", LENGTHS, NextSentence())
  assert str(error.value) == (
    "Task 'text' does not split its documents into sentences, which "
    "NextSentence needs; prepare it with the step that does."
  )


def test_one_document_has_no_other_to_draw_from(make_task):
  task = make_task("one", examples_of([[], [4, 5, 6]]), kind="tokens")
  with pytest.raises(UserError) as error:
    SentenceSource(task, "train", LENGTHS, NextSentence())
  assert str(error.value) == (
    "Split 'train' of task 'one' has 1 documents with text; NextSentence needs "
    "at least 2."
  )
  assert SentenceSource(task, "train", LENGTHS, SentenceOrder()).num_examples


def test_documents_of_one_sentence_have_no_order(make_task):
  task = make_task("single", examples_of([[4], [5]]), kind="tokens")
  with pytest.raises(UserError) as error:
    SentenceSource(task, "train", LENGTHS, SentenceOrder())
  assert str(error.value) == (
    "Split 'train' of task 'single' has no document with as many sentences as "
    "SentenceOrder needs."
  )


@pytest.fixture(scope="module")
def real_text(shared_data, tmp_path_factory):
  """Validation articles of WikiText-2 as BERT's pieces, by sentence."""
  import gzip
  import json

  path = shared_data / "text" / "wikitext2" / "validation.jsonl.gz"
  with gzip.open(path, "rt", encoding="utf-8") as lines:
    texts = [json.loads(line)["text"] for line in lines]
  vocabulary = Vocabulary(
    str(shared_data / "vocab" / "bert_uncased_30522" / "vocab.txt")
  )
  ids, lengths, sentence_lengths = sentences.encode(texts, vocabulary, "en")
  folder = tmp_path_factory.mktemp("real")
  task = manifest.PreparedTask(
    name="real",
    folder=str(folder),
    kind="tokens",
    features=("inputs", "targets"),
    vocabulary=vocabulary,
    eos_after_trim=True,
    corruption=None,
    corruption_seed=0,
    splits={},
    scoring=None,
    definition="",
  )
  content = shards.Documents(ids, lengths, sentence_lengths)
  shards.write_shard([content], shards.Place("train"), task, folder)
  task.splits["train"] = shards.join_shards("train", 1, task, folder)
  return task, ids, lengths


@pytest.mark.slow
@pytest.mark.parametrize(("length", "fullest"), [(128, 0.8), (512, 0.93)])
def test_real_text_fills_the_rows(real_text, length, fullest):
  task, ids, lengths = real_text
  vocabulary = task.vocabulary
  fill = {}
  for objective in (*PAIRS, *PACKINGS):
    source = SentenceSource(
      task, "train", {"inputs": length, "targets": length}, objective
    )
    everything = np.arange(source.num_examples)
    read = source.read(everything, 0, everything).features
    rows = read["targets"]
    assert rows.lengths.max() <= length
    assert (rows.values[rows.starts] == vocabulary.cls_id).all()
    assert (rows.values[rows.starts + rows.lengths - 1] == 102).all()  # [SEP]
    fill[name_of(objective)] = rows.lengths.mean() / length
    hidden = read["weights"].values.sum() / len(rows.values)
    assert 0.13 < hidden < 0.17
    if objective in PAIRS:
      share = read[objective.label].values.mean()
      assert 0.4 < share < 0.65
    else:
      special = (rows.values == 101) | (rows.values == 102)
      np.testing.assert_array_equal(rows.values[~special], ids)
  assert len(lengths) == 60
  assert fill["FullSentences"] > fullest
  assert fill["SentencePair"] < fill["DocSentences"] <= fill["FullSentences"]


def test_the_source_is_cut_in_little_memory(make_task):
  """16 bytes a chunk: a Python object a sentence would take much more."""
  import tracemalloc

  task = make_task("long", examples_of([[3] * 2000] * 100), kind="tokens")
  tracemalloc.start()
  source = SentenceSource(task, "train", LENGTHS, NextSentence())
  used, _ = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert source.num_examples == 100 * 134
  assert used < 24 * source.num_examples + 100_000


def test_masking_is_that_of_the_objective(task):
  from transformer_zoo.corruption.masks.noise_masks import Iid

  hidden = FullSentences(Masking(noise=Iid(noise_density=0.5)))
  everywhere = Encoder(predicted_share=1)
  (batch,) = batches_of(task, hidden, 1, converter=everywhere)
  weights = batch["encoder_loss_weights"]
  assert 0.4 < weights.sum() / (batch["encoder_target_tokens"] > 0).sum() < 0.6
