"""Span corruption, the denoising objective of the released T5 models."""

from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption.corruption import Corruption
from transformer_zoo.corruption.denoising import Denoising
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.noise_masks import RandomSpans
from transformer_zoo.corruption.ragged import Ragged


@dataclasses.dataclass(frozen=True)
class SpanCorruption(Corruption):
  """Cuts random spans out of a text; the targets are the spans cut out.

  `Thank you for inviting me to your party last week` becomes
  `Thank you <0> me to your party <1>` -> `<0> for inviting <1> last week`
  (T5 paper section 3.1.4, t5 `preprocessors.span_corruption`): `Denoising` with
  random spans, each replaced by a sentinel of its own. The text ends in noise,
  so the targets have no closing sentinel.

  Attributes:
    noise_density: share of the tokens cut out, above 0 and below 1.
    mean_noise_span_length: mean tokens per span, at least 1.
  """

  noise_density: float = 0.15
  mean_noise_span_length: float = 3.0

  def __post_init__(self):
    RandomSpans(self.noise_density, self.mean_noise_span_length)  # checks them

  @property
  def denoising(self) -> Denoising:
    """The same as a mask and two rewrites."""
    return Denoising(
      RandomSpans(self.noise_density, self.mean_noise_span_length)
    )

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """As `Denoising.raw_length`."""
    return self.denoising.raw_length(lengths)

  def fitting_lengths(self, inputs: int) -> dict[str, int]:
    """As `Denoising.fitting_lengths`."""
    return self.denoising.fitting_lengths(inputs)

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """As `Denoising.check`."""
    return self.denoising.check(lengths, vocabulary)

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """As `Denoising.__call__`."""
    return self.denoising(tokens, draws, vocabulary)
