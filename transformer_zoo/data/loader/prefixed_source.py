"""Examples whose texts begin or end with a special token.

BART's begin with `<s>`, and inputs of mBART end with the code of a language.
"""

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
  """A source whose sequences have a first id more, or inputs a last one.

  Attributes:
    source: The source of the sequences without it.
    begin_id: The id that each sequence begins with, or None.
    end_id: The id that inputs end with, behind EOS, or None.
  """

  source: Source
  begin_id: int | None
  end_id: int | None = None

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
    begin, end = self.begin_id is not None, self.end_id is not None
    # Inputs are the first feature.
    more = np.array([begin + end, begin], np.int32)
    return self.source.lengths(indices) + more

  def read(
    self, indices: Sequence[int], seed: int, keys: np.ndarray
  ) -> Examples:
    """As `Source.read`."""
    read = self.source.read(indices, seed, keys)
    features = dict(read.features)
    for name in _TEXTS:
      parts = [features[name]]
      if self.begin_id is not None:
        parts.insert(0, _repeated(self.begin_id, len(indices)))
      if self.end_id is not None and name == "inputs":
        parts.append(_repeated(self.end_id, len(indices)))
      features[name] = interleave(parts)
    return dataclasses.replace(read, features=features)


def _repeated(token: int, number: int) -> Ragged:
  """Returns so many sequences of one token."""
  return Ragged.of([np.full(1, token, np.int32)] * number)
