"""Users' SeqIO tasks at `prepare`: what is prepared anew, told or refused."""

import functools
import os

import pytest

seqio = pytest.importorskip("seqio")
import tensorflow as tf  # noqa: E402

from transformer_zoo.data.prepare import task_steps  # noqa: E402
from transformer_zoo.data.prepare.preparation import prepare  # noqa: E402
from transformer_zoo.data.storage import records  # noqa: E402
from transformer_zoo.data.trimming import KeepLast  # noqa: E402
from transformer_zoo.errors import UserError  # noqa: E402

EOS = seqio.preprocessors.append_eos_after_trim
TOKENIZED = [seqio.preprocessors.tokenize, EOS]


def cats(split, shuffle_files=False, seed=None):
  del split, shuffle_files, seed
  texts = {"inputs": ["a cat", "dogs"], "targets": ["the mat", "bark"]}
  return tf.data.Dataset.from_tensor_slices(texts)


class Prefix:
  def __init__(self, prefix):
    self._prefix = prefix

  def __call__(self, dataset):
    def add(example):
      inputs = tf.strings.join([self._prefix, example["inputs"]])
      return {**example, "inputs": inputs}

    return dataset.map(add)


class Rows(seqio.DataSource):
  """A source of another kind than SeqIO's."""

  def __init__(self, row):
    super().__init__(["train"])
    self._row = row

  supports_arbitrary_sharding = False

  def list_shards(self, split):
    return [split]

  def get_dataset(self, split="train", shuffle=False, seed=None, **_):
    columns = {"inputs": [self._row], "targets": ["yes"]}
    return tf.data.Dataset.from_tensor_slices(columns)


class SaidRows(Rows):
  def fingerprint(self):
    return self._row


@seqio.map_over_dataset(num_seeds=1)
def draw(example, seed):
  number = tf.random.stateless_uniform([], seed, 0, 9, tf.int32)
  return {**example, "inputs": tf.strings.as_string(number)}


def of_seed(dataset, seed=0):
  return dataset.shuffle(2, seed)


def cut(dataset, sequence_length):
  def shorten(example):
    inputs = tf.strings.substr(example["inputs"], 0, sequence_length["inputs"])
    return {**example, "inputs": inputs}

  return dataset.map(shorten)


class LastWords:
  trimming = KeepLast(2)

  def __call__(self, dataset, sequence_length=None):
    return dataset


LAST_WORDS = LastWords()


@pytest.fixture
def prepared(vocabulary, tmp_path):
  """Returns a function: steps and source -> prepared task, lines, texts."""
  folder = tmp_path / "prepared"
  feature = seqio.Feature(vocabulary.to_seqio(), required=False)

  def call(*steps, source=None):
    if "zt_user" in seqio.TaskRegistry.names():
      seqio.TaskRegistry.remove("zt_user")
    seqio.TaskRegistry.add(
      "zt_user",
      source=source or seqio.FunctionDataSource(cats, splits=["train"]),
      preprocessors=[*steps, *TOKENIZED],
      output_features={"inputs": feature, "targets": feature},
    )
    lines = []
    task = prepare(
      "zt_user", prepared_dir=folder, processes=1, report=lines.append
    ).tasks[0]
    found = records.ExampleRecords(task, "train")
    texts = [text for _, text in found.read(range(len(found)))]
    return lines, [text["inputs_pretokenized"] for text in texts]

  yield call
  seqio.TaskRegistry.remove("zt_user")


def test_a_private_attribute_of_a_step_is_part_of_the_task(prepared):
  _, texts = prepared(Prefix("nli: "))
  assert texts == ["nli: a cat", "nli: dogs"]
  _, texts = prepared(Prefix("other: "))
  assert texts == ["other: a cat", "other: dogs"]


def test_what_a_source_was_given_is_part_of_the_task(prepared):
  assert prepared(source=Rows("a cat"))[1] == ["a cat"]
  assert prepared(source=Rows("a dog"))[1] == ["a dog"]


def test_reuse_is_told_where_nobody_knows_what_is_read(
  prepared, tmp_path, monkeypatch
):
  lines, _ = prepared()
  assert not [line for line in lines if "may have changed" in line]
  folder = os.path.join(tmp_path, "prepared", "zt_user")
  told = (
    "zt_user: reused, although the data that {} reads may have changed "
    f"since; remove {folder} to prepare it anew, or give the source a method "
    "fingerprint()"
  )
  monkeypatch.chdir(tmp_path)
  (tmp_path / "train").mkdir()  # as the split is called
  assert prepared()[0] == [told.format("cats")]
  prepared(source=Rows("a cat"))
  assert prepared(source=Rows("a cat"))[0] == [told.format("Rows")]


@pytest.mark.slow
def test_reuse_is_not_told_of_files_and_fingerprints(prepared, tmp_path):
  (tmp_path / "train.txt").write_text("a cat\ndogs\n")
  file = seqio.TextLineDataSource({"train": str(tmp_path / "train.txt")})

  def rows(dataset):
    return dataset.map(lambda text: {"inputs": text, "targets": text})

  for source, steps in ((file, [rows]), (SaidRows("a cat"), [])):
    prepared(*steps, source=source)
    assert prepared(*steps, source=source)[0] == []


def test_steps_that_draw_are_told(prepared):
  lines, _ = prepared(draw)
  assert [line for line in lines if "random" in line] == [
    "zt_user: the step draw draws at random; it draws once, now, and all "
    "epochs of all runs have the same examples"
  ]


def test_bound_seeds_are_no_random_numbers():
  several = seqio.map_over_dataset(num_seeds=2)(lambda example, seeds: example)
  bound = functools.partial(of_seed, seed=3)
  assert task_steps.find_random([bound, EOS, Prefix("a")]) == []
  assert len(task_steps.find_random([several, of_seed])) == 2


@pytest.mark.parametrize(
  "step, name",
  [
    (cut, "cut"),
    (functools.partial(cut), "cut"),
    (
      seqio.map_over_dataset(lambda e, sequence_length=None: e),
      r"test_.*<lambda>|<lambda>",
    ),
    (seqio.preprocessors.truncate_inputs_left, "truncate_inputs_left"),
  ],
)
def test_steps_that_need_lengths_are_refused(prepared, step, name):
  with pytest.raises(
    UserError,
    match=f"Task 'zt_user' has the step ({name}), which asks for "
    "sequence_length, but examples are prepared whole and each run cuts them "
    "at its own lengths; leave the parameter out, bind lengths to it by "
    "functools.partial, or say in the step's attribute `trimming` how it cuts",
  ):
    prepared(step)


@pytest.mark.parametrize(
  "step",
  [LAST_WORDS, functools.partial(cut, sequence_length={"inputs": 4})],
)
def test_lengths_that_are_bound_or_a_rule_are_no_obstacle(prepared, step):
  _, texts = prepared(step)
  assert texts[0] == ("a cat" if step is LAST_WORDS else "a ca")
