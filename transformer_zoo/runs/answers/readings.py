"""Readings that `infer` takes of a model instead of answers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from flax import linen as nn

from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions


class Reads(Protocol):
  """Computes readings batch by batch, as `answering.Answering` does answers."""

  def answers(
    self, examples: Iterable[Mapping[str, Any]], first: int = 0
  ) -> Iterator[list[dict[str, Any]]]:
    """Yields, for each batch, its examples with what was read."""


class Reading(Protocol):
  """A kind of reading; `Embedding` and `AttentionMaps` are some."""

  def model_of(self, model: nn.Module) -> nn.Module:
    """Returns the model that is read, without computing anything.

    Raises:
      UserError: The model has nothing of the kind.
    """

  def check(
    self, examples: Iterable[Mapping[str, Any]], vocabulary: Vocabulary
  ) -> Iterator[Mapping[str, Any]]:
    """Yields the examples.

    Raises:
      UserError: An example has too few or too many texts.
    """

  def answering(
    self,
    model: nn.Module,
    vocabulary: Vocabulary,
    *,
    lengths: Mapping[str, int],
    decoding: DecodingOptions,
    **parts: Any,
  ) -> Reads:
    """Returns what computes it; arguments as of `answering.Answering`."""
