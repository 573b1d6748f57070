"""What a vocabulary does to text that it was not learned from."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from transformer_zoo.data.vocabularies import Vocabulary

_SHOWN = 20
_AT_A_TIME = 1_000


def measure(vocabulary: Vocabulary, lines: Sequence[str]) -> dict[str, Any]:
  """Returns figures of a vocabulary on `lines`, as JSON.

  `characters_per_token` and `bytes_per_token` tell how much it compresses,
  `unknown_rate` the share of tokens that are unknown, `unused_rate` the share
  of ids that no line has, `most_frequent` the most frequent pieces as text with
  their share of the tokens.
  """
  counts = Counter()
  for start in range(0, len(lines), _AT_A_TIME):
    for ids in vocabulary.encode_batch(lines[start : start + _AT_A_TIME]):
      counts.update(ids)
  tokens = counts.total()
  return {
    "lines": len(lines),
    "tokens": tokens,
    "characters_per_token": sum(map(len, lines)) / tokens,
    "bytes_per_token": sum(len(line.encode()) for line in lines) / tokens,
    "unknown_rate": counts[vocabulary.unk_id] / tokens,
    "unused_rate": 1 - len(counts) / vocabulary.size,
    "most_frequent": [
      [vocabulary.decode([i]), count / tokens]
      for i, count in counts.most_common(_SHOWN)
    ],
  }
