"""Lengths of raw text, inputs and targets of a corruption, in tokens."""

from typing import Any

import numpy as np


def random_spans_helper(
  inputs_length: int,
  noise_density: float,
  mean_noise_span_length: float,
  extra_tokens_per_span_inputs: int = 1,
  extra_tokens_per_span_targets: int = 1,
) -> tuple[int, int]:
  """Finds how much raw text fills `inputs_length` after span corruption.

  Both the inputs and the targets are counted with their EOS. From t5
  `preprocessors.random_spans_helper`; the search starts at
  `inputs_length - 1`, which the copy in Hugging Face's example scripts does
  not, so the two differ at span length 1.

  Args:
    inputs_length: tokens the inputs may take, EOS counted.
    noise_density: share of noise tokens.
    mean_noise_span_length: tokens per noise span.
    extra_tokens_per_span_inputs: sentinels per noise span in the inputs.
    extra_tokens_per_span_targets: sentinels per non-noise span in the targets.

  Returns:
    (raw tokens per example, length of the targets with EOS).
  """

  def corrupted_lengths(raw_length):
    num_noise = round(raw_length * noise_density)
    num_spans = round(num_noise / mean_noise_span_length)
    inputs = raw_length - num_noise + num_spans * extra_tokens_per_span_inputs
    targets = num_noise + num_spans * extra_tokens_per_span_targets
    return inputs + 1, targets + 1

  raw_length = inputs_length - 1
  while corrupted_lengths(raw_length + 1)[0] <= inputs_length:
    raw_length += 1
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


def sizes(rewrite: str, masks: np.ndarray) -> np.ndarray:
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
