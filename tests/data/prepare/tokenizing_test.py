"""Text without TensorFlow gives the ids that SeqIO's steps give."""

import functools
import random

import numpy as np
import pytest

seqio = pytest.importorskip("seqio")

from tasks.corpora import unlabelled_text  # noqa: E402
from tasks.sources.text_files import TextFilesDataSource  # noqa: E402
from tests.data import text_corpora  # noqa: E402
from transformer_zoo.corruption import SpanCorruption  # noqa: E402
from transformer_zoo.data.prepare import reading  # noqa: E402
from transformer_zoo.data.prepare import sentences  # noqa: E402
from transformer_zoo.data.prepare import task_steps  # noqa: E402
from transformer_zoo.data.prepare import tokenizing  # noqa: E402
from transformer_zoo.data.prepare.preparation import prepare  # noqa: E402
from transformer_zoo.data.prepare.sentences import TokenizeSentences  # noqa: E402
from transformer_zoo.data.storage.token_stream import TokenStream  # noqa: E402
from transformer_zoo.errors import UserError  # noqa: E402

NAME = "zt_tokenized"
REKEY = functools.partial(
  seqio.preprocessors.rekey, key_map={"targets": "text"}
)


def seqio_examples(task, split="train"):
  """The documents after SeqIO has run the steps before the corruption."""
  dataset = task.source.get_dataset(split, shuffle=False)
  for step in task_steps.divide_steps(task)[0]:
    dataset = seqio.utils.add_kwargs_to_transform(
      step, sequence_length=None, output_features=task.output_features
    )(dataset)
  return list(dataset.as_numpy_iterator())


def assert_same(stream, examples):
  ids = [example["targets"] for example in examples]
  np.testing.assert_array_equal(
    stream.read(np.array([0]), stream.num_tokens)[0], np.concatenate(ids)
  )
  np.testing.assert_array_equal(
    stream.document_ends, np.cumsum([len(some) for some in ids])
  )


@pytest.fixture
def register(vocabulary, tmp_path):
  def add(**kwargs):
    text_corpora.write_files(tmp_path / "text", number=10)
    return text_corpora.register(NAME, tmp_path / "text", vocabulary, **kwargs)

  yield add
  if NAME in seqio.TaskRegistry.names():
    seqio.TaskRegistry.remove(NAME)


def test_documents_are_those_of_seqio(register, tmp_path):
  task = register()
  made = prepare(NAME, prepared_dir=tmp_path / "p", processes=2).tasks[0]
  stream = TokenStream(made, "train")
  assert_same(stream, seqio_examples(task))
  assert stream.sentence_ends is None


def test_sentences_are_those_of_seqio(register, tmp_path, vocabulary):
  task = register(sentences="en")
  made = prepare(NAME, prepared_dir=tmp_path / "p", processes=2).tasks[0]
  stream = TokenStream(made, "train")
  examples = seqio_examples(task)
  assert_same(stream, examples)
  lengths = [example["sentence_lengths"] for example in examples]
  np.testing.assert_array_equal(
    stream.sentence_ends, np.cumsum(np.concatenate(lengths))
  )
  # A document ends where a sentence does, and each is tokenised by itself.
  assert set(stream.document_ends) <= set(stream.sentence_ends)
  texts = reading.read_texts(task, "text", "train")
  alone = [
    vocabulary.encode(part) for t in texts for part in sentences.split(t, "en")
  ]
  assert np.diff(stream.sentence_ends).tolist() == [len(s) for s in alone[1:]]
  assert stream.read(np.array([0]), stream.num_tokens)[0].tolist() == sum(
    alone, []
  )


def test_texts_that_tensorflow_reads_are_the_same(
  register, tmp_path, monkeypatch
):
  monkeypatch.delattr(TextFilesDataSource, "documents")
  task = register()
  made = prepare(NAME, prepared_dir=tmp_path / "p").tasks[0]
  examples = seqio_examples(task)
  assert_same(TokenStream(made, "train"), examples)
  assert made.splits["train"].num_examples == len(examples)


@pytest.mark.slow
def test_an_eos_after_each_document_is_kept(register, tmp_path):
  """Without TensorFlow the plain tokenisation is done, and no other."""
  task = register()
  rekey, _, *others = task.preprocessors
  seqio.TaskRegistry.remove(NAME)
  tokenize = functools.partial(seqio.preprocessors.tokenize, with_eos=True)
  assert task_steps.find_text_steps([rekey, tokenize]) is None
  task = seqio.TaskRegistry.add(
    NAME,
    source=task.source,
    preprocessors=[rekey, tokenize, *others],
    output_features=task.output_features,
  )
  made = prepare(NAME, prepared_dir=tmp_path / "p", processes=1).tasks[0]
  examples = seqio_examples(task)
  assert all(example["targets"][-1] == 1 for example in examples)
  assert_same(TokenStream(made, "train"), examples)


