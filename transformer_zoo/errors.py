"""The error for mistakes of a user, and the words of errors.

Bad input raises `UserError` before anything is compiled. `zoo` prints
`zoo: error: <message>` on stderr and exits with code 2.
"""

from collections.abc import Iterable
import difflib
import os
import re

# The number of a system's error at the end of a line of TensorStore's.
_OS_ERROR = re.compile(r"os_error_code='(\d+)'")


class UserError(ValueError):
  """Bad input, described in one sentence.

  The sentence names the setting, its value, the allowed values and the fix.
  `zoo` prints it without a traceback and exits with code 2.
  """


def sentence(error: BaseException) -> str:
  """Returns the text of an error, without what gin appends to it."""
  return str(error).partition("\n  In call to configurable")[0]


def reason_of(error: Exception) -> str:
  """Returns the error of a library about a file, in a few words."""
  text = str(error).strip()
  code = _OS_ERROR.search(text)
  number = int(code.group(1)) if code else getattr(error, "errno", None)
  if number:
    return os.strerror(number)
  return (text.splitlines() or [type(error).__name__])[0][:200]


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


def no_checkpoint(path: str) -> UserError:
  """Returns the error for the path of a checkpoint where nothing is."""
  told = f"there is no checkpoint {path!r}"
  owner, _, name = path.rpartition("/")
  is_name = name and "/" not in owner and not path.startswith(("/", "."))
  if is_name and not (owner and os.path.exists(owner)):
    told += (
      "; nothing is downloaded: fetch a model of Hugging Face by `hf download "
      f"{path} --local-dir {name}` first, and give its folder"
    )
  return UserError(told)
