"""TFDS datasets read from the data folders."""

import os

import seqio

from tasks import data_folders
from transformer_zoo.errors import UserError


class PreparedTfdsDataSource(seqio.TfdsDataSource):
  """A TFDS dataset that is prepared already, found when it is first read.

  Looked for under `tfds/` of the data folders and in the data folders, then
  where TFDS itself keeps datasets (`TFDS_DATA_DIR` or
  `~/tensorflow_datasets`). Nothing is downloaded in the middle of a run:
  without a network TFDS tries for minutes before it says so.
  """

  def __init__(self, tfds_name: str, *, splits: tuple[str, ...]):
    """Names a dataset.

    Args:
      tfds_name: `<dataset>/<config>:<version>`.
      splits: the splits it has, so that listing a task reads no file.
    """
    super().__init__(tfds_name, splits=splits, read_only=True)
    self._tfds_name = tfds_name

  def __repr__(self) -> str:
    return f"PreparedTfdsDataSource({self._tfds_name!r})"

  __str__ = __repr__

  @property
  def tfds_dataset(self):
    """SeqIO's loader, which every reading method of the source goes through.

    Raises:
      UserError: the dataset is in none of the places.
    """
    relative = self._tfds_name.replace(":", "/")
    roots = []
    for folder in data_folders.data_folders():
      roots += [os.path.join(folder, "tfds"), folder]
    roots.append(
      os.environ.get("TFDS_DATA_DIR")
      or os.path.expanduser("~/tensorflow_datasets")
    )
    for root in roots:
      if os.path.isfile(os.path.join(root, relative, "dataset_info.json")):
        self._tfds_dataset.override_data_dir(root)
        return self._tfds_dataset
    raise UserError(
      f"The TFDS dataset {self._tfds_name!r} is missing (looked in "
      + ", ".join(map(repr, roots))
      + "); name a folder that has tfds/ with --data_dir, or run `tfds build "
      f"{self._tfds_name.partition(':')[0]}` on a connected machine."
    )
