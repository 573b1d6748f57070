"""Splitting text into sentences."""

import dataclasses

import gin


@gin.register
@dataclasses.dataclass(frozen=True)
class Sentencex:
  """Sentences by the rules of the library sentencex.

  TFDS builds C4 with NLTK's Punkt model, a download. The two differ where a
  full stop may belong to an abbreviation.

  Attributes:
    language: an ISO 639-1 code; sentencex knows about 300 languages.
  """

  language: str = "en"

  def __call__(self, line: str) -> list[str]:
    """Returns the sentences of a line, which together are the line."""
    import sentencex

    pieces = sentencex.segment(self.language, line)
    return [piece for piece in pieces if piece.strip()]
