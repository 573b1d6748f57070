"""The error for mistakes of a user, and suggestions for misspelt names.

Bad input raises `UserError` before anything is compiled. `zoo` prints
`zoo: error: <message>` on stderr and exits with code 2.
"""

from collections.abc import Iterable
import difflib


class UserError(ValueError):
  """Bad input, described in one sentence.

  The sentence names the setting, its value, the allowed values and the fix.
  `zoo` prints it without a traceback and exits with code 2.
  """


def sentence(error: BaseException) -> str:
  """Returns the text of an error, without what gin appends to it."""
  return str(error).partition("\n  In call to configurable")[0]


def nearest(name: str, allowed: Iterable[str], most: int = 3) -> str:
  """Returns the clause that names what a misspelt `name` may have meant.

  Args:
    name: The name that the user wrote.
    allowed: every name that exists.
    most: The largest number of suggestions.

  Returns:
    `"; did you mean 'a', 'b'?"` with the nearest names, or, where nothing is
    near, `"; allowed: 'a', 'b', ..."` with the first ones in order.
  """
  allowed = sorted(set(allowed))
  close = difflib.get_close_matches(name, allowed, n=most, cutoff=0.5)
  if close:
    return "; did you mean " + ", ".join(map(repr, close)) + "?"
  shown = ", ".join(map(repr, allowed[:8])) or "none"
  return "; allowed: " + shown + (", ..." if len(allowed) > 8 else "")
