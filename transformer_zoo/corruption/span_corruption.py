"""Span corruption, the denoising objective of the released T5 models."""

from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption import lengths as lengths_lib
from transformer_zoo.corruption import noise_masks
from transformer_zoo.corruption import rewrites
from transformer_zoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class SpanCorruption:
  """Cuts random spans out of a text; the targets are the spans cut out.

  `Thank you for inviting me to your party last week` becomes
  `Thank you <0> me to your party <1>` -> `<0> for inviting <1> last week`
  (T5 paper section 3.1.4, t5 `preprocessors.span_corruption`). The text ends
  in noise, so the targets have no closing sentinel.

  Attributes:
    noise_density: share of the tokens cut out, between 0 and 1.
    mean_noise_span_length: mean tokens per span, at least 1.
  """

  noise_density: float = 0.15
  mean_noise_span_length: float = 3.0

  def __post_init__(self):
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(
          f"SpanCorruption.{field.name} is {value!r}; it must be a number."
        )
    if not 0 < self.noise_density < 1:
      raise UserError(
        f"SpanCorruption.noise_density is {self.noise_density}; it must lie "
        "between 0 and 1, both excluded."
      )
    if not self.mean_noise_span_length >= 1:
      raise UserError(
        "SpanCorruption.mean_noise_span_length is "
        f"{self.mean_noise_span_length}; it must be at least 1 token."
      )

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """Returns the raw tokens per example that fill the inputs, EOS counted.

    Args:
      lengths: tokens of each feature; only `inputs` is read.
    """
    raw, _ = lengths_lib.random_spans_helper(
      lengths["inputs"], self.noise_density, self.mean_noise_span_length
    )
    return raw

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> None:
    """Refuses lengths that would cut an example or run out of sentinels.

    Args:
      lengths: tokens of `inputs` and `targets`, EOS counted.
      vocabulary: an object with `sentinel_ids`.

    Raises:
      UserError: the inputs are too short to hold a span, the targets do not
        hold all spans, or there are more spans than sentinel ids.
    """
    raw = self.raw_length(lengths)
    inputs = lengths["inputs"]
    if raw < 2:
      raise UserError(
        f"Inputs of {inputs} tokens are too short for span corruption; give "
        "them at least 8."
      )
    num_noise, num_spans = noise_masks.count_spans(
      raw, self.noise_density, self.mean_noise_span_length
    )
    # The helper rounds short texts to no span at all, the mask always has one.
    needed_inputs = raw - num_noise + num_spans + 1
    if needed_inputs > inputs:
      raise UserError(
        f"Span corruption with noise_density {self.noise_density} makes "
        f"inputs of {needed_inputs} tokens where {inputs} are allowed; give "
        "inputs more tokens."
      )
    needed_targets = num_noise + num_spans + 1
    if needed_targets > lengths["targets"]:
      raise UserError(
        f"Span corruption of {raw} tokens makes targets of {needed_targets} "
        f"tokens where {lengths['targets']} are allowed, so every example "
        f"would lose the end of its targets; set targets to {needed_targets} "
        "or shorten the inputs."
      )
    available = len(vocabulary.sentinel_ids)
    if num_spans > available:
      raise UserError(
        f"Span corruption of {raw} tokens makes {num_spans} spans, but the "
        f"vocabulary has {available} sentinel ids; shorten the inputs, raise "
        "mean_noise_span_length, or use a vocabulary with more extra_ids."
      )

  def __call__(
    self, tokens: np.ndarray, rng: np.random.Generator, vocabulary: Any
  ) -> dict[str, np.ndarray]:
    """Corrupts one text.

    Args:
      tokens: integer ids without EOS, shape [length].
      rng: source of the draw; the result is a function of its state.
      vocabulary: an object with `sentinel_ids`, in order of use.

    Returns:
      `inputs` and `targets`, int32, without EOS.

    Raises:
      UserError: there are more spans than sentinel ids.
    """
    tokens = np.asarray(tokens, np.int32)
    mask = noise_masks.random_spans(
      len(tokens), self.noise_density, self.mean_noise_span_length, rng
    )
    sentinels = vocabulary.sentinel_ids
    return {
      "inputs": rewrites.noise_span_to_unique_sentinel(tokens, mask, sentinels),
      "targets": rewrites.nonnoise_span_to_unique_sentinel(
        tokens, mask, sentinels
      ),
    }
