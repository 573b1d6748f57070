"""Perplexity of target texts, per token and per word.

The perplexity of a model of other pieces is compared per word: the nats of all
target tokens, EOS among them, over the words of the texts.
"""

from collections.abc import Sequence
import math

from transformer_zoo.evaluation.metrics import classification

# The exponent beyond which a perplexity is no float.
MOST_NATS = 700.0


def perplexity(
  targets: Sequence[str | Sequence[str]],
  scores: Sequence[float],
  target_tokens: Sequence[int] | None = None,
) -> dict[str, float]:
  """Perplexity of the target texts; lower is better.

  Args:
    targets: The text of each example; of several references, the first.
    scores: The log-likelihood of each example's targets, in nats.
    target_tokens: The number of tokens of each example's targets; None where
      the caller knows none, as SeqIO.

  Returns:
    `word_perplexity`, and `perplexity` per token where tokens are known.
  """
  classification.check_lengths(targets, scores)
  nats = -math.fsum(scores)
  words = sum(map(num_words, targets))
  found = {"word_perplexity": _exponential(nats, words)}
  if target_tokens is not None:
    found["perplexity"] = _exponential(nats, sum(target_tokens))
  return found


def num_words(target: str | Sequence[str]) -> int:
  """The number of words of a text; of several references, of the first."""
  text = target if isinstance(target, str) else target[0]
  return len(text.split())


def _exponential(nats: float, number: int) -> float:
  return math.exp(min(nats / max(number, 1), MOST_NATS))
