"""TFDS datasets read from the data folders."""

from collections.abc import Mapping, Sequence
import json
import os

import seqio
import tensorflow as tf

from tasks.sources import data_folders
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError


class PreparedTfdsDataSource(seqio.TfdsDataSource):
  """A TFDS dataset that is prepared already, found when it is first read.

  Looked for under `tfds/` of the data folders and in the data folders, then
  where TFDS itself keeps datasets (`TFDS_DATA_DIR` or
  `~/tensorflow_datasets`). Nothing is downloaded in the middle of a run:
  without a network TFDS tries for minutes before it says so.
  """

  def __init__(
    self, tfds_name: str, *, splits: Sequence[str] | Mapping[str, str]
  ):
    """Names a dataset.

    Args:
      tfds_name: `<dataset>/<config>:<version>`.
      splits: the splits it has, so that a task can be listed without data;
        or a mapping from the task's names for them to the dataset's, or to
        parts of them (`train[:90%]`, `train+validation`).
    """
    if not isinstance(splits, Mapping):
      splits = {split: split for split in splits}
    super().__init__(tfds_name, splits=dict(splits), read_only=True)
    self._tfds_name = tfds_name
    self._tfds_splits = dict(splits)

  def __repr__(self) -> str:
    return f"PreparedTfdsDataSource({self._tfds_name!r})"

  __str__ = __repr__

  @property
  def splits(self) -> dict[str, str]:
    """The splits by name: of the dataset that is found, else all it can have.

    A dataset may have been prepared with some of its splits only, or with so
    few examples that a part of a split has none.
    """
    root = self._root()
    if root is None:
      return dict(self._tfds_splits)
    present = self._present(root)
    return {
      name: part
      for name, part in self._tfds_splits.items()
      if set(_names(part)) <= present and self._has_examples(part)
    }

  @property
  def declared_splits(self) -> tuple[str, ...]:
    """The splits that the dataset can have, whether they are there or not."""
    return tuple(self._tfds_splits)

  @property
  def places(self) -> list[str]:
    """The files that describe the dataset, whether they are there or not."""
    return [self._info_file(root) for root in _roots()]

  @property
  def exists(self) -> bool:
    """Whether the dataset is in one of the places."""
    return self._root() is not None

  @property
  def tfds_dataset(self) -> seqio.utils.LazyTfdsLoader:
    """SeqIO's loader, which every reading method of the source goes through.

    Raises:
      UserError: the dataset is in none of the places.
    """
    root = self._root()
    if root is None:
      raise UserError(
        f"The TFDS dataset {self._tfds_name!r} is missing (looked in "
        + ", ".join(map(repr, _roots()))
        + "); name a folder that has tfds/ with --data_dir, or run `tfds build "
        f"{self._tfds_name}` on a connected machine."
      )
    self._tfds_dataset.override_data_dir(root)
    return self._tfds_dataset

  def get_dataset(
    self, split: str | None = None, *args, **kwargs
  ) -> tf.data.Dataset:
    """Returns the raw examples of a split; as SeqIO's, but see below.

    Raises:
      UserError: the dataset, or this split of it, is not there.
    """
    split = split or "train"
    self._check(split)
    return super().get_dataset(split, *args, **kwargs)

  def num_input_examples(self, split: str) -> int:
    """Returns the number of raw examples; raises as `get_dataset`."""
    self._check(split)
    return super().num_input_examples(split)

  def list_shards(self, split: str) -> list[str]:
    """Returns the files of a split; raises as `get_dataset`."""
    self._check(split)
    return super().list_shards(split)

  def _check(self, split: str) -> None:
    """Raises UserError unless the dataset has the split."""
    data_dir = self.tfds_dataset.data_dir
    if split in self.splits:
      return
    part = self._tfds_splits.get(split, split)
    declared = split in self._tfds_splits
    if declared and set(_names(part)) <= self._present(data_dir):
      raise UserError(
        f"The TFDS dataset {self._tfds_name!r} in {data_dir!r} has too few "
        f"examples for the split {part!r}."
      )
    message = (
      f"The TFDS dataset {self._tfds_name!r} in {data_dir!r} has no split "
      f"{part!r}"
    )
    if declared:
      message += (
        ": it was prepared without it and has only "
        + ", ".join(sorted(self._present(data_dir)))
        + "."
      )
    else:
      message += nearest(split, self.splits)
    raise UserError(message)

  def _root(self) -> str | None:
    """Returns the first of the places that has the dataset."""
    for root in _roots():
      if os.path.isfile(self._info_file(root)):
        return root
    return None

  def _present(self, root: str) -> set[str]:
    """Returns the names of the splits that are on disk."""
    with open(self._info_file(root), encoding="utf-8") as file:
      return {split["name"] for split in json.load(file).get("splits", ())}

  def _has_examples(self, part: str) -> bool:
    """Returns whether a part of the splits on disk has examples.

    SeqIO ends the process where there are none.
    """
    if [part] == _names(part):
      return True
    try:
      return self.tfds_dataset.info.splits[part].num_examples > 0
    except ValueError:  # a place beyond the last example
      return False

  def _info_file(self, root: str) -> str:
    """Returns where TFDS describes a dataset that it has prepared."""
    relative = self._tfds_name.replace(":", "/")
    return os.path.join(root, relative, "dataset_info.json")


def _names(part: str) -> list[str]:
  """Returns the names of the splits in `train[:90%]+validation`."""
  return [term.partition("[")[0].strip() for term in part.split("+")]


def _roots() -> list[str]:
  """Returns the folders that may hold TFDS datasets, the first one first."""
  roots = []
  for folder in data_folders.data_folders():
    roots += [os.path.join(folder, "tfds"), folder]
  roots.append(
    os.environ.get("TFDS_DATA_DIR")
    or os.path.expanduser("~/tensorflow_datasets")
  )
  return roots
