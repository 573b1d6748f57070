"""Parts of TFDS splits as the splits of a task."""

import pytest

from tasks.sources.tfds import PreparedTfdsDataSource
from transformer_zoo.data.prepare import fingerprints
from transformer_zoo.errors import UserError

_CB = "super_glue/cb:1.0.2"  # train has 250 rows, validation 56


@pytest.fixture
def data_dir(shared_data, monkeypatch):
  monkeypatch.setenv("ZOO_DATA_DIR", str(shared_data))
  return shared_data


def _source(**splits):
  return PreparedTfdsDataSource(_CB, splits=splits)


def test_parts_of_splits(data_dir):
  source = _source(
    train="train[:200]", validation="train[200:]", both="train+validation"
  )
  counts = {split: source.num_input_examples(split) for split in source.splits}
  assert counts == {"train": 200, "validation": 50, "both": 306}
  ids = {
    split: {row["idx"] for row in source.get_dataset(split).as_numpy_iterator()}
    for split in ("train", "validation")
  }
  assert ids["train"] | ids["validation"] == set(range(250))


def test_a_part_without_examples_is_no_split(data_dir):
  source = _source(train="train[:200]", validation="train[300:]")
  assert list(source.splits) == ["train"]
  with pytest.raises(UserError) as error:
    source.get_dataset("validation")
  assert str(error.value) == (
    f"The TFDS dataset 'super_glue/cb:1.0.2' in '{data_dir / 'tfds'}' has too "
    "few examples for the split 'train[300:]'."
  )


def test_a_split_of_the_dataset_that_the_task_does_not_have(data_dir):
  source = _source(train="train[:200]")
  with pytest.raises(UserError, match="has no split 'test'; allowed: 'train'"):
    source.get_dataset("test")


def test_all_parts_are_there_without_data(monkeypatch, tmp_path):
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
  source = _source(train="train[:200]", validation="train[200:]")
  assert list(source.splits) == ["train", "validation"]


def test_another_part_is_another_definition(data_dir):
  described = [
    fingerprints.describe_source(_source(train=part))
    for part in ("train[:200]", "train[:201]", "train[:200]")
  ]
  assert described[0] != described[1]
  assert described[0] == described[2]
