"""Rules of the rates of parameters by the size of a model, as data.

What is tuned on a small model then holds for a large one: maximal update
parametrization (muP: Yang et al. 2022, "Tensor Programs V", table 8), and
CompleteP, which adds depth (Dey et al. 2025).
"""

import gin

from transformer_zoo.errors import UserError


@gin.register(module="rates")
def of_width(width: int, base_width: int) -> tuple[tuple[str, float], ...]:
  """Factors of the rates of Adam by muP, for `discriminative`.

  Kernels, of the output too, read `width` numbers or a fixed multiple of them:
  their rate is that of the base divided by how many times as many they are.
  Embeddings, scales and biases have the base's.

  Args:
    width: d_model.
    base_width: The d_model at which the rate was tuned.

  Raises:
    UserError: a width is below 1.
  """
  return ((r".*/kernel", share(base_width, width)),)


@gin.register(module="rates")
def share(base: int, number: int) -> float:
  """The base divided by a number: of widths, or of layers.

  Raises:
    UserError: one of them is below 1.
  """
  if min(base, number) < 1:
    raise UserError(
      f"rates.share has base {base} and number {number}; both are sizes, of 1 "
      "or more"
    )
  return base / number
