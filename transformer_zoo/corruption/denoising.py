"""Denoising: a noise mask, and a rewrite under it for inputs and targets.

The lengths of raw text, inputs and targets follow from both.
"""

from collections.abc import Callable, Mapping
import copy
import dataclasses
from typing import Any

import numpy as np

from transformer_zoo.corruption import special_tokens
from transformer_zoo.corruption.corruption import Corruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.corruption.masks.noise_masks import check_words
from transformer_zoo.corruption.masks.noise_masks import RandomSpans
from transformer_zoo.corruption.masks.noise_masks import Rows
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.corruption.rewrites import noise_rewrites
from transformer_zoo.errors import UserError

# Masks that are drawn where sizes are not fixed by the lengths: for `check`,
# and for `fitting_lengths`, which looks at one example in a thousand.
_SIMULATED = 512
_FITTED = 8192
# Tokens of a text for one of the inputs.
_LARGEST = 1000


@dataclasses.dataclass(frozen=True)
class Denoising(Corruption):
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
      return raw_length_of_spans(
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
    sizes = rewritten_sizes(self.targets, masks)
    targets = int(np.quantile(sizes, 0.999, method="inverted_cdf")) + 1
    return {"inputs": inputs, "targets": targets}

  def check(
    self,
    lengths: Mapping[str, int],
    vocabulary: Any,
    raw: int | None = None,
  ) -> float:
    """Refuses lengths that always cut an example or run out of sentinels.

    Args:
      lengths: tokens of `inputs` and `targets`, EOS counted.
      vocabulary: The vocabulary of the text.
      raw: The raw tokens per example; by default from `raw_length`.

    Returns:
      the share of examples whose targets will be cut: 0 for noise of an exact
      size, estimated from draws for the others.

    Raises:
      UserError: the inputs are too short, an example does not fit, there are
        more spans than sentinel ids, or the vocabulary lacks a mask or words.
    """
    raw = self.raw_length(lengths) if raw is None else raw
    if raw < 2:
      raise UserError(self._too_short(lengths["inputs"]))
    masks = self.noise(Draws(0, np.arange(_SIMULATED)), raw)
    sizes = {
      feature: rewritten_sizes(getattr(self, feature), masks)
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
      spans = num_sentinels(name, masks)
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
      # `check` refuses noise that overruns the sentinels now and then. It may
      # still happen to one example in millions, and must not end a long run.
      mask = noise_rewrites.within_sentinels(mask, len(vocabulary.sentinel_ids))
    return {
      "inputs": noise_rewrites.find(self.inputs)(
        tokens, mask, draws, vocabulary
      ),
      "targets": noise_rewrites.find(self.targets)(
        tokens, mask, draws, vocabulary
      ),
    }


@dataclasses.dataclass(frozen=True)
class PlacedDenoising(Denoising):
  """Denoising that records where in the text the targets begin (MASS).

  For noise of one fragment, whose targets are the fragment. A converter with
  `original_positions` gives them the positions that they have in the text, as
  `masked_dataset.py` of MASS's code (779f22f).
  """

  def __call__(
    self, tokens: np.ndarray, draws: Draws, vocabulary: Any
  ) -> dict[str, Ragged]:
    """As `Denoising.__call__`, with `target_starts`, a number per example."""
    tokens = np.asarray(tokens, np.int32)
    # The same mask as below, of the same draws.
    rows = Rows(tokens, vocabulary)
    mask = self.noise(copy.copy(draws), tokens.shape[1], rows)
    starts = np.argmax(mask, axis=1).astype(np.int32)
    return super().__call__(tokens, draws, vocabulary) | {
      "target_starts": Ragged.full(starts[:, None])
    }


def _described(noise: Any) -> str:
  fields = ", ".join(
    f"{field.name} {getattr(noise, field.name)}"
    for field in dataclasses.fields(noise)
  )
  name = type(noise).__name__
  return f"{name} ({fields})" if fields else name


def random_spans_helper(
  inputs_length: int,
  noise_density: float,
  mean_noise_span_length: float,
  extra_tokens_per_span_inputs: int = 1,
  extra_tokens_per_span_targets: int = 1,
) -> tuple[int, int]:
  """Finds how much raw text fills `inputs_length` after span corruption.

  Both the inputs and the targets are counted with their EOS. From t5
  `preprocessors.random_spans_helper`, which counts no span in short texts
  where its mask has one; the search starts at `inputs_length - 1`, which the
  copy in Hugging Face's example scripts does not, so the two differ at span
  length 1.

  Args:
    inputs_length: tokens the inputs may take, EOS counted.
    noise_density: share of noise tokens.
    mean_noise_span_length: tokens per noise span.
    extra_tokens_per_span_inputs: sentinels per noise span in the inputs.
    extra_tokens_per_span_targets: sentinels per non-noise span in the targets.

  Returns:
    (raw tokens per example, length of the targets with EOS).

  Raises:
    UserError: Hardly anything of a text is left for the inputs.
  """

  def corrupted_lengths(raw_length):
    num_noise = max(1, round(raw_length * noise_density))
    num_spans = max(1, round(num_noise / mean_noise_span_length))
    inputs = raw_length - num_noise + num_spans * extra_tokens_per_span_inputs
    targets = num_noise + num_spans * extra_tokens_per_span_targets
    return inputs + 1, targets + 1

  raw_length = inputs_length - 1
  while corrupted_lengths(raw_length + 1)[0] <= inputs_length:
    raw_length += 1
    if raw_length > _LARGEST * inputs_length:
      raise UserError(
        f"noise_density {noise_density} with spans of "
        f"{mean_noise_span_length} tokens leaves so little of a text that "
        f"inputs of {inputs_length} tokens would take more than {raw_length:,} "
        "tokens of it; lower noise_density"
      )
  inputs, targets = corrupted_lengths(raw_length)
  # t5 evens out inputs and targets at density 0.5, where the inputs' length
  # is the rounder number of the two.
  if noise_density == 0.5 and targets > inputs:
    return raw_length - 1, targets - 1
  return raw_length, targets


# Rewrites after which inputs are shorter than the text, and what a span leaves.
_LEFT_OF_A_SPAN = {
  "noise_span_to_unique_sentinel": 1,
  "noise_span_to_sentinel": 1,
  "drop_noise_tokens": 0,
}


def raw_length_of_spans(
  noise: Any, inputs: str, targets: str, inputs_length: int
) -> int:
  """Returns the raw tokens that fill the inputs under random spans.

  Args:
    noise: a `RandomSpans`.
    inputs, targets: names of the rewrites.
    inputs_length: tokens the inputs may take, EOS counted.
  """
  if inputs not in _LEFT_OF_A_SPAN:
    return inputs_length - 1
  raw, _ = random_spans_helper(
    inputs_length,
    noise.noise_density,
    noise.mean_noise_span_length,
    _LEFT_OF_A_SPAN[inputs],
    int("sentinel" in targets),
  )
  return raw


def rewritten_sizes(rewrite: str, masks: np.ndarray) -> np.ndarray:
  """Returns how many tokens a rewrite leaves under each mask, int64 [B]."""
  if rewrite == "nothing":
    return np.zeros(len(masks), np.int64)
  if "nonnoise" in rewrite:
    rewrite, masks = rewrite.replace("nonnoise", "noise"), ~masks
  left = _LEFT_OF_A_SPAN.get(rewrite)
  if left is None:
    return np.full(len(masks), masks.shape[1])
  return np.count_nonzero(~masks, axis=1) + left * _num_spans(masks)


def num_sentinels(rewrite: str, masks: np.ndarray) -> np.ndarray:
  """Returns how many different sentinels a rewrite needs, int64 [B]."""
  if rewrite == "noise_span_to_unique_sentinel":
    return _num_spans(masks)
  if rewrite == "nonnoise_span_to_unique_sentinel":
    return _num_spans(~masks)
  return np.zeros(len(masks), np.int64)


def _num_spans(masks: np.ndarray) -> np.ndarray:
  opens = masks[:, 1:] & ~masks[:, :-1]
  return np.count_nonzero(opens, axis=1) + masks[:, 0]
