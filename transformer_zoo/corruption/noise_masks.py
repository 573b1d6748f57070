"""Noise masks: which tokens of a sequence are corrupted (True is noise).

Every function takes a `numpy.random.Generator` and draws from it alone, so
that a mask is a pure function of the generator's state.
"""

import numpy as np


def count_spans(
  length: int, noise_density: float, mean_noise_span_length: float
) -> tuple[int, int]:
  """Returns (noise tokens, noise spans) of `random_spans` at `length` tokens.

  Both are fixed by the three arguments; only their places are drawn. Halves
  are rounded to even, as in t5 (`random_spans_noise_mask`).

  Args:
    length: tokens in the sequence, at least 2.
    noise_density: share of noise tokens, between 0 and 1.
    mean_noise_span_length: tokens per noise span, at least 1.

  Returns:
    `clamp(round(length * density), 1, length - 1)` and
    `max(1, round(noise / mean))`. The second is also kept within the number
    of non-noise tokens, which t5 leaves out (it matters above density 0.5).
  """
  num_noise = min(max(round(length * noise_density), 1), length - 1)
  num_spans = max(1, round(num_noise / mean_noise_span_length))
  return num_noise, min(num_spans, num_noise, length - num_noise)


def random_segmentation(
  num_items: int, num_segments: int, rng: np.random.Generator
) -> np.ndarray:
  """Cuts `num_items` into non-empty segments, every way equally likely.

  Args:
    num_items: at least `num_segments`.
    num_segments: at least 1.
    rng: source of the draw.

  Returns:
    int64 segment lengths, shape [num_segments], summing to `num_items`.
  """
  cuts = rng.choice(num_items - 1, num_segments - 1, replace=False)
  edges = np.concatenate([[0], np.sort(cuts) + 1, [num_items]])
  return np.diff(edges)


def random_spans(
  length: int,
  noise_density: float,
  mean_noise_span_length: float,
  rng: np.random.Generator,
) -> np.ndarray:
  """Draws a mask of random spans with an exact number of noise tokens.

  Spans alternate, beginning with non-noise and so ending in noise: the last
  token is always noise, and the targets have no closing sentinel although the
  T5 paper's Figure 2 shows one. From t5 `random_spans_noise_mask`.

  Args:
    length: tokens in the sequence. A single token is never noise.
    noise_density: share of noise tokens, between 0 and 1.
    mean_noise_span_length: tokens per noise span, at least 1.
    rng: source of the draw.

  Returns:
    boolean mask, shape [length].
  """
  if length < 2:
    return np.zeros(length, bool)
  num_noise, num_spans = count_spans(
    length, noise_density, mean_noise_span_length
  )
  noise_lengths = random_segmentation(num_noise, num_spans, rng)
  other_lengths = random_segmentation(length - num_noise, num_spans, rng)
  lengths = np.stack([other_lengths, noise_lengths], axis=1).ravel()
  return np.repeat(np.arange(2 * num_spans) % 2 == 1, lengths)


def iid(
  length: int, noise_density: float, rng: np.random.Generator
) -> np.ndarray:
  """Draws a mask in which each token is noise on its own (t5 `iid_noise_mask`).

  Args:
    length: tokens in the sequence.
    noise_density: chance of each token to be noise.
    rng: source of the draw.

  Returns:
    boolean mask, shape [length].
  """
  return rng.random(length) < noise_density
