"""How long raw text, inputs and targets of a corruption are, in tokens."""

from collections.abc import Mapping
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


def share_of_cut_targets(
  corruption: Any,
  lengths: Mapping[str, int],
  vocabulary: Any,
  rng: np.random.Generator,
  draws: int = 1000,
) -> float:
  """Estimates how many full examples lose the end of their targets.

  Span corruption cuts all or none; i.i.d. noise cuts some: the published
  10 % row of T5 cut a third of its targets at length 103.

  Args:
    corruption: an object with `raw_length` and `__call__` as `SpanCorruption`.
    lengths: tokens of `inputs` and `targets`, EOS counted.
    vocabulary: an object with `sentinel_ids`.
    rng: source of the draws.
    draws: examples drawn.

  Returns:
    share between 0 and 1 of examples whose targets with EOS are longer than
    `lengths['targets']`.
  """
  tokens = np.zeros(corruption.raw_length(lengths), np.int32)
  cut = [
    len(corruption(tokens, rng, vocabulary)["targets"]) + 1 > lengths["targets"]
    for _ in range(draws)
  ]
  return float(np.mean(cut))
