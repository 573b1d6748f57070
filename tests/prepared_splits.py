"""Prepared data of examples that a test makes, without SeqIO."""

from collections.abc import Iterable, Mapping
import pathlib
from typing import Any

from transformer_zoo.data.prepare import shards
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage.manifest import SplitInfo


def write_split(
  examples: Iterable[Mapping[str, Any]],
  split: str,
  task: manifest.PreparedTask,
  folder: pathlib.Path,
) -> SplitInfo:
  """Writes a split as one shard, as `prepare` does."""
  if task.kind == "tokens":
    examples = shards.join_documents(examples, split, task)
  shards.write_shard(examples, shards.Place(split), task, folder)
  info = shards.join_shards(split, 1, task, folder)
  shards.remove_notes(folder)
  return info
