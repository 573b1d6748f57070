"""Numbers as the text of reports."""


def p_value(value: float) -> str:
  """Returns `p = 0.012`, or `p < 0.001`."""
  return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def number(value: float, decimals: int = 2) -> str:
  """Returns a score with a typographic minus."""
  return f"{value:.{decimals}f}".replace("-", "−")


def signed(value: float, decimals: int = 2) -> str:
  """Returns a difference with its sign and a typographic minus."""
  return f"{value:+.{decimals}f}".replace("-", "−")


def compact(value: float) -> str:
  """Returns a count in three digits: `812 k`, `34.4 M`, `1.23 G`, `4.5 P`."""
  for exponent, unit in ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M")):
    if value >= 0.9995 * 10**exponent:
      return f"{_three_digits(value / 10**exponent)} {unit}"
  return f"{value:,.0f}" if value < 1e5 else f"{_three_digits(value / 1e3)} k"


def _three_digits(value: float) -> str:
  return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"
