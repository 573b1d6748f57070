"""CoNLL-2003: column files, text with brackets and back, entity F1."""

import pytest
import seqio
import tensorflow as tf

import tasks  # noqa: F401
from tasks.formats import tagging as tagging_formats
from tasks.sources.column_files import ColumnFilesDataSource
from tests.tasks import tfds_rows
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.answers import tagged_text


def _write(tokens, tags):
  dataset = tf.data.Dataset.from_tensors(
    {"tokens": tf.constant(tokens), "tags": tf.constant(tags)}
  )
  (example,) = tagging_formats.bracketed(
    dataset, benchmark="conll2003"
  ).as_numpy_iterator()
  return example["inputs"].decode(), example["targets"].decode()


@pytest.mark.parametrize(
  "tokens, tags, target",
  [
    ("a b", "O O", "a b"),
    ("EU rejects", "I-ORG O", "[ EU | ORG ] rejects"),
    ("EU rejects", "B-ORG O", "[ EU | ORG ] rejects"),
    ("of New York", "O I-LOC I-LOC", "of [ New York | LOC ]"),
    # Neighbours of one type: IOB1 and IOB2.
    ("Ann Bob", "I-PER B-PER", "[ Ann | PER ] [ Bob | PER ]"),
    ("Ann Lee Bob", "B-PER I-PER B-PER", "[ Ann Lee | PER ] [ Bob | PER ]"),
    # Neighbours of two types.
    ("UK Ann", "I-LOC I-PER", "[ UK | LOC ] [ Ann | PER ]"),
    # Words that look like brackets.
    ("[ | ] [[ a[", "O O I-MISC O O", "[[ || [ ]] | MISC ] [[[ a["),
    ("x", "I-any-type", "[ x | any-type ]"),
    ("\\1 $ .", "O I-A I-A", "\\1 [ $ . | A ]"),
  ],
)
def test_text_with_brackets_and_back(tokens, tags, target):
  tokens, tags = tokens.split(), tags.split()
  inputs, written = _write(tokens, tags)
  assert inputs == "conll2003 sentence: " + " ".join(tokens)
  assert written == target
  assert tagged_text.find_entities(written, tokens) == tagged_text.entities(
    tags
  )


def test_numbered_tags_of_tfds():
  task = seqio.TaskRegistry.get("conll2003_ner_v100")
  names = tfds_rows.features(task)["ner"].feature.names
  tokens = [f"w{i}" for i in range(len(names))]
  row = {
    "tokens": tokens,
    "ner": list(range(len(names))),
    "pos": [0] * len(names),
    "chunks": [0] * len(names),
  }
  (example,) = tfds_rows.text_of("conll2003_ner_v100", row)
  assert [tag.decode() for tag in example["tags"]] == names
  entities = task.postprocess_fn(
    example["targets"].decode(), example=example, is_target=False
  )
  assert entities == tagged_text.entities(names)


@pytest.fixture
def source(monkeypatch, tmp_path):
  """Returns a function from the content of a file to its source."""
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  monkeypatch.delenv("ZOO_SKIP_BAD_ROWS", raising=False)

  def make(content: bytes):
    (tmp_path / "eng").write_bytes(content)
    return ColumnFilesDataSource({"train": "eng"})

  return make


def _sentences(source):
  rows = source.get_dataset("train", shuffle=False).as_numpy_iterator()
  return [
    (b" ".join(row["tokens"]).decode(), b" ".join(row["tags"]).decode())
    for row in rows
  ]


def test_columns(source):
  content = (
    "-DOCSTART- -X- O O\n\n"
    "EU NNP I-NP I-ORG\r\nsagt VVFIN I-VP O\n\n \n\n"
    "-DOCSTART- -X- O O\n"
    "Zürich NE I-NP I-LOC\n\n"
    "2\u00a0000\tCARD \tI-NP  O"
  )
  assert _sentences(source(content.encode())) == [
    ("EU sagt", "I-ORG O"),
    ("Zürich", "I-LOC"),
    ("2\u00a0000", "O"),
  ]


@pytest.mark.parametrize(
  "line, what",
  [
    (b"b X", "has 2 columns, where the first line has 3"),
    (b"b X ORG", "has a bad tag 'ORG' is none of O, B-<type> and I-<type>"),
    (b"b\xff X O", "has the byte 0xff, which is not UTF-8"),
  ],
)
def test_bad_sentences(source, monkeypatch, tmp_path, line, what):
  content = b"a X O\n\n" + b"c X O\n" + line + b"\n\nd X O\n"
  sentence = f"Line 4 of the data file '{tmp_path}/eng' {what}"
  with pytest.raises(UserError) as error:
    source(content).get_dataset("train")
  assert str(error.value).startswith(sentence)
  monkeypatch.setenv("ZOO_SKIP_BAD_ROWS", "1")
  skipping = source(content)
  assert _sentences(skipping) == [("a", "O"), ("d", "O")]
  assert skipping.skipped_rows("train") == [sentence + "."]


def test_words_without_tags(source, tmp_path):
  with pytest.raises(UserError) as error:
    source(b"word\n").get_dataset("train")
  assert str(error.value).startswith(
    f"Line 1 of the data file '{tmp_path}/eng' has 1 column, where a word and "
    "its tag are needed"
  )


def test_an_empty_file(source, tmp_path):
  with pytest.raises(UserError) as error:
    source(b"-DOCSTART- -X- O O\n\n").get_dataset("train")
  assert str(error.value) == (
    f"The data file '{tmp_path}/eng' is empty: it has no sentence."
  )


@pytest.mark.slow
def test_every_real_sentence_is_read_back(shared_data, monkeypatch):
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  task = seqio.TaskRegistry.get("conll2003_ner")
  dataset = task.source.get_dataset("test", shuffle=False)
  targets, predictions = [], []
  for example in task.preprocessors[0](dataset).as_numpy_iterator():
    text = example["targets"].decode()
    for answers, is_target in ((targets, True), (predictions, False)):
      answers.append(
        task.postprocess_fn(text, example=example, is_target=is_target)
      )
  assert len(targets) == 3_453  # README of the data
  assert targets == predictions
  (metric,) = task.metric_fns
  assert metric(targets, predictions)["entity_f1"] == 100
