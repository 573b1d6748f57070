"""In which language a page is written, and with which probability."""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

import gin

from transformer_zoo.errors import UserError


@functools.cache
def _identifier() -> Any:
  # The module's own `classify` gives scores that are no probabilities.
  from py3langid import langid

  return langid.LanguageIdentifier.from_model_file(
    langid.MODEL_FILE, norm_probs=True
  )


@gin.register
@dataclasses.dataclass(frozen=True)
class Py3langid:
  """The language detector of the library py3langid, 97 languages and more.

  Attributes:
    most_characters: The number of characters of a page that are read, as many
      as langdetect reads, with which C4 was made.
  """

  most_characters: int = 10_000

  def __call__(self, text: str) -> tuple[str, float]:
    """Returns an ISO 639 code and its probability."""
    return _identifier().classify(text[: self.most_characters])


@gin.register
@dataclasses.dataclass(frozen=True)
class LanguageFilter:
  """Keeps pages of one language (Raffel et al. 2020, section 2.2).

  The paper asks langdetect for 0.99. Probabilities of detectors do not compare:
  py3langid's are lower on short or odd pages.

  Attributes:
    language: the code that the detector has for it.
    min_probability: the least that the detector must give.
    detect: A function from a text to a language code and a probability, or an
      instance of a class at the top of a module, since workers import it.
  """

  language: str = "en"
  min_probability: float = 0.99
  detect: Callable[[str], tuple[str, float]] = Py3langid()

  def __post_init__(self):
    if not 0 <= self.min_probability <= 1:
      raise UserError(
        f"LanguageFilter.min_probability is {self.min_probability}; a "
        "probability lies between 0 and 1."
      )

  def keeps(self, text: str) -> bool:
    """Whether a page is in the language."""
    language, probability = self.detect(text)
    return language == self.language and probability >= self.min_probability
