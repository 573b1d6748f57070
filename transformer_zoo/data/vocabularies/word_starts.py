"""With which pieces a word begins."""

from collections.abc import Sequence

import numpy as np

# How pieces say that a space stands before them: SentencePiece, byte-level BPE
# (space and newline), and bytes themselves.
_SPACES = ("▁", "Ġ", "Ċ", " ", "\t", "\n", "\r")
# How pieces of WordPiece say that none does.
_CONTINUES = "##"


def find(pieces: Sequence[str | None]) -> np.ndarray | None:
  """Returns True for each piece that a word may begin with, bool [size].

  A word is what stands between spaces; in WordPiece, which splits at
  punctuation before, punctuation too is a word.

  Args:
    pieces: of each id, None for those that are not written.

  Returns:
    None if no piece tells.
  """
  pieces = [piece or "" for piece in pieces]
  begins = np.array([piece.startswith(_SPACES) for piece in pieces])
  continues = np.array([piece.startswith(_CONTINUES) for piece in pieces])
  if not (begins.any() or continues.any()):
    return None
  return begins if begins.sum() > continues.sum() else ~continues
