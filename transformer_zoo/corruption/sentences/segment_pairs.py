"""Two segments of a chunk of sentences: where they are, how they are cut."""

from typing import NamedTuple

import numpy as np

from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.sentences.documents import Sentences

# Tokens that are cut off at either side by a coin each; of more, half at each.
_MOST_COINS = 4096


class Pair(NamedTuple):
  """Two segments of each example of a batch.

  Attributes:
    starts: The starts of A and B in the text, int64 [2, B].
    lengths: The lengths of A and B, int64 [2, B].
    labels: class of the pair, int32 [B].
  """

  starts: np.ndarray
  lengths: np.ndarray
  labels: np.ndarray


def shortened(
  lengths: np.ndarray, most: int, draws: Draws
) -> tuple[np.ndarray, np.ndarray]:
  """Shortens pairs to `most` tokens, always the longer segment of the two.

  Each token goes from the front or the back with equal chances, as in
  `truncate_seq_pair` of google-research/bert.

  Args:
    lengths: int64 [2, B].
    most: tokens of both together.
    draws: source of randomness, one key per pair.

  Returns:
    tokens that are cut off at the front, int64 [2, B]; lengths that stay.
  """
  first, second = lengths
  # Of two equal ones the second is cut.
  second_left = np.minimum(second, np.maximum(most // 2, most - first))
  left = np.stack([np.minimum(first, most - second_left), second_left])
  fronts = [_heads(draws, cut) for cut in lengths - left]
  return np.stack(fronts), left


def _heads(draws: Draws, tosses: np.ndarray) -> np.ndarray:
  """Returns how many of `tosses` coins show heads, int64 [B]."""
  coins = np.minimum(tosses, _MOST_COINS)
  words = draws.bits(-(-int(coins.max(initial=0)) // 32))
  used = np.clip(coins[:, None] - 32 * np.arange(words.shape[1]), 0, 32)
  masks = ((np.uint64(1) << used.astype(np.uint64)) - np.uint64(1)).astype(
    np.uint32
  )
  heads = np.bitwise_count(words & masks).sum(axis=1, dtype=np.int64)
  return heads + (tosses - coins) // 2


def draw_aims(room: int, short_probability: float, draws: Draws) -> np.ndarray:
  """Returns how many tokens examples aim at, int64 [B]."""
  short = draws.uniform(1)[:, 0] < short_probability
  return np.where(short, 2 + draws.integers(room - 1, 1)[:, 0], room)


def split(
  text: Sentences,
  starts: np.ndarray,
  ends: np.ndarray,
  aims: np.ndarray,
  draws: Draws,
) -> Pair:
  """Cuts chunks in two after a sentence; B is empty in those that have one.

  Of a chunk with more sentences than reach its aim the others are left out, but
  not its second.
  """
  first, last = text.sentences_at(starts), text.sentences_at(ends - 1) + 1
  reached = np.searchsorted(text.ends, starts + aims, side="left") + 1
  last = np.minimum(last, np.maximum(reached, first + 2))
  # The last sentence of A.
  split = first + _draw_below(np.maximum(last - first - 1, 1), draws)
  middle = text.ends[split]
  return Pair(
    np.stack([starts, middle]),
    np.stack([middle - starts, text.ends[last - 1] - middle]),
    np.zeros(len(starts), np.int32),
  )


def with_random_next(
  text: Sentences,
  pair: Pair,
  wanted: np.ndarray | int,
  probability: float,
  draws: Draws,
) -> Pair:
  """Gives some pairs, and all that lack it, a B of another document.

  That begins with any of its sentences and ends with the one that makes it
  `wanted` tokens or more, or with the document.
  """
  taken = (draws.uniform(1)[:, 0] < probability) | (pair.lengths[1] == 0)
  documents = text.documents_of(text.sentences_at(pair.starts[0]))
  others = _draw_below(np.full(len(taken), text.num_documents - 1), draws)
  others += others >= documents
  first = text.first_sentences[others]
  last = text.first_sentences[others + 1] - 1
  first = first + _draw_below(last - first + 1, draws)
  starts = text.starts(first)
  reached = np.searchsorted(text.ends, starts + wanted, side="left")
  lengths = text.ends[np.minimum(reached, last)] - starts
  return Pair(
    np.stack([pair.starts[0], np.where(taken, starts, pair.starts[1])]),
    np.stack([pair.lengths[0], np.where(taken, lengths, pair.lengths[1])]),
    taken.astype(np.int32),
  )


def _draw_below(bounds: np.ndarray, draws: Draws) -> np.ndarray:
  """Returns a number in [0, bound) for each example, int64 [B]."""
  return draws.integers(bounds[:, None], 1)[:, 0]
