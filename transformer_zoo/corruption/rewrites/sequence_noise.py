"""Noise on a whole sequence: BART (Lewis et al. 2020, section 2.2).

A sequence noise takes texts of any lengths and returns texts. The order and the
budgets are as in fairseq's `denoising_dataset.py` (3d262bb2), where BART comes
from: sentences are permuted first, then tokens are hidden (`infilling.py`), and
the document is rotated last.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption import special_tokens
from transformer_zoo.corruption.corruption import Corruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.noise_masks import check_density
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.errors import UserError

# Texts that `check` makes noise on.
_SIMULATED = 256


@dataclasses.dataclass(frozen=True)
class SentencePermutation:
  """Puts the sentences of a text in random order.

  A sentence ends with the token of a full stop (a run of them ends one), or
  with the text, whose first and last sentences are in general parts: so it
  works on any chunk of tokens, as fairseq does. Abbreviations end sentences
  too.

  Attributes:
    share: The share of the sentences that change places, rounded up; 1 is all.
    full_stops: texts whose last token ends a sentence.
  """

  share: float = 1.0
  full_stops: Sequence[str] = (".",)

  def __post_init__(self):
    check_density(self, self.share, name="share")
    object.__setattr__(self, "full_stops", tuple(self.full_stops))

  def __call__(self, text: Ragged, draws: Draws, vocabulary: Any) -> Ragged:
    stops = np.isin(text.values, self._stop_ids(vocabulary))
    ends = stops.copy()
    ends[:-1] &= ~stops[1:]
    filled = text.lengths > 0
    ends[(text.starts + text.lengths - 1)[filled]] = True
    edges = np.flatnonzero(ends) + 1
    sentences = Ragged(text.values, np.diff(edges, prepend=0))
    # The sentences of each text, numbered through.
    before = np.concatenate([[0], np.cumsum(ends)])
    numbers = before[text.starts + text.lengths] - before[text.starts]
    counted = Ragged(np.arange(len(edges)), numbers)
    moved = np.ceil(np.round(numbers * self.share, 6)).astype(np.int64)
    chosen = counted.within(draws.subsets(numbers, moved))
    moving = Ragged(counted.values[chosen], moved)
    places = draws.permutations(moved) + moving.starts[:, None]
    order = counted.values.copy()
    order[chosen] = moving.values[moving.within(places)]
    return Ragged(sentences.take(order).values, text.lengths)

  def _stop_ids(self, vocabulary: Any) -> list[int]:
    """Tokens of the full stops, alone and after a word."""
    return [
      vocabulary.encode(before + stop)[-1]
      for stop in self.full_stops
      for before in ("", "word")
    ]


@dataclasses.dataclass(frozen=True)
class DocumentRotation:
  """Lets a text begin at a uniform token and carries what was before behind.

  Attributes:
    chance: The probability of a text to be rotated.
  """

  chance: float = 1.0

  def __post_init__(self):
    check_density(self, self.chance, name="chance")

  def __call__(self, text: Ragged, draws: Draws, vocabulary: Any) -> Ragged:
    del vocabulary
    first = draws.integers(np.maximum(text.lengths, 1)[:, None], 1)[:, 0]
    first = np.where(draws.uniform(1)[:, 0] < self.chance, first, 0)
    lengths = np.repeat(text.lengths, text.lengths)
    starts = np.repeat(text.starts, text.lengths)
    places = np.arange(len(text.values)) - starts
    places = (places + np.repeat(first, text.lengths)) % lengths
    return Ragged(text.values[starts + places], text.lengths)


@dataclasses.dataclass(frozen=True)
class SequenceNoise(Corruption):
  """Inputs under one or more sequence noises; the targets are the whole text.

      BART large: (SentencePermutation(), TextInfilling(0.3))

  Attributes:
    noises: The noises in the order of their application.
  """

  noises: Sequence[Callable[[Ragged, Draws, Any], Ragged]]

  def __post_init__(self):
    noises = tuple(self.noises)
    object.__setattr__(self, "noises", noises)
    if not noises or not all(callable(noise) for noise in noises):
      raise UserError(
        f"SequenceNoise.noises is {self.noises!r}; it must be one or more "
        "noises such as (@SentencePermutation(), @TextInfilling())."
      )

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """Returns the raw tokens per example that fill the targets, EOS counted."""
    return lengths["targets"] - 1

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """Refuses lengths that always cut the inputs, and missing tokens.

    Args:
      lengths: tokens of `inputs` and `targets`, EOS counted.
      vocabulary: The vocabulary of the text.

    Returns:
      the share of examples whose inputs will be cut, estimated from draws; the
      targets fit.

    Raises:
      UserError: the targets are too short, all inputs are longer than they may
        be, or the vocabulary lacks what the noise needs.
    """
    raw = self.raw_length(lengths)
    if raw < 2:
      raise UserError(
        f"Targets of {lengths['targets']} tokens are too short for a text; "
        "give them at least 8."
      )
    draws = Draws(0, np.arange(_SIMULATED))
    ids = special_tokens.ordinary_ids(vocabulary)
    text = ids[draws.integers(len(ids), raw)]
    sizes = self(text, draws, vocabulary)["inputs"].lengths + 1
    needed = int(sizes.min())
    if needed > lengths["inputs"]:
      raise UserError(
        f"Sequence noise on {raw} tokens leaves inputs of {needed} tokens or "
        f"more where {lengths['inputs']} are allowed; set inputs to "
        f"{raw + 1}, or shorten the targets."
      )
    return float(np.mean(sizes > lengths["inputs"]))

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """Makes noise on texts of one length.

    Args:
      tokens: integer ids without EOS, [B, length].
      draws: source of randomness, one key per row.
      vocabulary: The vocabulary of the text.

    Returns:
      `inputs` and `targets`, without EOS.
    """
    targets = Ragged.full(np.asarray(tokens, np.int32))
    inputs = targets
    for noise in self.noises:
      inputs = noise(inputs, draws, vocabulary)
    return {"inputs": inputs, "targets": targets}
