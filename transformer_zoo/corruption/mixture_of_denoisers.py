"""Several denoisers on one text: UL2 (Tay et al. 2023).

Each example is of one denoiser, drawn with its share, and says by its first
tokens which mode it is of.
"""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption.corruption import Corruption
from transformer_zoo.corruption.denoising import Denoising
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.ragged import interleave
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Denoiser:
  """One denoiser of a mixture.

  Attributes:
    denoising: The objective.
    share: Its share of the examples, relative to the shares of the others.
    mode: The text that its inputs begin with, like "[R]"; empty for none.
  """

  denoising: Denoising
  share: float = 1.0
  mode: str = ""

  def __post_init__(self):
    if not self.share > 0:
      raise UserError(
        f"Denoiser.share is {self.share!r}; it must be a number above 0."
      )


@dataclasses.dataclass(frozen=True)
class MixtureOfDenoisers(Corruption):
  """A mixture of denoisers over texts of one length.

  All denoisers corrupt the same chunk: the longest that each of them fits into
  the lengths of the run.

  Attributes:
    denoisers: The denoisers.
  """

  denoisers: Sequence[Denoiser]

  def __post_init__(self):
    object.__setattr__(self, "denoisers", tuple(self.denoisers))
    if not self.denoisers:
      raise UserError(
        "MixtureOfDenoisers.denoisers is empty; give one or more, such as "
        "(@Denoiser(),)."
      )

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """Returns the raw tokens per example, as `Denoising.raw_length`.

    The tokens of a mode are counted as three at most.
    """
    room = {**lengths, "inputs": lengths["inputs"] - _LONGEST_MODE}
    return min(
      denoiser.denoising.raw_length(room) for denoiser in self.denoisers
    )

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """Refuses lengths that cut every example of a denoiser.

    Args:
      lengths: tokens of `inputs` and `targets`, EOS counted.
      vocabulary: The vocabulary of the text.

    Returns:
      the share of examples whose targets will be cut, estimated from draws.

    Raises:
      UserError: a denoiser does not fit, or a mode takes more tokens than are
        kept for it.
    """
    for denoiser in self.denoisers:
      taken = len(vocabulary.encode(denoiser.mode)) if denoiser.mode else 0
      if taken > _LONGEST_MODE:
        raise UserError(
          f"Denoiser.mode {denoiser.mode!r} is {taken} tokens of the "
          f"vocabulary where {_LONGEST_MODE} are kept; choose a shorter one."
        )
    room = {**lengths, "inputs": lengths["inputs"] - _LONGEST_MODE}
    raw = self.raw_length(lengths)
    cut = [d.denoising.check(room, vocabulary, raw) for d in self.denoisers]
    return float(np.average(cut, weights=[d.share for d in self.denoisers]))

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """Corrupts each text by one denoiser.

    Args:
      tokens: integer ids without EOS, [B, length].
      draws: source of randomness, one key per row.
      vocabulary: The vocabulary of the text.

    Returns:
      `inputs`, which begin with the mode, and `targets`, without EOS.
    """
    tokens = np.asarray(tokens, np.int32)
    shares = np.array([denoiser.share for denoiser in self.denoisers])
    chances = np.cumsum(shares)[:-1] / shares.sum()
    chosen = np.searchsorted(chances, draws.uniform(1)[:, 0], side="right")
    rows = {"inputs": [None] * len(tokens), "targets": [None] * len(tokens)}
    for number, denoiser in enumerate(self.denoisers):
      places = np.flatnonzero(chosen == number)
      if not places.size:
        continue
      made = denoiser.denoising(
        tokens[places], draws.of_rows(places), vocabulary
      )
      made["inputs"] = _begun(made["inputs"], denoiser.mode, vocabulary)
      for name, corrupted in made.items():
        for place, row in zip(places, corrupted.rows(), strict=True):
          rows[name][place] = row
    return {name: Ragged.of(made) for name, made in rows.items()}


# The tokens that are kept for a mode: "[S]" is two or three pieces.
_LONGEST_MODE = 3


def _begun(text: Ragged, mode: str, vocabulary: Any) -> Ragged:
  if not mode:
    return text
  ids = np.array(vocabulary.encode(mode), np.int32)
  return interleave([Ragged.of([ids] * len(text.lengths)), text])
