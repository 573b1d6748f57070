"""What is known of a resample from sums over its examples."""

from collections.abc import Callable

import numpy as np

# counts_BN, how often each of B resamples has each of N examples -> metric ->
# its values [B].
Resampled = Callable[[np.ndarray], dict[str, np.ndarray]]


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
  """Returns the quotient, 0 where there is nothing to divide by."""
  numerator, denominator = np.broadcast_arrays(numerator, denominator)
  return np.divide(
    numerator,
    denominator,
    out=np.zeros(numerator.shape),
    where=denominator != 0,
  )
