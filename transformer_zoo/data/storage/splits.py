"""A split of a prepared task: its shards, their tables and counts."""

import dataclasses
import hashlib
from typing import Any

from transformer_zoo.data.storage import integrity


@dataclasses.dataclass(frozen=True)
class Shard(integrity.StoredFile):
  """A record file.

  Attributes:
    num_examples: examples, or documents of a `tokens` task.
    num_tokens: tokens of all features together.
  """

  num_examples: int
  num_tokens: int


@dataclasses.dataclass(frozen=True)
class SplitInfo:
  """One split of a prepared task.

  Attributes:
    num_examples: examples, or documents of a `tokens` task.
    num_tokens: tokens of all features together, untrimmed, EOS counted.
    quantiles: feature -> {percentile: length in tokens}; percentiles are '0',
      '50', '90', '99', '100'; of documents in a `tokens` task.
    shards: the record files, in order.
    tables: the arrays beside them, by name.
    num_skipped: bad rows that were left out, as --skip_bad_rows asks.
  """

  num_examples: int
  num_tokens: int
  quantiles: dict[str, dict[str, int]]
  shards: tuple[Shard, ...]
  tables: dict[str, integrity.StoredFile]
  num_skipped: int = 0  # a manifest may lack it

  @property
  def num_bytes(self) -> int:
    """Size of the record files together."""
    return sum(shard.num_bytes for shard in self.shards)

  def summary(self) -> str:
    """Returns how much it is, for a line that is printed."""
    what = "documents" if "document_ends" in self.tables else "examples"
    shards = f"{len(self.shards)} shard" + "s" * (len(self.shards) > 1)
    return (
      f"{self.num_examples:,} {what}, {self.num_tokens:,} tokens, {shards}, "
      f"{self.num_bytes / 1e6:.1f} MB"
    )

  @property
  def checksum(self) -> str:
    """A checksum of all files, in hexadecimal."""
    files = [*self.shards, *self.tables.values()]
    text = " ".join(file.sha256 for file in files)
    return hashlib.sha256(text.encode()).hexdigest()

  @classmethod
  def from_json(cls, content: dict[str, Any]) -> "SplitInfo":
    """Returns what `dataclasses.asdict` took apart."""
    return cls(
      **content
      | {
        "shards": tuple(Shard(**shard) for shard in content["shards"]),
        "tables": {
          name: integrity.StoredFile(**table)
          for name, table in content["tables"].items()
        },
      }
    )
