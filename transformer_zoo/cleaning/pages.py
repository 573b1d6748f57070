"""Cleaning of one page: rules and repeats until nothing changes."""

import dataclasses

from transformer_zoo.cleaning.duplicates import DuplicateSpans
from transformer_zoo.cleaning.rules import BadWords
from transformer_zoo.cleaning.rules import Counts
from transformer_zoo.cleaning.rules import LINES
from transformer_zoo.cleaning.rules import PAGES
from transformer_zoo.cleaning.rules import Rules


@dataclasses.dataclass(frozen=True)
class PageCleaning:
  """Brings a page to where nothing in it changes any more.

  A line that has lost a sentence may be too short, and sentences that come
  together may make a span that the page has elsewhere.

  Attributes:
    rules: The rules of a page, or None.
    spans: The spans that may not occur twice, or None.
    bad_words: The bad words of the rule about them, or None.
  """

  rules: Rules | None = None
  spans: DuplicateSpans | None = None
  bad_words: BadWords | None = None

  def clean(self, text: str, url: str = "") -> tuple[str | None, Counts]:
    """Returns the text, None for a page dropped, and what was dropped."""
    counts, settled = Counts(), False
    while not settled:
      if self.rules is not None:
        cleaned, dropped = self.rules.clean(text, url, self.bad_words)
        counts += dropped
        if cleaned is None:
          return None, counts
        text = cleaned
      rest = self.spans.without_repeats(text) if self.spans else text
      counts[LINES, "repeat"] += text.count("\n") - rest.count("\n")
      settled, text = rest == text, rest
    if not text:
      counts[PAGES, "empty"] += 1
      return None, counts
    return text, counts
