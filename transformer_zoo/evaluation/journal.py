"""A journal of finished batches, with which a killed evaluation continues.

A file of JSON Lines: first the fingerprint of the evaluation, then a line for
each batch. A line that a kill cut short, and all after it, are computed again.
"""

from collections.abc import Callable, Mapping
import json
import pathlib
from typing import Any

Rows = list[dict[str, Any]]


class Journal:
  """The values that have been computed so far.

  Attributes:
    path: The path of the file.
    batches: The computed values of each batch's examples, in order.
  """

  def __init__(
    self,
    path: pathlib.Path,
    fingerprint: Mapping[str, str],
    *,
    writes: bool = True,
    report: Callable[[str], None] = lambda line: None,
  ):
    """Opens the file, anew where it is of another evaluation.

    Args:
      path: The path of the file, in an existing folder.
      fingerprint: all that the results depend on, in parts with a name.
      writes: False in all processes but one.
      report: called with a sentence where the file is of another evaluation.
    """
    self.path = path
    self.batches: list[Rows] = []
    self._file = None
    header = json.dumps({"fingerprint": dict(fingerprint)}).encode() + b"\n"
    content = path.read_bytes() if path.exists() else b""
    whole = len(header)
    if content.startswith(header):
      for line in content[whole:].splitlines(keepends=True):
        try:
          rows = json.loads(line)
        except ValueError:
          break
        if not line.endswith(b"\n"):
          break
        self.batches.append(rows)
        whole += len(line)
    elif content:
      changes = ", ".join(_changes(content, fingerprint))
      report(f"{path} is of another evaluation ({changes}): it is made anew")
    if not writes:
      return
    if content.startswith(header):
      self._file = open(path, "r+b")
      self._file.truncate(whole)
      self._file.seek(whole)
    else:
      self._file = open(path, "wb")
      self._file.write(header)
      self._file.flush()

  def append(self, rows: Rows) -> None:
    """Adds a batch; it is in the file when this returns."""
    self.batches.append(rows)
    if self._file is not None:
      self._file.write(json.dumps(rows).encode() + b"\n")
      self._file.flush()

  def close(self) -> None:
    """Closes the file, which stays."""
    if self._file is not None:
      self._file.close()

  def __enter__(self) -> "Journal":
    return self

  def __exit__(self, *exception) -> None:
    self.close()


def _changes(content: bytes, fingerprint: Mapping[str, str]) -> list[str]:
  """The parts of the fingerprint that differ from those in the file."""
  try:
    before = json.loads(content.splitlines()[0])["fingerprint"]
    names = before.keys() | fingerprint.keys()
  except (ValueError, KeyError, TypeError, AttributeError):
    return ["it cannot be read"]
  return sorted(n for n in names if before.get(n) != fingerprint.get(n))
