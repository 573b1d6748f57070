"""Numbers as text: in bins, as STS-B has them, or digit by digit.

    Bins(step=0.2, least=0, most=5)   2.57 -> '2.6'
    Bins(step=20)                   -134.5 -> '-140'
    Digits(decimals=1)              -134.5 -> '- 1 3 4 . 5'

Raffel et al. 2020, section 2.4, make a regression a choice among the texts of
bins. Digit by digit, every sign is a token of its own, so any number of any
range has a text that is as exact as its decimals. Both are read back by
`post_processors.spelled_number`.
"""

import dataclasses
import decimal
import math

from transformer_zoo.errors import UserError


def _exactly(number: float) -> decimal.Decimal:
  """The decimal number that is written as the float is."""
  return decimal.Decimal(repr(float(number)))


def _bin(number: float, step: float) -> decimal.Decimal:
  """The multiple of the step that is nearest to a number."""
  places = _exactly(number) / _exactly(step)
  return places.to_integral_value(decimal.ROUND_HALF_EVEN) * _exactly(step)


def _finite(number: float) -> float:
  if not math.isfinite(number):
    raise UserError(f"{number!r} has no text; give a finite number.")
  return number


@dataclasses.dataclass(frozen=True)
class Bins:
  """Multiples of a step, of which a number becomes the nearest.

  Halves go to the even multiple, as in STS-B's text. A number outside of the
  range becomes the end of the range that is nearer.

  Attributes:
    step: The distance of two bins, above 0.
    least: The lowest bin, a multiple of the step; minus infinity for none.
    most: The highest bin, a multiple of the step; infinity for none.
  """

  step: float
  least: float = -math.inf
  most: float = math.inf

  def __post_init__(self):
    if not (self.step > 0 and math.isfinite(self.step)):
      raise UserError(
        f"Bins.step is {self.step!r}; it must be a distance of bins above 0."
      )
    if not self.least < self.most:
      raise UserError(
        f"Bins.least is {self.least!r} and most {self.most!r}; least must be "
        "less."
      )

    for name in ("least", "most"):
      end = getattr(self, name)
      if math.isfinite(end) and _bin(end, self.step) != _exactly(end):
        raise UserError(
          f"Bins.{name} is {end!r}, which is no multiple of the step "
          f"{self.step!r}; give an end of the range that is a bin."
        )

  def __call__(self, number: float) -> str:
    """Returns the text of a number.

    Raises:
      UserError: The number is infinite or not-a-number.
    """
    number = min(max(_finite(number), self.least), self.most)
    step = _exactly(self.step)
    decimals = max(-step.normalize().as_tuple().exponent, 0)
    return _without_minus_zero(f"{_bin(number, self.step):.{decimals}f}")


@dataclasses.dataclass(frozen=True)
class Digits:
  """Signs of the decimal number, with a space between each two.

  Attributes:
    decimals: The number of digits behind the point, 0 or more; 0 for whole
      numbers, without a point.
  """

  decimals: int = 0

  def __post_init__(self):
    if not isinstance(self.decimals, int) or self.decimals < 0:
      raise UserError(
        f"Digits.decimals is {self.decimals!r}; it must be a whole number of "
        "digits, 0 or more."
      )

  def __call__(self, number: float) -> str:
    """Returns the text of a number.

    Raises:
      UserError: The number is infinite or not-a-number.
    """
    text = f"{_exactly(_finite(number)):.{self.decimals}f}"
    return " ".join(_without_minus_zero(text))


def _without_minus_zero(text: str) -> str:
  """The text, without the sign of what was rounded to zero."""
  return text.removeprefix("-") if not text.strip("-0.") else text
