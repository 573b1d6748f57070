"""Objectives on sentences: SeqIO's readers see what the loader sees."""

import functools
import random

import numpy as np
import pytest
import seqio

from tests.data.conftest import WORDS
from transformer_zoo.corruption.sentences.sentence_packing import DocSentences
from transformer_zoo.corruption.sentences.sentence_packing import FullSentences
from transformer_zoo.corruption.sentences.sentence_pairs import NextSentence
from transformer_zoo.corruption.sentences.sentence_pairs import SentenceOrder
from transformer_zoo.corruption.sentences.sentence_pairs import SentencePair
from transformer_zoo.data.loader.sentence_source import SentenceSource
from transformer_zoo.data.prepare import inspection
from transformer_zoo.data.prepare import sentences
from transformer_zoo.data.prepare import shards
from transformer_zoo.data.prepare.sentences import TokenizeSentences
from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep
from transformer_zoo.errors import UserError

LENGTHS = {"inputs": 40, "targets": 40}
OBJECTIVES = (
  NextSentence(),
  SentencePair(),
  SentenceOrder(),
  FullSentences(),
  DocSentences(),
)


def draw_texts():
  """Documents of up to 9 sentences; some have none."""
  rng = random.Random(0)

  def sentence():
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 9))).capitalize() + "."

  return [
    " ".join(sentence() for _ in range(rng.randint(0, 9))) for _ in range(30)
  ]


def task_of(texts, objective, vocabulary, tokenize):
  """A task of one split."""
  import tensorflow as tf

  def source(split, shuffle_files=False, seed=None):
    del split, shuffle_files, seed
    return tf.data.Dataset.from_tensor_slices({"targets": texts})

  feature = seqio.Feature(vocabulary.to_seqio(), add_eos=False)
  return seqio.Task(
    "sentences",
    source=seqio.FunctionDataSource(source, splits=["train"]),
    preprocessors=[tokenize, CorruptionStep(objective, seed=4)],
    output_features={"inputs": feature, "targets": feature},
  )


def dataset_of(*arguments):
  """A task's dataset of examples, as a reader with SeqIO opens it."""
  dataset = task_of(*arguments).get_dataset(LENGTHS, "train", shuffle=False)
  return list(dataset.as_numpy_iterator())


@pytest.mark.parametrize(
  "objective", OBJECTIVES, ids=lambda o: type(o).__name__
)
def test_a_task_gives_the_examples_of_the_loader(
  objective, vocabulary, make_task
):
  texts = draw_texts()
  theirs = dataset_of(texts, objective, vocabulary, TokenizeSentences("en"))
  documents = []
  for text in texts:
    ids, _, lengths = sentences.encode([text], vocabulary, "en")
    documents.append({"targets": ids, shards.SENTENCE_LENGTHS: lengths})
  task = make_task("prepared", documents, kind="tokens")
  source = SentenceSource(task, "train", LENGTHS, objective)
  everything = np.arange(source.num_examples)
  ours = source.read(everything, 4, everything).features
  assert len(theirs) == source.num_examples
  for name, feature in ours.items():
    for example, row in zip(theirs, feature.rows(), strict=True):
      np.testing.assert_array_equal(example[name], row, name)


def test_a_task_is_inspected_at_the_lengths_of_an_encoder(vocabulary):
  """Inputs and targets of one length, where T5's are 512 and 114."""
  tokenize = TokenizeSentences("en")
  task = task_of(draw_texts(), FullSentences(), vocabulary, tokenize)
  found = inspection.inspect_task(task, split="train", lengths={}, shown=1)
  longest = found["features"]["targets"]["quantiles"]["longest"]
  assert 114 < longest <= 512


def test_documents_without_sentences_are_refused(vocabulary):
  tokenize = functools.partial(
    seqio.preprocessors.tokenize, copy_pretokenized=False
  )
  with pytest.raises(UserError) as error:
    dataset_of(draw_texts(), NextSentence(), vocabulary, tokenize)
  assert str(error.value) == (
    "NextSentence needs the sentences of its documents; let TokenizeSentences "
    "stand in the place of the task's tokenize."
  )
