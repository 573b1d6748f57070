"""Denoising: a noise mask, and a rewrite under it for inputs and targets."""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption import lengths as lengths_lib
from transformer_zoo.corruption import special_tokens
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.noise_masks import RandomSpans
from transformer_zoo.corruption.masks.rows import Rows
from transformer_zoo.corruption.masks.word_spans import check_words
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.rewrites import noise_rewrites
from transformer_zoo.errors import UserError

# Masks that are drawn where sizes are not fixed by the lengths: for `check`,
# and for `fitting_lengths`, which looks at one example in a thousand.
_SIMULATED = 512
_FITTED = 8192


@dataclasses.dataclass(frozen=True)
class Denoising:
  """An unsupervised objective of the T5 paper (section 3.3, table 3).

  `noise` says which tokens of a text are hidden, `inputs` and `targets` are the
  names of the rewrites (`rewrites.REWRITES`) that make the two sides:

      i.i.d. noise, replace spans:
        Iid(0.15), noise_span_to_unique_sentinel,
        nonnoise_span_to_unique_sentinel
      MASS-style:  Iid(0.15), noise_token_to_sentinel, keep
      MASS itself: Fragment(), noise_token_to_mask_random_or_same_token,
        drop_nonnoise_tokens
      deshuffling: Everything(), permute_noise_tokens, keep
      prefix LM:   RandomPrefix(), drop_nonnoise_tokens, drop_noise_tokens

  Attributes:
    noise: a mask of `noise_masks`.
    inputs: name of the rewrite that makes the inputs.
    targets: name of the rewrite that makes the targets.
  """

  noise: Callable[..., np.ndarray]
  inputs: str = "noise_span_to_unique_sentinel"
  targets: str = "nonnoise_span_to_unique_sentinel"

  def __post_init__(self):
    noise_rewrites.find(self.inputs)
    noise_rewrites.find(self.targets)
    if not callable(self.noise):
      raise UserError(
        f"Denoising.noise is {self.noise!r}; it must be a noise mask such as "
        "@RandomSpans()."
      )

  def raw_length(self, lengths: Mapping[str, int]) -> int:
    """Returns the raw tokens per example that fill the inputs, EOS counted.

    Random spans have an exact size, so that the inputs are filled exactly.
    Other noise draws its size, and the text before it must fit the inputs; a
    language model, which has no inputs, fills its targets.

    Args:
      lengths: tokens of `inputs` and `targets`, EOS counted.
    """
    if self.inputs == "nothing":
      return lengths["targets"] - 1
    if isinstance(self.noise, RandomSpans):
      return lengths_lib.raw_length_of_spans(
        self.noise, self.inputs, self.targets, lengths["inputs"]
      )
    return lengths["inputs"] - 1

  def fitting_lengths(self, inputs: int) -> dict[str, int]:
    """Returns the lengths that hold 99.9 % of the examples, EOS counted.

    Args:
      inputs: tokens that the inputs may take; what a language model, which has
        no inputs, may take in its targets.
    """
    if self.inputs == "nothing":
      return {"inputs": 1, "targets": inputs}
    raw = self.raw_length({"inputs": inputs})
    if raw < 2:
      raise UserError(self._too_short(inputs))
    masks = self.noise(Draws(0, np.arange(_FITTED)), raw)
    sizes = lengths_lib.sizes(self.targets, masks)
    targets = int(np.quantile(sizes, 0.999, method="inverted_cdf")) + 1
    return {"inputs": inputs, "targets": targets}

  def check(self, lengths: Mapping[str, int], vocabulary: Any) -> float:
    """Refuses lengths that always cut an example or run out of sentinels.

    Args:
      lengths: tokens of `inputs` and `targets`, EOS counted.
      vocabulary: The vocabulary of the text.

    Returns:
      the share of examples whose targets will be cut: 0 for noise of an exact
      size, estimated from draws for the others.

    Raises:
      UserError: the inputs are too short, an example does not fit, there are
        more spans than sentinel ids, or the vocabulary lacks a mask or words.
    """
    raw = self.raw_length(lengths)
    if raw < 2:
      raise UserError(self._too_short(lengths["inputs"]))
    masks = self.noise(Draws(0, np.arange(_SIMULATED)), raw)
    sizes = {
      feature: lengths_lib.sizes(getattr(self, feature), masks)
      for feature in ("inputs", "targets")
    }
    needed = {feature: int(size.min()) + 1 for feature, size in sizes.items()}
    for feature, size in needed.items():
      if size > lengths[feature]:
        raise UserError(
          f"{_described(self.noise)} of {raw} tokens makes {feature} of {size} "
          f"tokens where {lengths[feature]} are allowed, so every example "
          f"would lose the end of its {feature}; set {feature} to {size} or "
          "more, or change the other length."
        )
    self._check_sentinels(masks, vocabulary)
    check_words(self.noise, vocabulary)
    for name in filter(noise_rewrites.needs_mask, (self.inputs, self.targets)):
      special_tokens.mask_id(vocabulary, name)
    return float(np.mean(sizes["targets"] + 1 > lengths["targets"]))

  def _too_short(self, inputs: int) -> str:
    return (
      f"Inputs of {inputs} tokens are too short for {_described(self.noise)}; "
      "give them at least 8."
    )

  def _check_sentinels(self, masks: np.ndarray, vocabulary: Any) -> None:
    available = len(vocabulary.sentinel_ids)
    for name in (self.inputs, self.targets):
      spans = lengths_lib.num_sentinels(name, masks)
      if spans.max() > available:
        share = float(np.mean(spans > available))
        raise UserError(
          f"{_described(self.noise)} of {masks.shape[1]} tokens makes "
          f"{spans.max()} spans, but the vocabulary has {available} sentinel "
          f"ids ({share:.0%} of the examples have more); shorten the inputs, "
          "lower noise_density, lengthen the spans, or use a vocabulary with "
          "more extra_ids."
        )

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """Corrupts texts of one length.

    Args:
      tokens: integer ids without EOS, [B, length].
      draws: source of randomness, one key per row.
      vocabulary: The vocabulary of the text; `sentinel_ids` are in order of
        use.

    Returns:
      `inputs` and `targets`, without EOS. Noise for which there is no sentinel
      left stays as it is.
    """
    tokens = np.asarray(tokens, np.int32)
    mask = self.noise(draws, tokens.shape[1], Rows(tokens, vocabulary))
    if any("unique" in name for name in (self.inputs, self.targets)):
      # `check` refuses noise that overruns the sentinels now and then. What it
      # cannot see, one example in millions, must not end a long run.
      mask = noise_rewrites.within_sentinels(mask, len(vocabulary.sentinel_ids))
    return {
      "inputs": noise_rewrites.find(self.inputs)(
        tokens, mask, draws, vocabulary
      ),
      "targets": noise_rewrites.find(self.targets)(
        tokens, mask, draws, vocabulary
      ),
    }


def _described(noise: Any) -> str:
  fields = ", ".join(
    f"{field.name} {getattr(noise, field.name)}"
    for field in dataclasses.fields(noise)
  )
  name = type(noise).__name__
  return f"{name} ({fields})" if fields else name
