"""TFDS datasets, T5's vocabulary: found at first use, or missed."""

import os
import pathlib

import pytest
import seqio

import tasks  # noqa: F401 (registers them)
from tasks import vocabulary
from tasks.sources.tfds import PreparedTfdsDataSource
from transformer_zoo.errors import UserError


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
  """An environment in which there is no data."""
  for name in ("ZOO_DATA_DIR", "ZOO_VOCABULARY"):
    monkeypatch.delenv(name, raising=False)
  monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))


@pytest.fixture
def data_dir(shared_data, monkeypatch, tmp_path):
  """The real data as the second of two data folders."""
  monkeypatch.delenv("ZOO_VOCABULARY", raising=False)
  monkeypatch.setenv("ZOO_DATA_DIR", f"{tmp_path}{os.pathsep}{shared_data}")
  return pathlib.Path(shared_data)


@pytest.mark.parametrize(
  "task, splits",
  [
    ("glue_cola_v002", ["train", "validation", "test"]),
    (
      "glue_mnli_v002",
      [
        "train",
        "validation_matched",
        "validation_mismatched",
        "test_matched",
        "test_mismatched",
      ],
    ),
    ("glue_mnli_matched_v002", ["validation", "test"]),
    ("glue_mnli_mismatched_v002", ["validation", "test"]),
    ("glue_ax_v002", ["test"]),
    ("glue_wnli_v002_simple_eval", ["validation", "test"]),
  ],
)
def test_registered_tasks_can_be_looked_at_without_data(task, splits, nowhere):
  task = seqio.TaskRegistry.get(task)
  assert list(task.splits) == splits
  assert str(task.source).startswith("PreparedTfdsDataSource('glue/")


def test_missing_dataset_is_named(nowhere, tmp_path):
  source = PreparedTfdsDataSource("glue/cola:2.0.0", splits=("train",))
  with pytest.raises(UserError) as error:
    source.get_dataset("train")
  assert str(error.value) == (
    f"The TFDS dataset 'glue/cola:2.0.0' is missing (looked in '{tmp_path}'); "
    "name a folder that has tfds/ with --data_dir, or run `tfds build "
    "glue/cola:2.0.0` on a connected machine."
  )


def test_a_split_that_is_not_on_disk(data_dir):
  task = seqio.TaskRegistry.get("glue_qnli_v002")
  assert list(task.splits) == ["validation", "test"]
  assert task.num_input_examples("validation") == 5_463
  with pytest.raises(UserError) as error:
    task.get_dataset(None, split="train")
  assert str(error.value) == (
    f"The TFDS dataset 'glue/qnli:2.0.0' in '{data_dir / 'tfds'}' has no split "
    "'train': it was prepared without it and has only test, validation."
  )


def test_missing_vocabulary_is_named(nowhere, monkeypatch, tmp_path):
  lazy = vocabulary.T5Vocabulary()
  with pytest.raises(UserError, match="'vocab/t5_cc_all_32000/.*--data_dir"):
    lazy.encode("text")
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  with pytest.raises(UserError, match=str(tmp_path)):
    lazy.encode("text")
  monkeypatch.setenv("ZOO_VOCABULARY", str(tmp_path / "absent.model"))
  with pytest.raises(UserError, match="absent.model', which is not a file"):
    lazy.encode("text")


def test_vocabulary_is_t5s(data_dir):
  first, second = vocabulary.T5Vocabulary(), vocabulary.T5Vocabulary()
  assert first.vocab_size == 32_100
  assert (first.pad_id, first.eos_id, first.unk_id) == (0, 1, 2)
  assert first.decode([32_099, 32_098]) == "<extra_id_0> <extra_id_1>"
  assert first == second  # one has found its file, the other has not
  assert second.encode("translate English to German") == [
    13959,
    1566,
    12,
    2968,
  ]
