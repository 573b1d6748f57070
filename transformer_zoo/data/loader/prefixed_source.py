"""Examples whose texts begin with a special token, as BART's do with `<s>`."""

from collections.abc import Sequence
import dataclasses

import numpy as np

from transformer_zoo.corruption.ragged import interleave
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.loader.examples import Examples
from transformer_zoo.data.loader.examples import Source

_TEXTS = ("inputs", "targets")


@dataclasses.dataclass(frozen=True)
class PrefixedSource:
  """A source whose sequences have one id more, the first one.

  Attributes:
    source: The source of the sequences without it.
    begin_id: The id that each sequence begins with.
  """

  source: Source
  begin_id: int

  @property
  def num_examples(self) -> int:
    """As `Source.num_examples`."""
    return self.source.num_examples

  @property
  def layout(self) -> str:
    """As `Source.layout`."""
    return self.source.layout

  @property
  def shares_rows(self) -> bool:
    """As `Source.shares_rows`."""
    return self.source.shares_rows

  @property
  def cached_bytes(self) -> int:
    """As `Source.cached_bytes`."""
    return self.source.cached_bytes

  def lengths(self, indices: np.ndarray) -> np.ndarray:
    """As `Source.lengths`."""
    return self.source.lengths(indices) + 1

  def read(
    self, indices: Sequence[int], seed: int, keys: np.ndarray
  ) -> Examples:
    """As `Source.read`."""
    read = self.source.read(indices, seed, keys)
    begins = Ragged.of([np.full(1, self.begin_id, np.int32)] * len(indices))
    return dataclasses.replace(
      read,
      features={
        name: interleave([begins, sequences]) if name in _TEXTS else sequences
        for name, sequences in read.features.items()
      },
    )
