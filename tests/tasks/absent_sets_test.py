"""Sets that no data folder of ours has, as TFDS would write them to disk."""

import pathlib

import pytest
import seqio
import tensorflow_datasets as tfds

import tasks  # noqa: F401 (registers them)
from transformer_zoo.errors import UserError


def write(data_dir, name, splits):
  """Writes a dataset with the installed builder's features: split -> rows."""
  info = tfds.builder(name, data_dir=data_dir).info
  pathlib.Path(info.data_dir).mkdir(parents=True)
  writer = tfds.core.SequentialWriter(info, max_examples_per_shard=10)
  writer.initialize_splits(list(splits))
  writer.add_examples(splits)
  writer.close_all()


@pytest.fixture
def data_dir(monkeypatch, tmp_path):
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "none"))
  return tmp_path


def texts(task, split):
  """Returns inputs and targets of a split before tokenisation."""
  dataset = task.source.get_dataset(split, shuffle=False)
  examples = task.preprocessors[0](dataset).as_numpy_iterator()
  return [(e["inputs"].decode(), e["targets"].decode()) for e in examples]


@pytest.mark.slow
def test_mnli_has_its_evaluation_sets_as_tasks(data_dir):
  def rows(premise):
    return [{"premise": premise, "hypothesis": "H", "label": 2, "idx": 0}]

  splits = ("train", "validation_matched", "test_matched", "test_mismatched")
  write(data_dir / "tfds", "glue/mnli:2.0.0", {s: rows(s) for s in splits})
  read = {
    name: {
      split: texts(seqio.TaskRegistry.get(name), split)[0][0].split()[-1]
      for split in seqio.TaskRegistry.get(name).splits
    }
    for name in (
      "glue_mnli_v002",
      "glue_mnli_matched_v002",
      "glue_mnli_mismatched_v002",
    )
  }
  assert read == {
    "glue_mnli_v002": {split: split for split in splits},
    "glue_mnli_matched_v002": {
      "validation": "validation_matched",
      "test": "test_matched",
    },
    "glue_mnli_mismatched_v002": {"test": "test_mismatched"},
  }
  task = seqio.TaskRegistry.get("glue_mnli_mismatched_v002")
  with pytest.raises(UserError) as error:
    task.num_input_examples("validation")
  assert str(error.value) == (
    f"The TFDS dataset 'glue/mnli:2.0.0' in '{data_dir / 'tfds'}' has no split "
    "'validation_mismatched': it was prepared without it and has only "
    "test_matched, test_mismatched, train, validation_matched."
  )


@pytest.mark.parametrize(
  "name, dataset, split, row, expected",
  [
    (
      "glue_qqp_v002",
      "glue/qqp:2.0.0",
      "validation",
      {"question1": "Why?", "question2": "Why not?", "label": 0, "idx": 1},
      ("qqp question1: Why? question2: Why not?", "not_duplicate"),
    ),
    (
      "glue_ax_v002",
      "glue/ax:2.0.0",
      "test",
      {"premise": "P", "hypothesis": "H", "label": -1, "idx": 1},
      ("mnli hypothesis: H premise: P", "<unk>"),
    ),
    (
      "super_glue_multirc_v102",
      "super_glue/multirc:1.0.2",
      "validation",
      {
        "question": "Who?",
        "answer": "Ann",
        "paragraph": "<b>Sent 1: </b>Ann.<br>",
        "label": 1,
        "idx": {"paragraph": 1, "question": 2, "answer": 3},
      },
      ("multirc question: Who? answer: Ann paragraph: Sent 1: Ann. ", "True"),
    ),
    (
      "dpr_v001_simple",
      "definite_pronoun_resolution:1.1.0",
      "train",
      {
        "sentence": "Bob asked Tom if he can.",
        "pronoun": "he",
        "candidates": ["Bob", "Tom"],
        "label": 1,
      },
      ("wsc: Bob asked Tom if *he* can.", "Tom"),
    ),
  ],
)
def test_other_sets(name, dataset, split, row, expected, data_dir):
  write(data_dir, dataset, {split: [row, row]})
  task = seqio.TaskRegistry.get(name)
  assert list(task.splits) == [split]
  assert task.num_input_examples(split) == 2
  assert texts(task, split) == [expected, expected]
