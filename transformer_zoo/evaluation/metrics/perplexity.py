"""Perplexity of target texts, per token and per word.

The perplexity of a model of other pieces is compared per word: the nats of all
target tokens, EOS among them, over the words of the texts.
"""

from collections.abc import Sequence
import math

from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.metrics import classification

# The exponent beyond which a perplexity is no float.
MOST_NATS = 700.0


def perplexity(
  targets: Sequence[str | Sequence[str]],
  scores: Sequence[float],
  target_tokens: Sequence[int] | None = None,
  target_words: Sequence[int] | None = None,
) -> dict[str, float]:
  """Perplexity of the target texts; lower is better.

  Args:
    targets: The text of each example; of several references, the first.
    scores: The log-likelihood of each example's targets, in nats.
    target_tokens: The number of tokens of each example's targets; None where
      the caller knows none, as SeqIO.
    target_words: The number of words of the tokens that are scored, which are
      fewer where targets are cut, and others where a task compares answers
      with references; None for the words of `targets`.

  Returns:
    `word_perplexity`, and `perplexity` per token where tokens are known.

  Raises:
    UserError: The targets are no texts, and their words are not given.
  """
  classification.check_lengths(targets, scores)
  nats = -math.fsum(scores)
  if target_words is None:
    target_words = [*map(num_words, targets)]
  found = {"word_perplexity": _exponential(nats, sum(target_words))}
  if target_tokens is not None:
    found["perplexity"] = _exponential(nats, sum(target_tokens))
  return found


def num_words(target: str | Sequence[str]) -> int:
  """The number of words of a text; of several references, of the first.

  Raises:
    UserError: The target is no text.
  """
  text = target
  if isinstance(target, Sequence) and target:
    text = target if isinstance(target, str) else target[0]
  if not isinstance(text, str):
    raise UserError(
      f"perplexity per word counts the words of target texts, and a target is "
      f"{target!r}; leave the metric out, or the labels or numbers that the "
      "task turns its texts into"
    )
  return len(text.split())


def _exponential(nats: float, number: int) -> float:
  return math.exp(min(nats / max(number, 1), MOST_NATS))