@pytest.mark.parametrize(
  "corpus",
  [
    "c4_sample",
    pytest.param("newswire", marks=pytest.mark.slow),
    pytest.param("wikitext2", marks=pytest.mark.slow),
  ],
)
def test_real_text_is_tokenised_as_by_seqio(
  shared_data, tmp_path, monkeypatch, corpus
):
  """But for ties: TensorFlow's SentencePiece adds up scores otherwise.

  In '!!!!!!' the pieces '!!!!!' and '!' have one score in either order.
  """
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  monkeypatch.delenv("ZOO_VOCABULARY", raising=False)
  name = f"{corpus}_text_span_corruption"
  made = prepare(name, prepared_dir=tmp_path, splits=["validation"]).tasks[0]
  task = seqio.TaskRegistry.get(name)
  theirs = [
    example["targets"] for example in seqio_examples(task, "validation")
  ]
  stream = TokenStream(made, "validation")
  ends = stream.document_ends.tolist()
  ours = [
    stream.read(np.array([begin]), end - begin)[0]
    for begin, end in zip([0, *ends], ends, strict=False)
  ]
  assert [len(ids) for ids in ours] == [len(ids) for ids in theirs]
  different = [
    (our, their)
    for our, their in zip(ours, theirs, strict=True)
    if (our != their).any()
  ]
  assert len(different) <= 0.02 * len(ours)
  for our, their in different:
    assert sorted(our) == sorted(their)
  python = task.output_features["targets"].vocabulary
  texts = reading.read_texts(task, "text", "validation")
  for our, text in zip(ours, texts, strict=True):
    assert our.tolist() == python.encode(text)


def test_threads_and_batches_keep_the_order(vocabulary, monkeypatch):
  monkeypatch.setattr(tokenizing, "_BATCH_CHARACTERS", 50)
  rng = random.Random(0)
  words = "the cat sat on a mat Ünï".split()
  texts = [" ".join(rng.choices(words, k=rng.randint(0, 9))) for _ in range(99)]
  found = tokenizing.tokenize(texts, vocabulary, threads=lambda: 3)
  found = list(found)
  assert len(found) > 20
  ids = [vocabulary.encode(text) for text in texts]
  lengths = np.concatenate([some.lengths for some in found])
  assert lengths.tolist() == [len(some) for some in ids]
  joined = np.concatenate([some.ids for some in found])
  assert joined.tolist() == sum(ids, [])


@pytest.mark.parametrize(
  "steps, expected",
  [
    ([REKEY, seqio.preprocessors.tokenize], task_steps.TextSteps("text")),
    (unlabelled_text.steps(SpanCorruption())[:2], task_steps.TextSteps("text")),
    (
      unlabelled_text.steps(SpanCorruption(), "de")[:2],
      task_steps.TextSteps("text", "de"),
    ),
    (
      [
        functools.partial(
          seqio.preprocessors.rekey, key_map={"inputs": None, "targets": "body"}
        ),
        seqio.preprocessors.tokenize,
      ],
      task_steps.TextSteps("body"),
    ),
    ([seqio.preprocessors.tokenize], None),
    ([REKEY, REKEY], None),
    ([REKEY, lambda dataset: dataset, seqio.preprocessors.tokenize], None),
    ([lambda dataset: dataset, seqio.preprocessors.tokenize], None),
    (
      [
        functools.partial(
          seqio.preprocessors.rekey, key_map={"inputs": "a", "targets": "b"}
        ),
        seqio.preprocessors.tokenize,
      ],
      None,
    ),
  ],
)
def test_only_known_steps_go_without_tensorflow(steps, expected):
  assert task_steps.find_text_steps(steps) == expected


def test_sentences_of_a_document():
  text = "Mr. Smith went home. He slept!\n\n Really?  "
  parts = [part.strip() for part in sentences.split(text, "en")]
  assert parts == ["Mr. Smith went home.", "He slept!", "Really?"]
  assert sentences.split(" \n ", "en") == []


def test_sentences_of_several_documents(vocabulary):
  texts = ["the cat. a mat.", "", "dogs bark."]
  ids, documents, lengths = sentences.encode(texts, vocabulary, "en")
  alone = [vocabulary.encode(t) for t in ("the cat.", "a mat.", "dogs bark.")]
  assert ids.tolist() == sum(alone, [])
  assert lengths.tolist() == [len(some) for some in alone]
  assert documents.tolist() == [len(alone[0] + alone[1]), 0, len(alone[2])]


@pytest.mark.parametrize("language", ["", None, 3])
def test_sentences_have_a_language(language):
  with pytest.raises(UserError, match="language of sentences is .*; give its"):
    TokenizeSentences(language)
